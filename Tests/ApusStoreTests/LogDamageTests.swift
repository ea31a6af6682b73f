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
  private func make(_ change: (inout Data) -> Void) async throws {
    // A copy of the files while the store is open: closing it would write tables.
    let store = try RocksStore(path: scratch.path)
    for number in 0..<count {
      #expect(await commit(store) { $0.put(.meta, key(number), value) } == nil)
    }
    let copy = scratch.root + "/copy"
    try FileManager.default.copyItem(atPath: scratch.path, toPath: copy)
    store.close()
    try FileManager.default.removeItem(atPath: scratch.path)
    try FileManager.default.moveItem(atPath: copy, toPath: scratch.path)
    let log = try #require(
      FileManager.default.contentsOfDirectory(atPath: scratch.path)
        .filter { $0.hasSuffix(".log") }.max())
    let file = URL(filePath: "\(scratch.path)/\(log)")
    var content = try Data(contentsOf: file)
    change(&content)
    try content.write(to: file)
  }

  @Test(
    "A flipped bit in the first, a middle or the last group stops the start",
    arguments: [0, 20, 39])
  func flippedBit(group: Int) async throws {
    try await make { $0[$0.count * group / count + 500] ^= 0x10 }
    let error = #expect(throws: StoreError.self) { try RocksStore(path: scratch.path) }
    guard case .corrupted(scratch.path, _) = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    let surveys = StoreSurvey(path: scratch.path).logs.compactMap(\.survey)
    let survey = try #require(surveys.first { !$0.isWhole })
    #expect(survey.writesBefore == UInt64(group))
    let damage = try #require(survey.damage.first)
    // The rest of the block is lost with the damaged record.
    let found = survey.writesBefore + survey.writesAfter
    if let lost = damage.lostWrites {
      #expect(found + lost == UInt64(count))
    } else {
      // Before the first batch and after the last one the number lost is unknown.
      #expect(group == 0 && damage.isFollowed || group == count - 1 && found == UInt64(group))
    }
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
}
