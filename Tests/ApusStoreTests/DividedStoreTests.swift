import ApusModel
import Testing

@testable import ApusStore

@Suite("The store of all parts of a cluster's devices")
struct DividedStoreTests {
  private let parts = [MemoryStore(), MemoryStore(), MemoryStore()]
  private var all: DividedStore { DividedStore(parts) }

  private func put(_ part: Int, _ family: StoreFamily, _ key: [UInt8], _ value: UInt8 = 1) throws {
    var group = parts[part].makeGroup()
    let value = [value]
    group.put(family, key: key.span, value: value.span)
    try parts[part].write(&group)
  }

  private func keys(
    _ family: StoreFamily, prefix: [UInt8] = [], from start: [UInt8]? = nil, limit: Int = .max
  ) throws -> [[UInt8]] {
    var found: [[UInt8]] = []
    let begin = start ?? prefix
    try all.scan(family, prefix: prefix.span, from: begin.span) { key, _ in
      found.append(key.copied())
      return found.count < limit
    }
    return found
  }

  @Test("Rows of devices come in the order of their keys, whatever their parts, and in pages")
  func devices() throws {
    for number in 0..<1000 {
      try put(number % 7 % 3, .devices, [UInt8(number >> 8), UInt8(number & 0xff)])
    }
    let wanted = (0..<1000).map { [UInt8($0 >> 8), UInt8($0 & 0xff)] }
    #expect(try keys(.devices) == wanted)
    #expect(try keys(.devices, from: [1, 4], limit: 3) == [[1, 4], [1, 5], [1, 6]])
    #expect(try keys(.devices, prefix: [3]).count == 1000 - 768)
    #expect(try all.get(.devices, [3, 1]) == [1])
    #expect(try all.get(.devices, [4, 1]) == nil)
  }

  @Test("What exists once is that of part 0, whatever copies others have")
  func once() throws {
    for part in 0..<3 {
      try put(part, .channels, [0x01, 7], UInt8(part))
      try put(part, .channels, [SubscriptionRecord.kind, UInt8(9 - part)])
      try put(part, .meta, [1], UInt8(part))
    }
    #expect(try keys(.channels, prefix: [0x01]).count == 1)
    #expect(try all.get(.channels, [0x01, 7]) == [0])
    #expect(try all.get(.meta, [1]) == [0])
    let kind = SubscriptionRecord.kind
    #expect(try keys(.channels, prefix: [kind]) == [[kind, 7], [kind, 8], [kind, 9]])
  }

  @Test("The lines of all workers are read, and again from where a reader stopped")
  func ledger() throws {
    // Chunk 0 of worker 1 of each part, and of the relay.
    func key(_ worker: UInt16, _ milliseconds: Int64 = 5) -> [UInt8] {
      LedgerKey(worker: worker, milliseconds: milliseconds, sequence: 0).encoded(.chunk)
    }
    for part in 0..<3 { try put(part, .ledger, key(1)) }
    try put(0, .ledger, key(.max))
    #expect(try all.ledgerWorkers() == [1, 1025, 2049, .max])
    #expect(try keys(.ledger, prefix: [0]) == [key(1), key(1025), key(2049), key(.max)])
    #expect(try keys(.ledger, prefix: [0], from: key(1025), limit: 1) == [key(1025)])
    #expect(try keys(.ledger, prefix: [0], from: key(1026)) == [key(2049), key(.max)])
    #expect(try keys(.ledger, prefix: [0], from: key(.max, 6)).isEmpty)
    #expect(try all.get(.ledger, key(2049)) == [1])
    #expect(try all.get(.ledger, key(1026)) == nil)
    #expect(try all.get(.ledger, key(3073)) == nil)

    var position = LedgerPosition()
    #expect(try all.readLedger(LedgerQuery(), from: &position) { _ in }.readChunks == 4)
    try put(1, .ledger, key(1, 6))
    var next = try #require(LedgerPosition(text: position.text))
    #expect(try all.readLedger(LedgerQuery(), from: &next) { _ in }.readChunks == 1)
    #expect(next.chunks[1025]?.milliseconds == 6)
  }

  @Test("Counters and rejections are those of all parts")
  func counters() throws {
    var counters = TopicCounters(
      topic: TopicKey(app: AppID(3)), environment: .production)
    counters.pending = 2
    var value: [UInt8] = []
    CountersRecord.encode(counters, into: &value)
    for store in parts {
      var group = store.makeGroup()
      let key = CountersRecord.key(worker: 4, topic: counters.topic, environment: .production)
      group.put(.meta, key: key.span, value: value.span)
      let rejection = RejectionRecord.key(worker: 4, .badTopic)
      group.put(.meta, key: rejection.span, value: RejectionRecord.encode(5).span)
      try store.write(&group)
    }
    let rows = try all.readCounters()
    #expect(rows.map(\.worker) == [4, 1028, 2052])
    #expect(rows.map(\.counters).added().map(\.pending) == [6])
    #expect(try all.readRejections().map(\.number) == [5, 5, 5])
  }
}
