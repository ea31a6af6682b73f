import Foundation
import Testing

@testable import ApusStore

/// The engine takes some damage of its list of tables for its end, and removes the tables that it then does not name.
@Suite("Damage in the store's MANIFEST")
struct ManifestDamageTests {
  private let scratch = Scratch()
  private let count = 40

  private func key(_ number: Int) -> [UInt8] { [0, UInt8(number)] }

  /// A store with some tables and a log, as after a kill. Returns the name of its MANIFEST.
  private func make() async throws -> String {
    let store = try RocksStore(path: scratch.path)
    for number in 0..<count {
      #expect(await commit(store) { $0.put(.meta, key(number), [UInt8(number)]) } == nil)
      if number % 10 == 9 { try store.compact(.meta) }
    }
    try scratch.kill(store)
    return try #require(scratch.names(prefix: "MANIFEST").last)
  }

  private func expectRefusal(_ name: String, _ change: (inout [UInt8]) throws -> Void) throws {
    let before = try scratch.files()
    try scratch.change(name, change)
    let error = #expect(throws: StoreError.self) { try RocksStore(path: scratch.path) }
    guard case .corrupted(scratch.path, let detail) = error, detail.contains(name) else {
      Issue.record("\(String(describing: error))")
      return
    }
    let findings = StoreSurvey(path: scratch.path).findings
    #expect(findings.contains { $0.hasPrefix("\(name): damaged at byte ") }, "\(findings)")
    // Nothing was removed: with the original file, everything is there.
    try before[name]?.write(to: URL(filePath: "\(scratch.path)/\(name)"))
    #expect(try scratch.files() == before)
    let store = try RocksStore(path: scratch.path)
    for number in 0..<count { #expect(try store.get(.meta, key(number)) == [UInt8(number)]) }
    store.close()
  }

  enum Place: CaseIterable {
    case first, middle, last

    func offset(in offsets: [Int]) -> Int {
      switch self {
      case .first: offsets[0]
      case .middle: offsets[offsets.count / 2]
      case .last: offsets[offsets.count - 1]
      }
    }
  }

  @Test(
    "A damaged header of the first, a middle or the last record stops the start",
    arguments: Place.allCases, HeaderDamage.allCases)
  func damagedHeader(place: Place, damage: HeaderDamage) async throws {
    let name = try await make()
    try expectRefusal(name) { log in try damage.apply(to: &log, place.offset) }
  }

  @Test(
    "A flipped bit in the first, a middle or the last record stops the start",
    arguments: Place.allCases)
  func flippedBit(place: Place) async throws {
    let name = try await make()
    try expectRefusal(name) { log in
      let offset = place.offset(in: try recordOffsets(in: log))
      log[offset + 8] ^= 0x10
    }
  }

  @Test("The survey reads which logs are in use, and the last write")
  func logsInUse() async throws {
    let name = try await make()
    let survey = StoreSurvey(path: scratch.path)
    let manifest = try #require(survey.manifest)
    #expect(manifest.name == name && manifest.survey.isWhole)
    #expect(manifest.survey.lastSequence == UInt64(count))
    #expect(manifest.survey.editsBefore > 6 && manifest.survey.editsAfter == 0)
    // Other families have no rows, and the tables have all of this one.
    let logs = try scratch.names(suffix: ".log").compactMap(StoreProgress.logNumber)
    #expect(logs.contains(manifest.survey.firstLog), "\(manifest.survey.firstLog) of \(logs)")
    #expect(survey.findings.isEmpty)
  }

  @Test("A log that ends before the last write in the MANIFEST is incomplete")
  func shortLog() async throws {
    var options = RocksOptions()
    options.memtableBytes = 4 << 20
    options.progressMilliseconds = 0
    let store = try RocksStore(path: scratch.path, options: options)
    #expect(await commit(store) { $0.put(.meta, key(0), [1]) } == nil)
    // The rows of another family are written to a table, this one stays in the log only.
    for number in 0..<10 {
      #expect(await commit(store) { $0.put(.feedback, key(number), [2]) } == nil)
    }
    try store.compact(.feedback)
    try scratch.kill(store)
    let logs = try scratch.names(suffix: ".log")
    try scratch.change(try #require(logs.first)) { log in
      let end = try recordOffsets(in: log)[8]
      log.removeLast(log.count - end)
    }
    for name in logs.dropFirst() {
      try FileManager.default.removeItem(atPath: "\(scratch.path)/\(name)")
    }
    try FileManager.default.removeItem(atPath: "\(scratch.path)/PROGRESS")
    let findings = StoreSurvey(path: scratch.path).findings
    #expect(
      findings.contains { $0.hasPrefix("\(logs[0]): 3 writes missing at its end") }, "\(findings)")
    #expect(throws: StoreError.self) { try RocksStore(path: scratch.path) }
  }
}
