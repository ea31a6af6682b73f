import ApusCore
import ApusModel
import ApusStore
import Testing

@testable import ApusServer

@Suite("Abridged devices")
struct AbridgedDevicesTests {
  private func key(_ number: UInt64, _ environment: Environment = .production) -> DeviceKey {
    DeviceKey(id: DeviceID(number), environment: environment)
  }

  private func topic(_ app: UInt32, _ generation: UInt16, since: Int64 = 0) -> TopicRegistration {
    TopicRegistration(
      topic: TopicKey(app: AppID(app)), generation: generation, state: .enabled, wasListed: true,
      stateSinceMilliseconds: since, generationSinceMilliseconds: since)
  }

  private func facts(_ number: UInt64, order: UInt64) -> NotificationFacts {
    NotificationFacts(
      order: order, id: NotificationID(high: 0, low: 0), uniqueID: NotificationID(high: 0, low: 0),
      device: DeviceID(number), topic: TopicKey(app: AppID(1)), environment: .production,
      tokenPrefix: 0, pushType: number % 2 == 0 ? .alert : nil, priority: .immediate,
      interface: .binary)
  }

  private func device(_ number: UInt64, order: UInt64? = nil) -> Device {
    let registration = Registration(
      topics: [topic(1, UInt16(number % 3 + 1), since: Int64(number >> 1))])
    let device = Device(key: key(number), registration: registration)
    if let order { device.loadStored([StoredFacts(facts: facts(number, order: order))]) }
    return device
  }

  @Test("Nearly all devices are found unchanged, without times, once, while the table grows")
  func found() {
    var table = AbridgedDevices(byteCount: 4 * 1024 * 1024, needsIDs: false)
    // Sequential, and spread over all bits.
    let ids =
      (0..<20_000 as Range<UInt64>).map { $0 }
      + (1..<20_000 as Range<UInt64>).map { $0 &* 0x9e37_79b9_7f4a_7c15 }
    for id in ids {
      let extent = table.put(device(id, order: id >> 16 | 1))
      #expect(extent == .all)
    }
    var count = 0
    for id in ids {
      guard let found = table.take(key(id)) else { continue }
      count += 1
      #expect(found.registration.topics == [topic(1, UInt16(id % 3 + 1))])
      #expect(found.stored == [facts(id, order: id >> 16 | 1)])
      let again = table.take(key(id))
      #expect(again == nil)
    }
    // In about one of a thousand insertions both sets are full before the table grows.
    #expect(count > ids.count / 1000 * 998)
    #expect(table.count == 0)
  }

