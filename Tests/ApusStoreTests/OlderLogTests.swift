import Foundation
import Testing

@testable import ApusStore

/// Only the newest log may end anywhere. To the engine, each may.
@Suite("Damage in an older log of the store")
struct OlderLogTests {
  private let scratch = Scratch()
  private let count = 20
  private let value = [UInt8](repeating: 0x5a, count: 100_000)

  private func key(_ number: Int) -> [UInt8] { [0, UInt8(number)] }

  /// A store with two logs, as after a kill. Returns the name of the older one.
  private func make() async throws -> String {
    var options = RocksOptions()
    options.memtableBytes = 4 << 20
    let store = try RocksStore(path: scratch.path, options: options)
    // These rows keep the first log. Filling the memtable of another family begins the second one.
    for number in 0..<count {
      #expect(await commit(store) { $0.put(.meta, key(number), [UInt8(number)]) } == nil)
    }
    for number in 0..<25 {
      #expect(await commit(store) { $0.put(.mailbox, key(number), value) } == nil)
    }
    try scratch.kill(store)
    let logs = try scratch.names(suffix: ".log")
    try #require(logs.count == 2, "\(logs)")
    return logs[0]
  }

  private func expectRefusal(_ name: String, _ change: (inout [UInt8]) throws -> Void) throws {
    let original = try Data(contentsOf: URL(filePath: "\(scratch.path)/\(name)"))
    try scratch.change(name, change)
    let error = #expect(throws: StoreError.self) { try RocksStore(path: scratch.path) }
    guard case .corrupted(scratch.path, _) = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(!StoreSurvey(path: scratch.path).findings.isEmpty)
    try original.write(to: URL(filePath: "\(scratch.path)/\(name)"))
    let store = try RocksStore(path: scratch.path)
    for number in 0..<count { #expect(try store.get(.meta, key(number)) == [UInt8(number)]) }
    for number in 0..<25 { #expect(try store.get(.mailbox, key(number)) == value) }
    store.close()
  }

  @Test("Truncation stops the start, within a record and between two", arguments: [false, true])
  func truncated(isBetween: Bool) async throws {
    let name = try await make()
    try expectRefusal(name) { log in
      let offsets = try recordOffsets(in: log)
      let end = isBetween ? offsets[count] : log.count / 2
      log.removeLast(log.count - end)
    }
  }

  @Test(
    "A damaged header in the first, a middle or the last group stops the start",
    arguments: [0, 10, nil], HeaderDamage.allCases)
  func damagedHeader(group: Int?, damage: HeaderDamage) async throws {
    let name = try await make()
    try expectRefusal(name) { log in
      try damage.apply(to: &log) { $0[group ?? $0.count - 1] }
    }
  }

  @Test("A flipped bit in the first, a middle or the last group stops the start", arguments: 0..<3)
  func flippedBit(third: Int) async throws {
    let name = try await make()
    try expectRefusal(name) { log in
      let place = min(log.count - 1, log.count * third / 2 + 12)
      log[place] ^= 0x10
    }
  }
}
