import ApusModel
import ApusStore
import Foundation
import Testing

@Suite("Ledger tables on disk")
struct LedgerTablesTests {
  @Test("Beyond their size the oldest tables are dropped, and the newest rows stay")
  func bound() async throws {
    let scratch = Scratch()
    var options = RocksOptions()
    options.memtableBytes = 192 * 1024
    options.ledgerBytes = 1024 * 1024
    let value = [UInt8](repeating: 7, count: 32 * 1024)
    func key(_ number: Int) -> [UInt8] {
      LedgerKey(worker: 0, milliseconds: Int64(number), sequence: 0).encoded(.chunk)
    }
    let store = try RocksStore(path: scratch.path, options: options)
    for number in 0..<200 {
      #expect(await commit(store) { $0.put(.ledger, key(number), value) } == nil)
    }
    store.close()
    // 6.4 MB were written. The log, and a table just made, come on top.
    let again = try RocksStore(path: scratch.path, options: options)
    defer { again.close() }
    let kept = (0..<200).filter { (try? again.get(.ledger, key($0))) != nil }
    #expect(kept.last == 199)
    #expect((16...64).contains(kept.count))
    #expect(kept == Array(200 - kept.count..<200))
  }

  @Test("An interruption while a chunk is being written leaves it complete or absent")
  func torn() async throws {
    let scratch = Scratch()
    var writer = LedgerWriter(
      worker: 0, mode: .all, bounds: LedgerTests.bounds, continuing: LedgerStart())
    let store = try RocksStore(path: scratch.path)
    for number in 0..<20 as Range<UInt64> {
      writer.record([LedgerTests.event(number)], milliseconds: LedgerTests.now)
      let failure = await commit(store) { writer.seal(into: &$0, milliseconds: LedgerTests.now) }
      writer.committed(succeeded: failure == nil)
    }
    store.close()
    let files = try FileManager.default.contentsOfDirectory(atPath: scratch.path)
    let log = try #require(
      files.filter { $0.hasSuffix(".log") }.max { size(scratch, $0) < size(scratch, $1) })
    let path = scratch.path + "/" + log
    let whole = try #require(FileManager.default.contents(atPath: path))
    // The log loses its end at any byte, as in a power loss.
    for length in stride(from: whole.count, to: whole.count - 400, by: -37) where length > 0 {
      let copy = Scratch()
      try FileManager.default.copyItem(atPath: scratch.path, toPath: copy.path)
      try whole.prefix(length).write(to: URL(filePath: copy.path + "/" + log))
      let store = try RocksStore(path: copy.path)
      var found: [UInt64] = []
      var position = LedgerPosition()
      let reading = try store.readLedger(LedgerQuery(), from: &position) {
        found.append($0.event.facts.order)
      }
      store.close()
      #expect(reading.damagedRows == 0)
      #expect(found == Array(0..<UInt64(found.count)))
      #expect(length == whole.count ? found.count == 20 : (10..<20).contains(found.count))
    }
  }

  private func size(_ scratch: Scratch, _ name: String) -> Int {
    FileManager.default.contents(atPath: scratch.path + "/" + name)?.count ?? 0
  }
}
