import ApusModel
import ApusStore
import Testing

@Suite("The ledger in the store")
struct LedgerTests {
  static let facts = NotificationFacts(
    order: 0x0102_0304_0506_0708,
    id: NotificationID(high: 0x123e_4567_e89b_12d3, low: 0xa456_4266_5544_0000),
    uniqueID: NotificationID(high: 0x1111_1111_2222_2222, low: 0x3333_3333_4444_4444),
    device: DeviceID(0x2122_2324_2526_2728),
    topic: TopicKey(app: AppID(0x0a0b_0c0d), suffix: .voip), environment: .development,
    tokenPrefix: 0x3132_3334_3536_3738, pushType: .voip, priority: .powerSaving,
    interface: .binary)

  @Test("Each state has its number on disk")
  func states() {
    let numbers = DeliveryState.allCases.map(\.rawValue)
    #expect(numbers == Array(0...19))
    #expect(
      DeliveryState(rawValue: 6) == .replaced && DeliveryState(rawValue: 11) == .discardedNotStored)
  }

  @Test("Counters are written and read according to the layout")
  func counters() throws {
    let topic = TopicKey(app: AppID(0x0a0b_0c0d), suffix: .voip)
    var counters = TopicCounters(topic: topic, environment: .development)
    counters.pending = 1
    counters.cells[TopicCounters.cell(.received, pushType: nil, priority: .immediate)] = 3
    counters.cells[TopicCounters.cell(.expired, pushType: .voip, priority: .whenActive)] = 2
    counters.unstored[TopicCounters.offset(pushType: nil, priority: .immediate)] = 1
    var value: [UInt8] = []
    CountersRecord.encode(counters, into: &value)
    let key = CountersRecord.key(worker: 0x0102, topic: topic, environment: .development)
    #expect(key == Array("counters/".utf8) + [1, 2, 0x0a, 0x0b, 0x0c, 0x0d, 0x0f])
    let expected = hex(
      """
      02  # version
      00 00 00 00 00 00 00 01  # pending
      00 ff 0a 00 00 00 00 00 00 00 03  # received, no push type, priority 10
      07 09 01 00 00 00 00 00 00 00 02  # expired, voip, priority 1
      ff ff 0a 00 00 00 00 00 00 00 01  # only in memory, no push type, priority 10
      """)
    #expect(value == expected)
    let read = try CountersRecord.decode(key: key.span, value: value.span)
    #expect(read.worker == 0x0102 && read.counters == counters)
    #expect(read.counters.isBalanced)
    // As an earlier release has it.
    counters.unstored = [UInt64](repeating: 0, count: TopicCounters.stateStride)
    let earlier = [1] + expected.dropFirst().dropLast(11)
    CountersRecord.encode(counters, into: &value)
    #expect(value == earlier)
    #expect(try CountersRecord.decode(key: key.span, value: earlier.span).counters == counters)
    let later = [3] + expected.dropFirst()
    #expect(throws: RecordError.unknownVersion(3)) {
      try CountersRecord.decode(key: key.span, value: later.span)
    }
  }

  @Test("The trace of a superseded notification is written and read according to the layout")
  func superseded() throws {
    var value: [UInt8] = []
    SupersededRecord.encode(Self.facts, into: &value)
    let key = SupersededRecord.key(worker: 0x0102, order: Self.facts.order)
    #expect(key == Array("superseded/".utf8) + [1, 2, 1, 2, 3, 4, 5, 6, 7, 8])
    let expected = hex(
      """
      01  # version
      12 3e 45 67 e8 9b 12 d3 a4 56 42 66 55 44 00 00  # notification id
      11 11 11 11 22 22 22 22 33 33 33 33 44 44 44 44  # unique id
      21 22 23 24 25 26 27 28  # device
      31 32 33 34 35 36 37 38  # token
      0a 0b 0c 0d 0f 02 05 01  # app, environment and suffix, push type, priority, interface
      """)
    #expect(value.dropLast(3) == expected.dropLast(3))
    let read = try SupersededRecord.decode(key: key.span, value: value.span)
    #expect(read.worker == 0x0102 && read.facts == Self.facts)
    #expect(throws: RecordError.self) {
      try SupersededRecord.decode(key: key.span, value: Array(value.dropLast()).span)
    }
  }

  @Test("Lines that depend on a group are in the ledger only if it is written")
  func groupEvents() throws {
    let store = MemoryStore(mode: .manual)
    var writer = try Self.writer(store)
    func flush(isWritten: Bool, _ number: UInt64) {
      writer.record([Self.event(number)], milliseconds: Self.now)
      var group = store.makeGroup()
      writer.seal(
        into: &group, milliseconds: Self.now, groupEvents: [Self.event(number, .replaced)])
      if isWritten {
        store.commit(group) { _ in }
        store.runCommits()
      }
      writer.committed(succeeded: isWritten)
    }
    flush(isWritten: true, 1)
    #expect(try read(store).numbers == [1, 1])
    flush(isWritten: false, 2)
    #expect(try read(store).numbers == [1, 1])
    // Gathered lines are written again, dependent ones are not.
    Self.flush(&writer, store)
    #expect(try read(store).numbers == [1, 1, 2])
    #expect(try read(store) { $0.states = [.replaced] }.numbers == [1])
  }

  // MARK: A writer and a reader

  /// A notification with that number, for one of 50 devices.
  static func event(_ number: UInt64, _ state: DeliveryState = .received) -> LedgerEvent {
    var facts = facts
    facts.order = number
    facts.id = NotificationID(high: number, low: 1)
    facts.uniqueID = NotificationID(high: number, low: 2)
    facts.device = DeviceID(number % 50)
    facts.tokenPrefix = (number % 50) << 32 | 7
    return LedgerEvent(state: state, causeCode: 0, facts: facts)
  }

  static let bounds = LedgerBounds(milliseconds: 86_400_000, bytes: 1 << 30)
  static let now: Int64 = 1_700_000_000_000

  static func writer(
    _ store: any DurableStore, worker: UInt16 = 0, of count: Int = 1, mode: LedgerMode = .all,
    bounds: LedgerBounds = bounds
  ) throws -> LedgerWriter {
    LedgerWriter(
      worker: worker, mode: mode, bounds: bounds,
      continuing: try LedgerStart.read(store, worker: worker, of: count))
  }

  static func flush(
    _ writer: inout LedgerWriter, _ store: MemoryStore, milliseconds: Int64 = now
  ) {
    var group = store.makeGroup()
    writer.seal(into: &group, milliseconds: milliseconds)
    nonisolated(unsafe) var failure: StoreError?
    store.commit(group) { failure = $0 }
    store.runCommits()
    writer.committed(succeeded: failure == nil)
  }

  func read(
    _ store: some StoreReader, _ change: (inout LedgerQuery) -> Void = { _ in }
  ) throws -> (numbers: [UInt64], reading: LedgerReading) {
    var query = LedgerQuery()
    change(&query)
    var numbers: [UInt64] = []
    var position = LedgerPosition()
    let reading = try store.readLedger(query, from: &position) {
      numbers.append($0.event.facts.order)
    }
    return (numbers, reading)
  }

  /// 20,000 lines in rows of 100: five segments.
  func filled() throws -> MemoryStore {
    let store = MemoryStore(mode: .manual)
    var writer = try Self.writer(store)
    for row in 0..<200 as Range<UInt64> {
      let events = (0..<100).map { Self.event(row * 100 + $0) }
      writer.record(events, milliseconds: Self.now + Int64(row) * 1000)
      Self.flush(&writer, store, milliseconds: Self.now + Int64(row) * 1000)
    }
    return store
  }

  @Test("Lines are found by id, unique id, token, device, state and time without most segments")
  func queries() throws {
    let store = try filled()
    #expect(try read(store).numbers == Array(0..<20_000))
    let byID = try read(store) { $0.id = NotificationID(high: 12_345, low: 1) }
    #expect(byID.numbers == [12_345])
    #expect(byID.reading.skippedSegments >= 3)
    let byUniqueID = try read(store) { $0.uniqueID = NotificationID(high: 6, low: 2) }
    #expect(byUniqueID.numbers == [6] && byUniqueID.reading.skippedSegments >= 3)
    #expect(try read(store) { $0.id = NotificationID(high: 12_345, low: 2) }.numbers == [])
    let byToken = try read(store) { $0.tokenPrefix = 7 << 32 | 7 }
    #expect(byToken.numbers == (0..<400).map { $0 * 50 + 7 })
    #expect(try read(store) { $0.device = DeviceID(51) }.numbers == [])
    #expect(try read(store) { $0.states = [.delivered] }.numbers == [])
    #expect(try read(store) { $0.topic = TopicKey(app: AppID(1)) }.numbers == [])
    #expect(try read(store) { $0.environment = .production }.numbers == [])
    let byTime = try read(store) {
      $0.sinceMilliseconds = Self.now + 100_000
      $0.untilMilliseconds = Self.now + 102_000
    }
    #expect(byTime.numbers == Array(10_000..<10_200))
    #expect(byTime.reading.skippedSegments >= 3)
  }

  @Test("A reader continues where it stopped")
  func position() throws {
    let store = MemoryStore(mode: .manual)
    var writer = try Self.writer(store)
    var position = LedgerPosition()
    var found: [UInt64] = []
    for number in 0..<9000 as Range<UInt64> {
      writer.record([Self.event(number)], milliseconds: Self.now)
      guard number % 300 == 0 else { continue }
      Self.flush(&writer, store)
      try store.readLedger(LedgerQuery(), from: &position) { found.append($0.event.facts.order) }
      #expect(found == Array(0...number))
    }
  }

  @Test("A filter covers every line of its segment, even if restarts split it")
  func restart() throws {
    let store = MemoryStore(mode: .manual)
    for start in stride(from: 0, to: 12_000, by: 1500) as StrideTo<UInt64> {
      var writer = try Self.writer(store)
      for number in start..<start + 1500 {
        writer.record([Self.event(number)], milliseconds: Self.now)
        if number % 100 == 99 { Self.flush(&writer, store) }
      }
    }
    #expect(try read(store).numbers == Array(0..<12_000))
    for number in stride(from: 0, to: 12_000, by: 97) as StrideTo<UInt64> {
      let found = try read(store) { $0.id = NotificationID(high: number, low: 1) }
      #expect(found.numbers == [number])
    }
    #expect(try read(store) { $0.id = NotificationID(high: 5, low: 1) }.reading.skippedSegments > 0)
  }

  @Test("A clock that goes back neither hides nor overwrites a line")
  func clock() throws {
    let store = MemoryStore(mode: .manual)
    for (index, time) in [5_000_000, 1_000_000, 2_000_000, 1_000_000].enumerated() {
      var writer = try Self.writer(store)
      writer.record([Self.event(UInt64(index))], milliseconds: Self.now + Int64(time))
      Self.flush(&writer, store, milliseconds: Self.now + Int64(time))
    }
    #expect(try read(store).numbers == [0, 1, 2, 3])
    let found = try read(store) {
      $0.sinceMilliseconds = Self.now + 500_000
      $0.untilMilliseconds = Self.now + 1_500_000
    }
    #expect(found.numbers == [1, 3])
  }

  @Test("Lines that are too old are removed, a segment at a time, with their filters")
  func age() throws {
    let store = MemoryStore(mode: .manual)
    var writer = try Self.writer(store)
    for hour in 0..<48 as Range<UInt64> {
      let time = Self.now + Int64(hour) * 3_600_000
      writer.record([Self.event(hour)], milliseconds: time)
      Self.flush(&writer, store, milliseconds: time)
    }
    let kept = try read(store).numbers
    #expect(kept == Array(22..<48) || kept == Array(23..<48))
    var rows = 0
    let all: [UInt8] = []
    try store.scan(.ledger, prefix: all.span) { _, _ in
      rows += 1
      return true
    }
    // A chunk, a segment and a filter each, except for what is still open.
    #expect(rows <= 3 * kept.count)
    #expect(writer.needsUpkeep(milliseconds: Self.now + 100 * 3_600_000))
  }

  @Test("The ledger stays within its bytes; the newest lines stay")
  func size() throws {
    let store = MemoryStore(mode: .manual)
    let limit = 1_000_000
    var writer = try Self.writer(
      store, bounds: LedgerBounds(milliseconds: 86_400_000, bytes: limit))
    for row in 0..<600 as Range<UInt64> {
      writer.record((0..<100).map { Self.event(row * 100 + $0) }, milliseconds: Self.now)
      Self.flush(&writer, store)
      #expect(writer.byteCount <= limit)
    }
    let kept = try read(store).numbers
    #expect(kept.last == 59_999)
    #expect(kept.count > 10_000 && kept.count < 20_000)
    #expect(kept == Array(59_999 - UInt64(kept.count) + 1...59_999))
  }

  @Test("Lines of a failed group are written with the next one, once")
  func failure() throws {
    let store = MemoryStore(mode: .manual)
    var writer = try Self.writer(store)
    writer.record([Self.event(1)], milliseconds: Self.now)
    store.failNextCommits(1, with: .unavailable)
    Self.flush(&writer, store)
    #expect(try read(store).numbers == [])
    #expect(writer.hasLines)
    writer.record([Self.event(2)], milliseconds: Self.now)
    Self.flush(&writer, store)
    #expect(try read(store).numbers == [1, 2])
    #expect(!writer.hasLines)
  }

  @Test("While the store fails lines wait in bounded room, and dropped ones are counted")
  func failureForLong() throws {
    let store = MemoryStore(mode: .manual)
    var writer = try Self.writer(store)
    var dropped = 0
    for row in 0..<1000 as Range<UInt64> {
      writer.record((0..<100).map { Self.event(row * 100 + $0) }, milliseconds: Self.now)
      store.failNextCommits(1, with: .unavailable)
      Self.flush(&writer, store)
      dropped += writer.takeDroppedLines()
    }
    store.failNextCommits(0, with: .unavailable)
    Self.flush(&writer, store)
    let kept = try read(store).numbers
    #expect(kept.count + dropped == 100_000)
    #expect(kept == Array(0..<UInt64(kept.count)))
    // 4 MB of lines of 51 bytes.
    #expect((70_000...85_000).contains(kept.count))
  }

  @Test("In a sample, either all states of a notification are recorded or none")
  func sample() throws {
    let store = MemoryStore(mode: .manual)
    var writer = try Self.writer(store, mode: .oneIn(10))
    for number in 0..<10_000 as Range<UInt64> {
      writer.record(
        [Self.event(number), Self.event(number, .sent), Self.event(number, .delivered)],
        milliseconds: Self.now)
    }
    Self.flush(&writer, store)
    let kept = try read(store).numbers
    #expect((800...1200).contains(kept.count / 3))
    #expect(Dictionary(grouping: kept) { $0 }.values.allSatisfy { $0.count == 3 })
    var off = try Self.writer(MemoryStore(mode: .manual), mode: .off)
    off.record([Self.event(1)], milliseconds: Self.now)
    #expect(!off.hasLines)
  }

  @Test("Workers write side by side, and fewer workers continue what more have left")
  func workers() throws {
    let store = MemoryStore(mode: .manual)
    for worker in 0..<4 as Range<UInt16> {
      var writer = try Self.writer(store, worker: worker, of: 4)
      writer.record([Self.event(UInt64(worker))], milliseconds: Self.now)
      Self.flush(&writer, store)
    }
    #expect(try read(store).numbers == [0, 1, 2, 3])
    for worker in 0..<2 as Range<UInt16> {
      var writer = try Self.writer(
        store, worker: worker, of: 2, bounds: LedgerBounds(milliseconds: 1000, bytes: 1 << 20))
      Self.flush(&writer, store)
      #expect(try read(store).numbers == (worker == 0 ? [0, 1, 2, 3] : [1, 3]))
      Self.flush(&writer, store, milliseconds: Self.now + 2000)
      #expect(try read(store).numbers == (worker == 0 ? [1, 3] : []))
    }
  }

  @Test("A damaged row hides no other")
  func damage() async throws {
    let store = MemoryStore()
    var writer = try Self.writer(store)
    for number in 0..<3 as Range<UInt64> {
      writer.record([Self.event(number)], milliseconds: Self.now)
      #expect(await commit(store) { writer.seal(into: &$0, milliseconds: Self.now) } == nil)
      writer.committed(succeeded: true)
    }
    let key = LedgerKey(worker: 0, milliseconds: Self.now, sequence: 2).encoded(.chunk)
    #expect(await commit(store) { $0.put(.ledger, key, [1, 2, 3]) } == nil)
    let found = try read(store)
    #expect(found.numbers == [0, 2])
    #expect(found.reading.damagedRows == 1)
  }
}
