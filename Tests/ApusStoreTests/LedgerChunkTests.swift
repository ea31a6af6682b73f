import ApusRandom
import ApusModel
import ApusStore
import Testing

@Suite("Ledger chunks")
struct LedgerChunkTests {
  private static let facts = LedgerTests.facts

  /// A chunk with one line, byte by byte from the layout in `LedgerChunk`.
  static let chunk = hex(
    """
    02  # version
    00 00 01 8b cf e5 68 7b  # 1,700,000,000,123 ms
    a8  # state 8, refused by the device; introduces; has a cause
    80  # cause
    90 9c b0 d0 80 c1 81 82 02  # order 0x0102030405060708, twice, seven bits to a byte
    12 3e 45 67 e8 9b 12 d3  # notification id
    a4 56 42 66 55 44 00 00
    11 11 11 11 22 22 22 22  # unique id
    33 33 33 33 44 44 44 44
    21 22 23 24 25 26 27 28  # device
    31 32 33 34 35 36 37 38  # token
    08  # the kind is spelled
    0a 0b 0c 0d  # app
    0f  # voip is suffix 7: 7 << 1 | development
    09  # push type: voip
    05  # priority
    01  # binary interface
    """)

  /// Four more: the same notification 300 ms later, another one of its kind at the same time, that one again 1 ms
  /// earlier (the clock was set), and the first one.
  static let further = hex(
    """
    43  # state 3, sent; has a time
    d8 04  # 300 ms, twice
    00  # the latest introduction
    20  # state 0, received; introduces
    04  # two orders later
    00 00 00 00 00 00 00 0a 00 00 00 00 00 00 00 0b  # notification id
    00 00 00 00 00 00 00 0c 00 00 00 00 00 00 00 0d  # unique id
    00 00 00 00 00 00 00 0e  # device
    00 00 00 00 00 00 00 0f  # token
    00  # of the same kind
    c1  # state 1, stored; has a time and a cause
    01  # 1 ms back
    01  # cause
    00  # the latest introduction
    04  # state 4, delivered
    01  # the introduction before
    """)

  static var records: [LedgerRecord] {
    var other = facts
    other.order += 2
    other.id = NotificationID(high: 10, low: 11)
    other.uniqueID = NotificationID(high: 12, low: 13)
    other.device = DeviceID(14)
    other.tokenPrefix = 15
    let time: Int64 = 1_700_000_000_123
    func record(
      _ after: Int64, _ state: DeliveryState, _ cause: UInt8, _ facts: NotificationFacts
    ) -> LedgerRecord {
      LedgerRecord(
        milliseconds: time + after,
        event: LedgerEvent(state: state, causeCode: cause, facts: facts))
    }
    return [
      record(0, .refusedByDevice, 0x80, facts), record(300, .sent, 0, facts),
      record(300, .received, 0, other), record(299, .storedDeviceOffline, 1, other),
      record(299, .delivered, 0, facts),
    ]
  }

  static func read(chunk: [UInt8]) throws(RecordError) -> [LedgerRecord] {
    var found: [LedgerRecord] = []
    try LedgerChunk.forEach(in: chunk.span) { found.append($0) }
    return found
  }

  @Test("A chunk is written and read according to the layout")
  func layout() throws {
    var writer = LedgerChunkWriter()
    let introduces = Self.records.map { writer.append($0.event, milliseconds: $0.milliseconds) }
    #expect(introduces == [true, false, true, false, false])
    #expect(writer.lines == 5 && writer.byteCount == Self.chunk.count + Self.further.count)
    let first = writer.take()
    #expect(first == Self.chunk + Self.further)
    #expect(try Self.read(chunk: Self.chunk + Self.further) == Self.records)
    // The next chunk is independent of this one.
    #expect(writer.isEmpty && writer.lines == 0)
    let introducesAgain = writer.append(
      Self.records[0].event, milliseconds: Self.records[0].milliseconds)
    #expect(introducesAgain)
    let second = writer.take()
    #expect(second == Self.chunk)
  }

  @Test("The lines before the end of a truncated chunk are read")
  func torn() {
    let whole = Self.chunk + Self.further
    let ends = [77, 81, 132, 136, 138]
    #expect(whole.count == ends.last)
    for length in 0..<whole.count {
      var found: [LedgerRecord] = []
      let isEnd = length == 9 || ends.contains(length)
      do throws(RecordError) {
        try LedgerChunk.forEach(in: Array(whole[..<length]).span) { found.append($0) }
        #expect(isEnd)
      } catch {
        #expect(!isEnd)
        guard case .truncated = error else {
          Issue.record("\(error) at \(length)")
          continue
        }
      }
      #expect(found == Array(Self.records.prefix(ends.count { $0 <= length })))
    }
  }

  @Test(
    "An invalid value is rejected with the name of the field",
    arguments: [
      (0, UInt8(1), RecordError.unknownVersion(1)), (9, 0xbf, .malformed(field: "state")),
      (68, 7, .malformed(field: "kind")), (68, 0, .malformed(field: "kind")),
      (73, 0xff, .malformed(field: "flags")), (74, 77, .malformed(field: "push type")),
      (75, 6, .malformed(field: "priority")), (76, 9, .malformed(field: "interface")),
      (80, 1, .malformed(field: "reference")), (137, 2, .malformed(field: "reference")),
    ])
  func malformed(index: Int, value: UInt8, fault: RecordError) {
    var bytes = Self.chunk + Self.further
    bytes[index] = value
    #expect(throws: fault) { try Self.read(chunk: bytes) }
  }

  @Test("A number of more than 64 bits is rejected")
  func longNumber() {
    var bytes = Array(Self.chunk[..<11])
    bytes += [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]
    #expect(throws: RecordError.malformed(field: "order")) { try Self.read(chunk: bytes) }
  }

  @Test("Any lines are read as they were written", arguments: [1, 2, 3] as [UInt64])
  func walk(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    var writer = LedgerChunkWriter()
    for _ in 0..<3 {
      var written: [LedgerRecord] = []
      var time: Int64 = 1_700_000_000_000
      for _ in 0..<5000 {
        // Some so old that the writer has forgotten them, and two that share a slot in its table.
        var facts = Self.facts
        facts.order = random.next() % 5000 &+ (random.next() % 8 == 0 ? .max / 2 : 0)
        facts.id = NotificationID(high: facts.order, low: 1)
        facts.topic = TopicKey(app: AppID(UInt32(facts.order % 3)))
        facts.priority = Priority.allCases[Int(facts.order % 3)]
        facts.pushType = facts.order % 2 == 0 ? nil : .alert
        if random.next() % 4 == 0 { time += Int64(random.next() % 100_000) - 10_000 }
        let state = DeliveryState.allCases[Int(random.next() % 13)]
        let event = LedgerEvent(
          state: state, causeCode: UInt8(random.next() % 3), facts: facts)
        written.append(LedgerRecord(milliseconds: time, event: event))
        _ = writer.append(event, milliseconds: time)
      }
      let chunk = writer.take()
      #expect(try Self.read(chunk: chunk) == written, "seed \(seed)")
    }
  }
}
