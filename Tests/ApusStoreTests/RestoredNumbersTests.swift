import ApusModel
import ApusStore
import Foundation
import Testing

@Suite("Numbers of a restored store")
struct RestoredNumbersTests {
  private let topic = TopicKey(app: AppID(7))

  private func numbers(_ store: some DurableStore) throws -> CountedNumbers {
    try CountedNumbers(of: store)
  }

  @Test("A new store has assigned nothing")
  func fresh() throws {
    let numbers = try numbers(MemoryStore())
    #expect(numbers.firstGeneration == 1)
    #expect(numbers.orderCeiling == 0)
  }

  @Test("Raised numbers are above those of both stores, and the generation skips 0")
  func raised() throws {
    let numbers = try numbers(MemoryStore()).raised(by: 300)
    #expect(numbers.firstGeneration == 301)
    #expect(numbers.orderCeiling == 1 << 40)
    #expect(numbers.raised(by: .max).firstGeneration == 301)
    #expect(numbers.raised(by: 65_535 - 300).firstGeneration == 1)
    let other = try self.numbers(MemoryStore())
    #expect(other.merged(with: numbers) == numbers)
    #expect(numbers.merged(with: other) == numbers)
  }

  private func record(_ generations: [UInt16]) -> DeviceRecord {
    DeviceRecord(
      fingerprint: .none, issuedSeconds: 5,
      topics: generations.enumerated().map { index, generation in
        TopicRegistration(
          topic: TopicKey(app: AppID(UInt32(index + 1))), generation: generation, state: .enabled,
          wasListed: true, stateSinceMilliseconds: 10, generationSinceMilliseconds: 10)
      })
  }

  private func stored(
    _ generations: [UInt16], keepsTokens: Bool
  ) async throws -> (record: DeviceRecord, ended: Int, numbers: CountedNumbers) {
    let store = MemoryStore()
    let key = DeviceRecord.key(DeviceID(3), .production)
    var bytes: [UInt8] = []
    record(generations).encode(into: &bytes)
    let row = bytes
    #expect(await commit(store) { $0.put(.devices, key: key.span, value: row.span) } == nil)
    let raised = try numbers(store).raised(by: 299)
    let ended = try RestoredNumbers.put(
      raised, into: store, keepsTokens: keepsTokens, nowMilliseconds: 77)
    let value = try #require(try store.get(.devices, key: key.span))
    return (try DeviceRecord(decoding: value.span), ended, try numbers(store))
  }

  @Test("All tokens end, and no generation returns that an app may have had since")
  func tokensEnd() async throws {
    let (record, ended, numbers) = try await stored(
      [0, 1, 299, 300, 1000, 65_535], keepsTokens: false)
    #expect(record.topics.map(\.generation) == [0, 300, 300, 301, 1001, 300])
    #expect(record.topics.map(\.generationSinceMilliseconds) == [10, 77, 77, 77, 77, 77])
    #expect(record.issuedSeconds == 5)
    #expect(ended == 5)
    #expect(numbers.firstGeneration == 300)
    #expect(numbers.orderCeiling == 1 << 40)
  }

  @Test("Tokens can be kept; new ones have the raised generation all the same")
  func tokensKept() async throws {
    let (record, ended, numbers) = try await stored([0, 1, 300], keepsTokens: true)
    #expect(record == self.record([0, 1, 300]))
    #expect(ended == 0)
    #expect(numbers.firstGeneration == 300)
  }

  @Test("Notifications are numbered from the raised ceiling on")
  func order() throws {
    let store = MemoryStore()
    _ = try RestoredNumbers.put(
      try numbers(store).raised(by: 1), into: store, keepsTokens: true, nowMilliseconds: 0)
    let ready = DispatchSemaphore(value: 0)
    let order = try AcceptanceOrder(store: store) { _ in ready.signal() }
    ready.wait()
    #expect(order.next() == 1 << 40)
  }

  @Test("What waited for upstreams has ended, by the counters; a worker's pending ones have not")
  func spoolCounters() async throws {
    let store = MemoryStore()
    var counters = TopicCounters(topic: topic, environment: .production)
    counters.cells[TopicCounters.cell(.received, pushType: .alert, priority: .immediate)] = 5
    counters.cells[TopicCounters.cell(.acceptedUpstream, pushType: .alert, priority: .immediate)] =
      2
    counters.pending = 3
    var value: [UInt8] = []
    CountersRecord.encode(counters, into: &value)
    let row = value
    let failure = await commit(store) { group in
      for worker in [0, LedgerKey.relay] {
        let key = CountersRecord.key(worker: worker, topic: topic, environment: .production)
        group.put(.meta, key: key.span, value: row.span)
      }
    }
    #expect(failure == nil)
    _ = try RestoredNumbers.put(
      try numbers(store).raised(by: 1), into: store, keepsTokens: true, nowMilliseconds: 0)
    let found = try store.readCounters()
    #expect(found.map(\.worker) == [0, LedgerKey.relay])
    #expect(found[0].counters == counters)
    #expect(found[1].counters.pending == 0)
    #expect(found[1].counters[.discardedNotStored] == 3)
    #expect(found[1].counters.isBalanced)
  }

  @Test("What waited for upstreams is gone, and dead tokens stay", arguments: [true, false])
  func spool(keepsTokens: Bool) async throws {
    let store = MemoryStore()
    let rows: [[UInt8]] = [[1, 0], [1, 255, 255], [2, 7], [3, 0, 9], [4, 0, 0, 0, 1, 0]]
    let failure = await commit(store) { group in
      for key in rows { group.put(.relay, key: key.span, value: [1].span) }
    }
    #expect(failure == nil)
    _ = try RestoredNumbers.put(
      try numbers(store).raised(by: 1), into: store, keepsTokens: keepsTokens,
      nowMilliseconds: 0)
    var left: [[UInt8]] = []
    try store.scan(.relay, prefix: Span()) { key, _ in
      left.append(key.copied())
      return true
    }
    #expect(left == [[2, 7]])
  }
}
