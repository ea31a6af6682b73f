import ApusModel
import ApusStore
import Foundation
import Testing

@Suite("Reading beside the store's writer")
struct RocksFollowerTests {
  let scratch = Scratch()
  var own: String { scratch.root + "/reader" }

  init() throws {
    try FileManager.default.createDirectory(atPath: own, withIntermediateDirectories: true)
  }

  @Test("It sees what was committed when it catches up, and writes nothing into the store")
  func follows() async throws {
    let store = try RocksStore(path: scratch.path)
    #expect(await commit(store) { $0.put(.ledger, [1], [10]) } == nil)
    let before = try FileManager.default.contentsOfDirectory(atPath: scratch.path).sorted()
    let follower = try RocksFollower(path: scratch.path, scratch: own)
    #expect(try follower.get(.ledger, key: [UInt8]([1]).span) == [10])
    #expect(await commit(store) { $0.put(.ledger, [2], [20]) } == nil)
    #expect(try follower.get(.ledger, key: [UInt8]([2]).span) == nil)
    try follower.catchUp()
    #expect(try follower.get(.ledger, key: [UInt8]([2]).span) == [20])
    #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.path).sorted() == before)
    store.close()
  }

  @Test("It reads a store that no process has open")
  func closed() async throws {
    let store = try RocksStore(path: scratch.path)
    #expect(await commit(store) { $0.put(.meta, [1], [10]) } == nil)
    store.close()
    let follower = try RocksFollower(path: scratch.path, scratch: own)
    #expect(try follower.get(.meta, key: [UInt8]([1]).span) == [10])
    let again = try RocksStore(path: scratch.path)
    again.close()
  }

  @Test("A ledger beyond its bounds is read while the writer removes its oldest part")
  func removal() async throws {
    let store = try RocksStore(path: scratch.path)
    var writer = try LedgerTests.writer(
      store, bounds: LedgerBounds(milliseconds: 1000, bytes: 1 << 20))
    let follower = try RocksFollower(path: scratch.path, scratch: own)
    for hour in 0..<4 as Range<UInt64> {
      let time = LedgerTests.now + Int64(hour) * 3_600_000
      writer.record([LedgerTests.event(hour)], milliseconds: time)
      #expect(await commit(store) { writer.seal(into: &$0, milliseconds: time) } == nil)
      writer.committed(succeeded: true)
    }
    try follower.catchUp()
    for reader in [store as any StoreReader, follower] {
      var numbers: [UInt64] = []
      var position = LedgerPosition()
      try reader.readLedger(LedgerQuery(), from: &position) {
        numbers.append($0.event.facts.order)
      }
      #expect(numbers.last == 3 && numbers.count <= 2)
    }
    store.close()
  }

  @Test("A missing store or a later format is an error")
  func refused() throws {
    #expect(throws: StoreError.missing(path: scratch.path)) {
      try RocksFollower(path: scratch.path, scratch: own)
    }
    try FileManager.default.createDirectory(
      atPath: scratch.path, withIntermediateDirectories: true)
    try Data("apus store format 99\n".utf8).write(to: URL(filePath: scratch.path + "/FORMAT"))
    #expect(
      throws: StoreError.newerVersion(path: scratch.path, found: 99, supported: 2)
    ) {
      try RocksFollower(path: scratch.path, scratch: own)
    }
  }
}
