import ApusStore
import Testing

@Suite("Memory store")
struct MemoryStoreTests {
  @Test("A held commit is neither answered nor visible until it is released")
  func hold() async throws {
    let store = MemoryStore(mode: .background)
    store.holdCommits()
    let recorder = Recorder<StoreError?>()
    let latch = Latch()
    for number in UInt8(0)..<3 {
      var group = store.makeGroup()
      group.put(.meta, [number], [number])
      store.commit(group) {
        recorder.append($0)
        latch.arrive()
      }
    }
    #expect(store.pendingCommitCount == 3)
    #expect(recorder.all.isEmpty)
    #expect(try store.get(.meta, [0]) == nil)
    store.releaseCommits()
    await latch.wait(for: 3)
    #expect(recorder.all == [nil, nil, nil])
    #expect(try store.get(.meta, [2]) == [2])
    #expect(store.pendingCommitCount == 0)
  }

  @Test("Injected faults affect the requested number of groups, without a trace")
  func faults() async throws {
    let store = MemoryStore()
    let full = StoreError.diskFull(path: "/data", detail: "injected")
    store.failNextCommits(2, with: full)
    #expect(await commit(store) { $0.put(.meta, [1], [1]) } == full)
    #expect(await commit(store) { $0.put(.meta, [2], [2]) } == full)
    #expect(await commit(store) { $0.put(.meta, [3], [3]) } == nil)
    #expect(try store.rows(.meta, prefix: []) == [[[3], [3]]])
  }

  @Test("In manual mode commits run in order on the caller's thread, and only on request")
  func manual() throws {
    let store = MemoryStore(mode: .manual)
    let recorder = Recorder<UInt8>()
    for number in UInt8(0)..<3 {
      var group = store.makeGroup()
      group.put(.meta, [number], [number])
      store.commit(group) { _ in recorder.append(number) }
    }
    #expect(recorder.all.isEmpty)
    #expect(store.runCommits(limit: 2) == 2)
    #expect(recorder.all == [0, 1])
    #expect(try store.get(.meta, [2]) == nil)
    store.close()
    #expect(recorder.all == [0, 1, 2])
  }

  @Test("After a power loss committed rows remain, and waiting groups are lost")
  func powerLoss() throws {
    let store = MemoryStore(mode: .manual)
    for number in UInt8(0)..<3 {
      var group = store.makeGroup()
      group.put(.meta, [number], [number])
      store.commit(group) { _ in }
    }
    store.runCommits(limit: 2)
    let next = store.afterPowerLoss()
    #expect(try next.rows(.meta, prefix: []) == [[[0], [0]], [[1], [1]]])
    #expect(next.pendingCommitCount == 0)
  }

  @Test("Beyond its bound a commit fails as on a full disk, and removals make room again")
  func bound() async throws {
    let store = MemoryStore(maximumBytes: 4096)
    let large = [UInt8](repeating: 7, count: 3000)
    #expect(await commit(store) { $0.put(.mailbox, [1], large) } == nil)
    let refused = await commit(store) { $0.put(.mailbox, [2], large) }
    guard case .diskFull = refused else {
      Issue.record("\(String(describing: refused))")
      return
    }
    #expect(await commit(store) { $0.delete(.mailbox, [1]) } == nil)
    #expect(await commit(store) { $0.put(.mailbox, [2], large) } == nil)
    #expect(try store.rows(.mailbox, prefix: []).count == 1)
  }

  @Test("Groups beyond the bound are refused in turn, but a single large group is not")
  func overload() throws {
    let store = MemoryStore(maximumPendingBytes: 1000, mode: .manual)
    let large = [UInt8](repeating: 7, count: 600)
    let recorder = Recorder<StoreError?>()
    for number in UInt8(0)..<3 {
      var group = store.makeGroup()
      group.put(.meta, [number], number == 2 ? [1] : large)
      store.commit(group) { recorder.append($0) }
    }
    #expect(store.runCommits() == 3)
    #expect(recorder.all.count == 3)
    #expect(recorder.all[0] == nil && recorder.all[2] == nil)
    guard case .overloaded(let pending, let maximum) = recorder.all[1] else {
      Issue.record("\(String(describing: recorder.all[1]))")
      return
    }
    #expect(pending > large.count && pending < large.count + 64)
    #expect(maximum == 1000)
    #expect(try store.get(.meta, [1]) == nil)
    var group = store.makeGroup()
    group.put(.meta, [3], large + large)
    store.commit(group) { recorder.append($0) }
    store.runCommits()
    #expect(recorder.all[3] == nil)
  }
}