  @Test("No device is mistaken for another one")
  func others() {
    var table = AbridgedDevices(byteCount: 1024 * 1024, needsIDs: false)
    for id in 0..<5000 as Range<UInt64> { _ = table.put(device(id)) }
    for id in 5000..<20_000 as Range<UInt64> {
      #expect(!table.contains(key(id)))
      #expect(!table.contains(key(id << 40)))
    }
    for id in 0..<5000 as Range<UInt64> { #expect(!table.contains(key(id, .development))) }
  }

  @Test("The environments of a device are separate")
  func environments() {
    var table = AbridgedDevices(byteCount: 0, needsIDs: false)
    let other = Device(
      key: key(7, .development), registration: Registration(topics: [topic(2, 9)]))
    _ = table.put(device(7, order: 70))
    _ = table.put(other)
    let (own, others) = (table.take(key(7)), table.take(key(7, .development)))
    #expect(own?.registration.topics.first?.topic == TopicKey(app: AppID(1)))
    #expect(own?.stored?.map(\.order) == [70])
    #expect(others?.registration.topics.first?.topic == TopicKey(app: AppID(2)))
    #expect(others?.stored == nil)
  }

  @Test("The table records none or one stored notification, and reports when there are more")
  func stored() {
    var table = AbridgedDevices(byteCount: 0, needsIDs: false)
    let (none, one, two) = (device(1), device(2, order: 5), device(3))
    let unknown = device(4)
    let (merged, late) = (device(5), device(6, order: 1 << 48))
    none.loadStored([])
    two.loadStored([
      StoredFacts(facts: facts(3, order: 1)), StoredFacts(facts: facts(3, order: 2), index: 1),
    ])
    merged.loadStored([StoredFacts(facts: facts(5, order: 1), collapseID: [1])])
    let extents = [none, one, two, unknown, merged, late].map { table.put($0) }
    #expect(extents == [.all, .all, .registration, .all, .registration, .registration])
    let found = (1...6).map { table.take(key($0))?.stored?.map(\.order) }
    #expect(found == [[], [5], nil, nil, nil, nil])
  }

  @Test("That nothing is stored can be recorded later, if it was unknown")
  func nothingStored() {
    var table = AbridgedDevices(byteCount: 0, needsIDs: true)
    let topics = [[topic(1, 1)], [topic(2, 1)]]
    for id in 1...4 as ClosedRange<UInt64> {
      var record: [UInt8] = []
      DeviceRecord(
        fingerprint: KeyFingerprint(words: (0, 0, 0, 0)), topics: topics[Int(id % 2)]
      ).encode(into: &record)
      table.put(key(id), record: record.span)
    }
    for id in [1, 2, 4, 9] as [UInt64] { table.noteNothingStored(for: key(id)) }
    var other = AbridgedDevices(byteCount: 0, needsIDs: false)
    _ = other.put(device(5, order: 50))
    other.noteNothingStored(for: key(5))
    for id in 1...4 as ClosedRange<UInt64> {
      let found = table.take(key(id))
      #expect(found?.registration.topics.map(\.topic) == topics[Int(id % 2)].map(\.topic))
      #expect(found?.stored == (id == 3 ? nil : []))
    }
    // Known stored notifications stay recorded.
    let (known, absent) = (other.take(key(5)), table.take(key(9)))
    #expect(known?.stored?.map(\.order) == [50])
    #expect(absent == nil)
  }

  @Test("If ids will be needed, stored notifications are recorded elsewhere")
  func ids() {
    var table = AbridgedDevices(byteCount: 0, needsIDs: true)
    let extent = table.put(device(1, order: 5))
    let found = table.take(key(1))
    #expect(extent == .registration)
    #expect(found != nil && found?.stored == nil)
  }

  @Test("A full table replaces old devices by new ones, and never confuses them")
  func bound() {
    var table = AbridgedDevices(byteCount: 64 * 1024, needsIDs: false)
    for id in 0..<20_000 as Range<UInt64> { _ = table.put(device(id, order: id + 1)) }
    #expect(table.isFull)
    var kept: [UInt64] = []
    for id in 0..<20_000 as Range<UInt64> {
      guard let found = table.take(key(id)) else { continue }
      kept.append(id)
      #expect(found.stored?.map(\.order) == [id + 1])
    }
    #expect((3900...4681).contains(kept.count))
    #expect(kept.last == 19_999)
  }

  @Test("With an eighth of the table free, devices are rarely evicted")
  func crowded() {
    var table = AbridgedDevices(byteCount: 256 * 1024, needsIDs: false)
    let ids = (1...16_000 as ClosedRange<UInt64>).map { $0 &* 0x9e37_79b9_7f4a_7c15 }
    for id in ids { _ = table.put(device(id, order: 1)) }
    for order in 2...4 as ClosedRange<UInt64> {
      for id in ids {
        _ = table.take(key(id))
        _ = table.put(device(id, order: order))
      }
    }
    let kept = ids.count { table.contains(key($0)) }
    #expect(table.count == kept)
    #expect(kept > 15_950)
  }

  @Test("The number of different device shapes is limited")
  func shapes() {
    var table = AbridgedDevices(byteCount: 1024 * 1024, needsIDs: false)
    var refused = 0
    for id in 0..<40_000 as Range<UInt64> {
      let device = Device(
        key: key(id), registration: Registration(topics: [topic(UInt32(id) + 1, 1)]))
      if table.put(device) == .nothing { refused += 1 }
    }
    #expect(refused >= 40_000 - 16_384)
    for id in 0..<40_000 as Range<UInt64> {
      guard let found = table.take(key(id)) else { continue }
      #expect(found.registration.topics.first?.topic.app == AppID(UInt32(id) + 1))
    }
  }
}
