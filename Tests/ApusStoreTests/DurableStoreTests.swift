import ApusStore
import Foundation
import Testing

@Suite("All stores")
struct DurableStoreTests {
  @Test("Committed rows are read, replaced and removed", arguments: Engine.allCases)
  func roundTrip(engine: Engine) async throws {
    let scratch = Scratch()
    defer { withExtendedLifetime(scratch) {} }
    let store = try engine.make(in: scratch)
    #expect(try store.get(.devices, [1]) == nil)
    #expect(
      await commit(store) {
        $0.put(.devices, [1], [10])
        $0.put(.meta, [1], [11])
        $0.put(.devices, [2], [])
      } == nil)
    #expect(try store.get(.devices, [1]) == [10])
    #expect(try store.get(.meta, [1]) == [11])
    #expect(try store.get(.devices, [2]) == [])
    #expect(try store.get(.feedback, [1]) == nil)
    #expect(
      await commit(store) {
        $0.put(.devices, [1], [20])
        $0.delete(.devices, [2])
        $0.delete(.devices, [3])
      } == nil)
    #expect(try store.get(.devices, [1]) == [20])
    #expect(try store.get(.devices, [2]) == nil)
    #expect(try store.get(.meta, [1]) == [11])
    store.close()
  }

  @Test("The last write of a key in a group counts", arguments: Engine.allCases)
  func orderInGroup(engine: Engine) async throws {
    let scratch = Scratch()
    defer { withExtendedLifetime(scratch) {} }
    let store = try engine.make(in: scratch)
    _ = await commit(store) {
      $0.put(.meta, [1], [1])
      $0.delete(.meta, [1])
      $0.put(.meta, [1], [2])
      $0.put(.meta, [2], [1])
      $0.delete(.meta, [2])
    }
    #expect(try store.get(.meta, [1]) == [2])
    #expect(try store.get(.meta, [2]) == nil)
    store.close()
  }

  @Test(
    "A row that was put once is gone for good, also if it is removed twice",
    arguments: Engine.allCases)
  func deletedOnly(engine: Engine) async throws {
    let scratch = Scratch()
    defer { withExtendedLifetime(scratch) {} }
    let store = try engine.make(in: scratch)
    _ = await commit(store) { for key in UInt8(1)...4 { $0.put(.relay, [key], [key]) } }
    // The third is in a table by then.
    if let disk = store as? RocksStore { try disk.compact(.relay) }
    _ = await commit(store) {
      $0.put(.relay, [5], [5])
      $0.deleteOnly(.relay, key: [3].span)
      $0.deleteOnly(.relay, key: [5].span)
    }
    // What failed may have been written, and is written again; so may the removal of a row that was not.
    _ = await commit(store) {
      $0.deleteOnly(.relay, key: [3].span)
      $0.deleteOnly(.relay, key: [6].span)
    }
    #expect(try store.rows(.relay, prefix: []).map { $0[0] } == [[1], [2], [4]])
    if let disk = store as? RocksStore { try disk.compact(.relay) }
    #expect(try store.rows(.relay, prefix: []).map { $0[0] } == [[1], [2], [4]])
    store.close()
  }

  /// Keys around the ends of prefixes, most of them with bytes of 0xff.
  static let keys: [[UInt8]] = [
    [0x00], [0x01, 0xff], [0x01, 0xff, 0x00], [0x01, 0xff, 0xff], [0x02], [0xfe, 0xff], [0xff],
    [0xff, 0x00], [0xff, 0xff], [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00],
    [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    [1, 2, 3, 4, 5, 6, 7, 0xff], [1, 2, 3, 4, 5, 6, 7, 0xff, 9], [1, 2, 3, 4, 5, 6, 8, 0],
    [1, 2, 3, 4, 5, 6, 7, 0xfe, 0xff],
  ]

  static let prefixes: [[UInt8]] = [
    [], [0x00], [0x01], [0x01, 0xff], [0x01, 0xff, 0xff], [0x03], [0xff], [0xff, 0xff],
    [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], [1, 2, 3, 4, 5, 6, 7, 0xff],
    [1, 2, 3, 4, 5, 6, 7, 0xff, 9], [1, 2, 3, 4, 5, 6, 7, 0xff, 8], [1, 2, 3, 4, 5, 6, 7],
  ]

  @Test(
    "A scan visits exactly the rows with a prefix, in the order of the keys",
    arguments: Engine.allCases, [StoreFamily.mailbox, .meta])
  func scan(engine: Engine, family: StoreFamily) async throws {
    let scratch = Scratch()
    defer { withExtendedLifetime(scratch) {} }
    let store = try engine.make(in: scratch)
    // In the mailbox keys shorter than a device id do not occur.
    let keys = family == .mailbox ? Self.keys.filter { $0.count >= 8 } : Self.keys
    _ = await commit(store) { group in
      for key in keys.shuffled() { group.put(family, key, key + [0]) }
      group.put(.ledger, keys[0], [7])
    }
    for prefix in Self.prefixes {
      let expected = keys.filter { $0.starts(with: prefix) }
        .sorted { $0.lexicographicallyPrecedes($1) }
      let rows = try store.rows(family, prefix: prefix)
      #expect(rows == expected.map { [$0, $0 + [0]] }, "prefix \(prefix)")
      let first = try store.rows(family, prefix: prefix, limit: 1)
      #expect(first.count == min(1, expected.count))
    }
    store.close()
  }

  @Test("A scan does not see removed rows, and may use the store", arguments: Engine.allCases)
  func scanAndRemove(engine: Engine) async throws {
    let scratch = Scratch()
    defer { withExtendedLifetime(scratch) {} }
    let store = try engine.make(in: scratch)
    let device: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 5]
    _ = await commit(store) { group in
      for app in UInt8(0)..<10 { group.put(.mailbox, device + [0, 0, 0, app, 0], [app]) }
    }
    _ = await commit(store) { group in
      for app in UInt8(0)..<10 where app != 4 {
        group.delete(.mailbox, device + [0, 0, 0, app, 0])
      }
    }
    var seen: [[UInt8]?] = []
    try store.scan(.mailbox, prefix: device.span) { key, _ in
      seen.append(try? store.get(.mailbox, key: key))
      return true
    }
    #expect(seen == [[4]])
    store.close()
  }

  @Test(
    "Completions run once each, in the order of each submitter's groups",
    arguments: Engine.allCases)
  func completionOrder(engine: Engine) async throws {
    let scratch = Scratch()
    defer { withExtendedLifetime(scratch) {} }
    let store = try engine.make(in: scratch)
    let recorder = Recorder<[Int]>()
    let latch = Latch()
    for worker in 0..<4 {
      Thread.detachNewThread {
        for number in 0..<250 {
          var group = store.makeGroup()
          group.put(.meta, [UInt8(worker)], [UInt8(number)])
          store.commit(group) { error in
            #expect(error == nil)
            recorder.append([worker, number])
            latch.arrive()
          }
        }
      }
    }
    await latch.wait(for: 1000)
    for worker in 0..<4 {
      let numbers = recorder.all.filter { $0[0] == worker }.map { $0[1] }
      #expect(numbers == Array(0..<250))
      #expect(try store.get(.meta, [UInt8(worker)]) == [249])
    }
    store.close()
  }

  @Test(
    "An empty group completes, and not before earlier groups",
    arguments: Engine.allCases)
  func emptyGroup(engine: Engine) async throws {
    let scratch = Scratch()
    defer { withExtendedLifetime(scratch) {} }
    let store = try engine.make(in: scratch)
    let recorder = Recorder<Int>()
    var group = store.makeGroup()
    group.put(.meta, [1], [1])
    store.commit(group) { _ in recorder.append(1) }
    #expect(await commit(store) { _ in } == nil)
    #expect(recorder.all == [1])
    #expect(try store.get(.meta, [1]) == [1])
    store.close()
  }

  @Test("Renewing a group commits its writes and leaves it empty", arguments: Engine.allCases)
  func renewing(engine: Engine) async throws {
    let scratch = Scratch()
    defer { withExtendedLifetime(scratch) {} }
    let store = try engine.make(in: scratch)
    var group = store.makeGroup()
    group.put(.meta, [1], [1])
    let latch = Latch()
    store.commit(renewing: &group) { _ in latch.arrive() }
    #expect(group.count == 0)
    await latch.wait()
    #expect(try store.get(.meta, [1]) == [1])
    store.close()
  }

  @Test("Closing waits for submitted groups, and refuses later ones", arguments: Engine.allCases)
  func close(engine: Engine) async throws {
    let scratch = Scratch()
    defer { withExtendedLifetime(scratch) {} }
    let store = try engine.make(in: scratch)
    let recorder = Recorder<StoreError?>()
    for number in UInt8(0)..<100 {
      var group = store.makeGroup()
      group.put(.meta, [number], [number])
      store.commit(group) { recorder.append($0) }
    }
    store.close()
    #expect(recorder.all == [StoreError?](repeating: nil, count: 100))
    #expect(!store.isAvailable)
    #expect(throws: StoreError.closed) { try store.get(.meta, [1]) }
    #expect(throws: StoreError.closed) { try store.rows(.meta, prefix: []) }
    #expect(await commit(store) { $0.put(.meta, [1], [1]) } == .closed)
    store.close()
  }

  @Test("A store may be closed from a completion", arguments: Engine.allCases)
  func closeFromCompletion(engine: Engine) async throws {
    let scratch = Scratch()
    let store = try engine.make(in: scratch)
    let latch = Latch()
    var group = store.makeGroup()
    group.put(.meta, [1], [1])
    store.commit(group) { _ in
      store.close()
      latch.arrive()
    }
    await latch.wait()
    store.close()
    #expect(throws: StoreError.closed) { try store.get(.meta, [1]) }
  }
}
