import ApusCore
import ApusModel
import ApusStore
import Testing

@testable import ApusServer

@Suite("The cache of devices")
struct DeviceCacheTests {
  private func device(_ id: UInt64, _ environment: Environment = .production) -> Device {
    Device(
      key: DeviceKey(id: DeviceID(id), environment: environment), registration: Registration())
  }

  private func key(_ id: UInt64, _ environment: Environment = .production) -> DeviceKey {
    DeviceKey(id: DeviceID(id), environment: environment)
  }

  @Test("The cache finds each of many devices, and no other")
  func many() {
    var cache = DeviceCache(byteCount: 256 * 1024 * 1024)
    // Sequential, spread over the high bits, and the same in both environments.
    let ids = (0..<5000).map { UInt64($0) } + (1..<5000).map { UInt64($0) << 44 }
    var devices: [DeviceKey: Device] = [:]
    for id in ids {
      for environment in Environment.allCases {
        let device = device(id, environment)
        devices[device.key] = device
        cache.insert(device)
      }
    }
    for (key, device) in devices { #expect(cache[key] === device) }
    #expect(cache[key(5000)] == nil)
    #expect(cache[key(7 << 45 | 1, .development)] == nil)
  }

  @Test("Devices not used since the generation before last are evicted")
  func generations() {
    var cache = DeviceCache(byteCount: 16 * 10 * DeviceCache.weight(of: device(0)))
    let used = device(1000)
    let unused = device(1001)
    cache.insert(used)
    cache.insert(unused)
    for id in 0..<15 as Range<UInt64> {
      cache.insert(device(id))
      #expect(cache[used.key] === used)
    }
    #expect(cache.peek(unused.key) != nil)
    for id in 15..<30 as Range<UInt64> {
      cache.insert(device(id))
      #expect(cache[used.key] === used)
    }
    #expect(cache.peek(unused.key) == nil)
    #expect((0..<30).filter { cache.peek(key($0)) != nil }.count <= 20)
    #expect(cache.peek(key(29)) != nil)
  }

  @Test("A device that is connected or has pending writes is not evicted")
  func kept() {
    var cache = DeviceCache(byteCount: 16 * 10 * DeviceCache.weight(of: device(0)))
    let connected = device(1000)
    let busy = device(1001)
    busy.pendingWrites = 1
    cache.insert(connected)
    cache.keep(connected)
    cache.insert(busy)
    for id in 0..<100 as Range<UInt64> { cache.insert(device(id)) }
    #expect(cache.peek(connected.key) === connected)
    #expect(cache.peek(busy.key) === busy)
    busy.pendingWrites = 0
    cache.insert(connected)
    for id in 100..<200 as Range<UInt64> { cache.insert(device(id)) }
    #expect(cache.peek(connected.key) == nil)
    #expect(cache.peek(busy.key) == nil)
  }

  @Test("A device with many topics counts with its actual size")
  func weight() {
    let topics = (0..<1000).map {
      TopicRegistration(
        topic: TopicKey(app: AppID(UInt32($0 + 1))), generation: 1, state: .enabled,
        wasListed: true, stateSinceMilliseconds: 0, generationSinceMilliseconds: 0)
    }
    func large(_ id: UInt64) -> Device {
      Device(
        key: DeviceKey(id: DeviceID(id), environment: .production),
        registration: Registration(topics: topics))
    }
    let each = DeviceCache.weight(of: large(0))
    #expect(each > 40_000)
    var cache = DeviceCache(byteCount: 16 * 10 * each)
    for id in 0..<100 as Range<UInt64> { cache.insert(large(id)) }
    let kept = (0..<100).filter { cache.peek(key($0)) != nil }.count
    #expect((10...20).contains(kept))
    // As many small devices fit as the same memory holds.
    let small = 10 * each / DeviceCache.weight(of: device(0))
    for id in 0..<UInt64(small) { cache.insert(device(1000 + id)) }
    #expect((0..<UInt64(small)).allSatisfy { cache.peek(key(1000 + $0)) != nil })
  }

  @Test("Evicted devices are folded, unless they have work in progress")
  func folded() throws {
    var cache = DeviceCache(byteCount: 16 * 10 * DeviceCache.weight(of: device(0)))
    let topic = TopicRegistration(
      topic: TopicKey(app: AppID(3), suffix: .voip), generation: 7, state: .opportunistic,
      wasListed: true, stateSinceMilliseconds: 5, generationSinceMilliseconds: 6)
    let known = Device(
      key: key(2000), registration: Registration(topics: [topic]))
    known.keyFingerprint = Array(1...32)
    let unwritten = device(2001)
    unwritten.recordVersion = 1
    cache.insert(known)
    cache.insert(unwritten)
    for id in 0..<30 as Range<UInt64> { cache.insert(device(id)) }
    #expect(cache.peek(known.key) == nil && cache.peek(unwritten.key) == nil)
    // What is needed to decide about a notification; the rest is in the store.
    let found = cache.unfold(known.key)
    let remembered = try #require(found)
    #expect(remembered.record == nil && remembered.stored == nil)
    var registration = topic
    registration.stateSinceMilliseconds = 0
    registration.generationSinceMilliseconds = 0
    #expect(remembered.registration?.topics == [registration])
    for key in [known.key, unwritten.key, key(29)] {
      let other = cache.unfold(key)
      #expect(other == nil)
    }
  }

  @Test("A device unlike all others is folded together with its record")
  func unlike() throws {
    let topics = (1...9).map {
      TopicRegistration(
        topic: TopicKey(app: AppID($0)), generation: 7, state: .opportunistic, wasListed: true,
        stateSinceMilliseconds: 5, generationSinceMilliseconds: 6)
    }
    let known = Device(key: key(2000), registration: Registration(topics: topics))
    known.keyFingerprint = Array(1...32)
    var cache = DeviceCache(byteCount: 16 * 10 * DeviceCache.weight(of: device(0)))
    cache.insert(known)
    for id in 0..<30 as Range<UInt64> { cache.insert(device(id)) }
    let found = cache.unfold(known.key)
    let remembered = try #require(found)
    #expect(remembered.record?.topics == topics)
    #expect(remembered.record?.fingerprint.words.0 == 0x0102_0304_0506_0708)
    #expect(remembered.record?.fingerprint.words.3 == 0x191a_1b1c_1d1e_1f20)
    #expect(remembered.registration == nil)
  }

  @Test(
    "Stored notifications are recorded with their ids if those will be needed",
    arguments: [true, false])
  func ids(_ needsIDs: Bool) throws {
    let facts = NotificationFacts(
      order: 0x1234_5678_9abc, id: NotificationID(high: 1, low: 2),
      uniqueID: NotificationID(high: 3, low: 4), device: DeviceID(2000),
      topic: TopicKey(app: AppID(3)), environment: .production, tokenPrefix: 5, pushType: .voip,
      priority: .powerSaving, interface: .binary)
    var cache = DeviceCache(
      byteCount: 16 * 10 * DeviceCache.weight(of: device(0)), needsIDs: needsIDs)
    let known = device(2000)
    known.loadStored([StoredFacts(facts: facts)])
    cache.insert(known)
    for id in 0..<30 as Range<UInt64> { cache.insert(device(id)) }
    let found = cache.unfold(known.key)
    let stored = try #require(found?.stored?.first)
    var expected = facts
    if !needsIDs {
      expected.id = NotificationID(high: 0, low: 0)
      expected.uniqueID = expected.id
      expected.tokenPrefix = 0
    }
    #expect(stored == expected)
    #expect(found?.registration != nil && found?.record == nil)
  }

  @Test("None of many devices with pending writes is lost")
  func pending() {
    var cache = DeviceCache(byteCount: 16 * 10 * DeviceCache.weight(of: device(0)))
    let devices = (0..<1000 as Range<UInt64>).map { device($0) }
    for device in devices {
      device.pendingWrites = 1
      cache.insert(device)
    }
    for device in devices { #expect(cache.peek(device.key) === device) }
    for device in devices { device.pendingWrites = 0 }
    for id in 2000..<4000 as Range<UInt64> { cache.insert(self.device(id)) }
    #expect(devices.allSatisfy { cache.peek($0.key) == nil })
  }

  @Test("A newer object replaces an older one")
  func replaced() {
    var cache = DeviceCache(byteCount: 256 * 1024 * 1024)
    let (first, second) = (device(7), device(7))
    cache.keep(first)
    cache.keep(second)
    #expect(cache[first.key] === second)
  }
}
