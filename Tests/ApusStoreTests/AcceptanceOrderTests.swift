import ApusStore
import Synchronization
import Testing

@Suite("Acceptance order")
struct AcceptanceOrderTests {
  static let key = Array("order-ceiling".utf8)

  @Test("No number is assigned before the ceiling above it is durable")
  func durableFirst() throws {
    let store = MemoryStore(mode: .manual)
    let recorder = Recorder<StoreError?>()
    let order = try AcceptanceOrder(store: store) { recorder.append($0) }
    #expect(order.next() == nil)
    #expect(recorder.all.isEmpty)
    store.runCommits()
    #expect(recorder.all == [nil])
    // 2^24 after the version byte
    #expect(try store.get(.meta, Self.key) == [1, 0, 0, 0, 0, 1, 0, 0, 0])
    #expect(order.next() == 0)
    #expect(order.next() == 1)
  }

  @Test("A restart begins at the ceiling, above every assigned number")
  func restart() throws {
    let store = MemoryStore(mode: .manual)
    let first = try AcceptanceOrder(store: store)
    store.runCommits()
    for _ in 0..<1000 { _ = first.next() }
    let again = store.afterPowerLoss()
    let second = try AcceptanceOrder(store: again)
    again.runCommits()
    #expect(second.next() == 1 << 24)
  }

  @Test(
    "A restart that never reached the disk assigns no number, and the next one starts there too")
  func failedStart() throws {
    let store = MemoryStore(mode: .manual)
    store.failNextCommits(1, with: .unavailable)
    let recorder = Recorder<StoreError?>()
    let order = try AcceptanceOrder(store: store) { recorder.append($0) }
    store.runCommits()
    #expect(recorder.all == [.unavailable])
    #expect(order.next() == nil)
    #expect(store.runCommits() == 1, "the refused call asked again")
    #expect(order.next() == 0)
  }

  @Test("After a fault a block is requested before the next notification needs it")
  func refill() throws {
    let store = MemoryStore(mode: .manual)
    store.failNextCommits(1, with: .unavailable)
    let order = try AcceptanceOrder(store: store)
    // One request at a time.
    order.refill()
    #expect(store.pendingCommitCount == 1)
    store.runCommits()
    order.refill()
    order.refill()
    #expect(store.pendingCommitCount == 1)
    store.runCommits()
    #expect(order.next() == 0)
    // Nothing is requested while there are numbers left.
    order.refill()
    #expect(store.pendingCommitCount == 0)
  }

  @Test("From half of a block on another is requested once, and without it the numbers end")
  func extend() throws {
    let store = MemoryStore(mode: .manual)
    let order = try AcceptanceOrder(store: store, blockSize: 0x0100)
    store.runCommits()
    for _ in 0..<128 { _ = order.next() }
    #expect(store.pendingCommitCount == 0)
    #expect(order.next() == 128)
    #expect(store.pendingCommitCount == 1)
    for _ in 129..<255 { _ = order.next() }
    #expect(order.next() == 255)
    #expect(order.next() == nil)
    #expect(order.next() == nil)
    #expect(store.pendingCommitCount == 1)
    store.runCommits()
    #expect(order.next() == 256, "refused calls use up no number")
    #expect(try store.get(.meta, Self.key) == [1, 0, 0, 0, 0, 0, 0, 2, 0])
  }

  @Test("Four threads get different numbers, each of them increasing")
  func threads() async throws {
    let store = MemoryStore(mode: .manual)
    let order = try AcceptanceOrder(store: store)
    store.runCommits()
    let lists = await withTaskGroup(of: [UInt64].self) { group in
      for _ in 0..<4 {
        group.addTask { (0..<10_000).compactMap { _ in order.next() } }
      }
      return await group.reduce(into: [[UInt64]]()) { $0.append($1) }
    }
    for list in lists { #expect(list == list.sorted()) }
    #expect(lists.flatMap { $0 }.sorted() == Array(0..<40_000))
  }

  @Test(
    "An invalid ceiling is rejected",
    arguments: [
      [2, 0, 0, 0, 0, 1, 0, 0, 0], [1, 0, 0], [1, 0, 0, 0, 0, 1, 0, 0, 0, 0],
      [1, 255, 255, 255, 255, 255, 255, 255, 255],
    ] as [[UInt8]])
  func corrupted(value: [UInt8]) async throws {
    let store = MemoryStore()
    _ = await commit(store) { $0.put(.meta, Self.key, value) }
    #expect {
      try AcceptanceOrder(store: store)
    } throws: { error in
      guard case .corrupted(let path, _)? = error as? StoreError else { return false }
      return path == "meta/order-ceiling"
    }
  }
}
