import ApusModel
import Foundation
import Synchronization
import Testing

@testable import ApusStore

/// A crash leaves the end of the store's log cut off. Anything else wrong with it is damage, after which there are
/// accepted notifications.
@Suite("Damage in the store's log")
struct LogDamageTests {
  private let scratch = Scratch()
  private let count = 40
  private let value = [UInt8](repeating: 0x5a, count: 1000)

  private func key(_ number: Int) -> [UInt8] { [0, UInt8(number)] }

  /// Makes a store of some groups, each synced separately, and changes its log like a crash or a disk fault.
  private func make(_ change: (inout [UInt8]) throws -> Void) async throws {
    let store = try RocksStore(path: scratch.path)
    for number in 0..<count {
      #expect(await commit(store) { $0.put(.meta, key(number), value) } == nil)
    }
    try scratch.kill(store)
    try scratch.change(#require(scratch.names(suffix: ".log").last), change)
  }

  private func expectCorrupted() throws {
    let error = #expect(throws: StoreError.self) { try RocksStore(path: scratch.path) }
    guard case .corrupted(scratch.path, _) = error else {
      Issue.record("\(String(describing: error))")
      return
    }
  }

  @Test(
    "A flipped bit in the first, a middle or the last group stops the start",
    arguments: [0, 20, 39])
  func flippedBit(group: Int) async throws {
    try await make { $0[$0.count * group / count + 500] ^= 0x10 }
    try expectCorrupted()
    try expectSurvey(group: group)
  }

  @Test(
    "A damaged header of the first, a middle or the last group stops the start",
    arguments: [0, 20, 39], HeaderDamage.allCases)
  func damagedHeader(group: Int, damage: HeaderDamage) async throws {
    try await make { log in try damage.apply(to: &log) { $0[group] } }
    try expectCorrupted()
    try expectSurvey(group: group)
  }

  /// Expects that everything before `group` is readable, and that what is lost is counted.
  private func expectSurvey(group: Int) throws {
    let store = StoreSurvey(path: scratch.path)
    let survey = try #require(store.logs.compactMap(\.survey).first { !$0.isWhole })
    #expect(survey.writesBefore == UInt64(group))
    let damage = try #require(survey.damage.first)
    #expect(damage.bytes > 0)
    // The rest of the block is lost with the damaged record.
    let found = survey.writesBefore + survey.writesAfter
    if let lost = damage.lostWrites {
      #expect(found + lost == UInt64(count))
    } else {
      // Before the first batch and after the last one the number lost is unknown.
      #expect(group == 0 && damage.isFollowed || group == count - 1 && found == UInt64(group))
    }
    #expect(store.findings.count == 1, "\(store.findings)")
  }

  @Test(
    "With a damaged header, too, only the rest of the damaged block is missing in the end",
    arguments: HeaderDamage.allCases)
  func acceptedHeader(damage: HeaderDamage) async throws {
    try await make { log in try damage.apply(to: &log) { $0[20] } }
    let name = try #require(scratch.names(suffix: ".log").last)
    // The copy of a damaged store has the same files, under second names.
    let second = scratch.root + "/second"
    try FileManager.default.linkItem(atPath: "\(scratch.path)/\(name)", toPath: second)
    let before = try Data(contentsOf: URL(filePath: second))
    var options = RocksOptions()
    options.acceptsLoss = true
    let store = try RocksStore(path: scratch.path, options: options)
    let lost = try (0..<count).filter { try store.get(.meta, key($0)) == nil }
    #expect(lost.first == 20 && lost.count <= 13, "\(lost)")
    #expect(try store.get(.meta, key(count - 1)) == value)
    store.close()
    #expect(try Data(contentsOf: URL(filePath: second)) == before)
    #expect(try scratch.names(suffix: ".new").isEmpty)
    try RocksStore(path: scratch.path).close()
  }

  @Test("If the operator accepts the loss, only the rest of the damaged block is missing")
  func acceptedLoss() async throws {
    try await make { $0[$0.count / 2] ^= 0x10 }
    let messages = Mutex<[String]>([])
    var options = RocksOptions()
    options.acceptsLoss = true
    options.onMessage = { line in messages.withLock { $0.append(line) } }
    let store = try RocksStore(path: scratch.path, options: options)
    let lost = try (0..<count).filter { try store.get(.meta, key($0)) == nil }
    // The rest of the damaged block of 32 KB, because its length may be wrong.
    #expect(!lost.isEmpty && lost.count <= 32 && lost.count < count / 2, "\(lost)")
    #expect(lost.last == lost.first.map { $0 + lost.count - 1 }, "\(lost)")
    #expect(lost.last ?? count < count - 1, "\(lost)")
    // The engine reports the file, the bytes lost and the reason.
    #expect(
      messages.withLock { $0 }.contains {
        $0.contains(".log: dropping") && $0.contains("checksum")
      },
      "\(messages.withLock { $0 })")
    store.close()
  }

  @Test("A log whose last record is cut off opens, with everything before it")
  func tornTail() async throws {
    try await make { $0.removeLast(300) }
    let store = try RocksStore(path: scratch.path)
    for number in 0..<count - 1 { #expect(try store.get(.meta, key(number)) == value) }
    #expect(try store.get(.meta, key(count - 1)) == nil)
    store.close()
  }

  @Test("A log cut anywhere opens: only its newest groups are missing")
  func cutAnywhere() async throws {
    var log: [UInt8] = []
    try await make { log = $0 }
    let offsets = try recordOffsets(in: log)
    for length in stride(from: 0, to: log.count, by: 499) {
      var survey = LogSurvey()
      for start in stride(from: 0, through: length, by: LogSurvey.blockBytes) {
        let end = min(length, start + LogSurvey.blockBytes)
        survey.read(log.span.extracting(start..<end), isLast: end == length)
        if end == length { break }
      }
      #expect(survey.isWhole, "\(length)")
      let whole = offsets.dropFirst().prefix { $0 <= length }.count
      #expect(survey.writesBefore == UInt64(whole), "\(length)")
    }
  }
}

/// Damage that the engine does not notice, or not everywhere.
enum HeaderDamage: CaseIterable {
  /// The type is that of a record in a recycled log: to the engine the log ends there.
  case type
  /// The record does not fit into its block.
  case lengthOfBlock
  /// The record fits into its block, but in the last one not into the file.
  case lengthOfFile
  /// The rest of the block looks unused.
  case zeros

  /// - Parameter choose: Chooses one of the offsets of the records.
  func apply(to log: inout [UInt8], _ choose: ([Int]) -> Int) throws {
    let offset = choose(try recordOffsets(in: log))
    switch self {
    case .type: log[offset + 6] ^= 4
    case .lengthOfBlock: log[offset + 5] ^= 0x80
    case .lengthOfFile: log[offset + 5] ^= 0x20
    case .zeros: for index in offset..<offset + 7 { log[index] = 0 }
    }
  }
}

/// The offsets of the records in a log that begin a batch, or an edit of the list of tables.
func recordOffsets(in log: [UInt8]) throws -> [Int] {
  var offsets: [Int] = []
  var offset = 0
  while offset + 7 <= log.count {
    let rest = LogSurvey.blockBytes - offset % LogSurvey.blockBytes
    if rest < 7 {
      offset += rest
      continue
    }
    let type = log[offset + 6]
    try #require((1...4).contains(type))
    if type <= 2 { offsets.append(offset) }
    offset += 7 + Int(log[offset + 4]) + Int(log[offset + 5]) << 8
  }
  return offsets
}
