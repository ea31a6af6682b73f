import ApusStore
import Foundation
import Testing

@Suite("Copies of a store in use")
struct CheckpointTests {
  @Test("A copy that is made during writes has all groups up to one of them, each whole")
  func consistent() async throws {
    let scratch = Scratch()
    let store = try RocksStore(path: scratch.path)
    let writer = Task {
      var number: UInt32 = 0
      while !Task.isCancelled {
        number += 1
        let value = withUnsafeBytes(of: number.bigEndian, Array.init)
        let error = await commit(store) {
          $0.put(.mailbox, value, value)
          $0.put(.meta, [1], value)
        }
        #expect(error == nil)
      }
      return number
    }
    let copy = scratch.root + "/copy"
    for round in 0..<3 {
      while try store.get(.meta, [1]) == nil { try await Task.sleep(for: .milliseconds(1)) }
      let before = try #require(try store.get(.meta, [1]))
      let path = try store.makeCheckpoint()
      #expect(path == scratch.path + "/backup")
      try? FileManager.default.removeItem(atPath: copy)
      try FileManager.default.copyItem(atPath: path, toPath: copy)
      let other = try RocksStore(path: copy)
      let last = try #require(try other.get(.meta, [1]))
      #expect(!last.lexicographicallyPrecedes(before), "round \(round)")
      let rows = try other.rows(.mailbox, prefix: [])
      #expect(rows.map { $0[0] }.last == last)
      #expect(rows.count == last.reduce(0) { $0 << 8 | Int($1) })
      other.close()
    }
    writer.cancel()
    let count = await writer.value
    store.close()
    // The copy below the store does not disturb it.
    let again = try RocksStore(path: scratch.path)
    #expect(try again.rows(.mailbox, prefix: []).count == Int(count))
    again.close()
    try RocksStore.removeCheckpoint(path: scratch.path)
    #expect(try scratch.names(prefix: "backup").isEmpty)
  }

  @Test("An interrupted copy is in nobody's way")
  func interrupted() throws {
    let scratch = Scratch()
    let store = try RocksStore(path: scratch.path)
    for name in ["backup", "backup.tmp"] {
      let folder = "\(scratch.path)/\(name)"
      try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
      try Data([1]).write(to: URL(filePath: "\(folder)/000001.sst"))
    }
    let other = try RocksStore(path: try store.makeCheckpoint())
    other.close()
    store.close()
    #expect(try scratch.names(prefix: "backup") == ["backup"])
  }

  @Test("A store in memory cannot be copied")
  func memory() {
    #expect(throws: StoreError.unavailable) { try MemoryStore().makeCheckpoint() }
  }
}
