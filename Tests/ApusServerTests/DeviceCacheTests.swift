import ApusCore
import ApusModel
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

  @Test("It knows each of many devices, and no other")
  func many() {
    var cache = DeviceCache()
    // In order, spread over the high bits, and the same in both environments.
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

  @Test("What was not used since the generation before last is forgotten")
  func generations() {
    var cache = DeviceCache(generationSize: 10)
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

  @Test("A device that is connected, or that has writes pending, is not forgotten")
  func kept() {
    var cache = DeviceCache(generationSize: 10)
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
    cache.letGo(connected)
    for id in 100..<200 as Range<UInt64> { cache.insert(device(id)) }
    #expect(cache.peek(connected.key) == nil)
    #expect(cache.peek(busy.key) == nil)
  }

  @Test("A newer object takes the place of an older one")
  func replaced() {
    var cache = DeviceCache()
    let (first, second) = (device(7), device(7))
    cache.keep(first)
    cache.keep(second)
    #expect(cache[first.key] === second)
  }
}
