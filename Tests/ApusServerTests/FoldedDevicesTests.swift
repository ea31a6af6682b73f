import ApusCore
import ApusModel
import ApusRandom
import ApusStore
import Testing

@testable import ApusServer

@Suite("Folded devices")
struct FoldedDevicesTests {
  private func key(_ number: UInt64, _ environment: Environment = .production) -> DeviceKey {
    DeviceKey(id: DeviceID(number), environment: environment)
  }

  private func topic(_ number: UInt64) -> TopicRegistration {
    TopicRegistration(
      topic: TopicKey(app: AppID(1)), generation: UInt16(number % 1000), state: .enabled,
      wasListed: true, stateSinceMilliseconds: Int64(number >> 1), generationSinceMilliseconds: 1)
  }

  private func facts(_ number: UInt64) -> NotificationFacts {
    NotificationFacts(
      order: number, id: NotificationID(high: number, low: number),
      uniqueID: NotificationID(high: number, low: 0), device: DeviceID(number),
      topic: TopicKey(app: AppID(1)), environment: .production, tokenPrefix: number,
      pushType: .alert, priority: .immediate, interface: .http2)
  }

  private func device(_ number: UInt64, topics: Int = 1) -> Device {
    let registration = Registration(
      topics: (0..<topics).map { index in
        var topic = topic(number)
        topic.topic = TopicKey(app: AppID(UInt32(index + 1)))
        return topic
      })
    let device = Device(key: key(number), registration: registration)
    device.loadStored([StoredFacts(facts: facts(number))])
    return device
  }

  @Test("All devices are found unchanged, once")
  func found() {
    var folded = FoldedDevices(byteCount: 4 * 1024 * 1024)
    var count = 0
    for number in 0..<10_000 as Range<UInt64> {
      folded.fold(device(number &* 0x9e37_79b9_7f4a_7c15))
    }
    for number in 0..<10_000 as Range<UInt64> {
      let id = number &* 0x9e37_79b9_7f4a_7c15
      guard let found = folded.take(key(id)) else { continue }
      count += 1
      #expect(found.record?.topics == [topic(id)])
      #expect(found.stored == [facts(id)])
      let again = folded.take(key(id))
      #expect(again == nil)
    }
    #expect(count == 10_000)
  }

  @Test("The environments of a device are separate")
  func environments() {
    var folded = FoldedDevices(byteCount: 1024 * 1024)
    folded.fold(device(7))
    let (other, own) = (folded.take(key(7, .development)), folded.take(key(7)))
    #expect(other == nil && own != nil)
  }

  @Test("The stored notifications are known as none, one or several, or unknown")
  func stored() {
    var folded = FoldedDevices(byteCount: 1024 * 1024)
    for count in 0..<4 as Range<UInt64> {
      let device = Device(key: key(count), registration: Registration())
      device.loadStored((0..<count).map { StoredFacts(facts: facts($0)) })
      folded.fold(device)
    }
    folded.fold(Device(key: key(9), registration: Registration()))
    // Incomplete facts are read from the store.
    let several = Device(key: key(10), registration: Registration())
    several.loadStored([StoredFacts(facts: facts(1), index: 1)])
    folded.fold(several)
    #expect(folded.take(key(10))?.stored == nil)
    let (none, three, unknown) = (folded.take(key(0)), folded.take(key(3)), folded.take(key(9)))
    #expect(none?.stored == [])
    #expect(three?.stored?.map(\.order) == [0, 1, 2])
    #expect(unknown != nil && unknown?.stored == nil)
  }

  @Test("New devices replace the oldest, and are never mistaken for them")
  func bound() {
    var folded = FoldedDevices(byteCount: 256 * 1024)
    let count: UInt64 = 20_000
    // Of different lengths, so that they replace each other in every combination.
    for number in 1...count { folded.fold(device(number, topics: Int(number % 5) + 1)) }
    var kept: [UInt64] = []
    for number in 1...count {
      guard let found = folded.take(key(number)) else { continue }
      kept.append(number)
      #expect(found.record?.topics.count == Int(number % 5) + 1)
      #expect(found.stored == [facts(number)])
    }
    #expect((700...2000).contains(kept.count))
    #expect(kept == Array(count - UInt64(kept.count) + 1...count))
  }

  @Test("A device whose record is stored elsewhere takes less, and lists its stored notifications")
  func withoutRecord() {
    var folded = FoldedDevices(byteCount: 256 * 1024)
    let count: UInt64 = 3000
    for number in 1...count { folded.fold(device(number), withRecord: false) }
    var kept = 0
    for number in 1...count {
      guard let found = folded.take(key(number)) else { continue }
      kept += 1
      #expect(found.record == nil)
      #expect(found.stored == [facts(number)])
    }
    // Including their records there is room for 1,640.
    #expect(kept > 2200)
  }

  @Test("A device that is folded again is found in its current state")
  func again() {
    var folded = FoldedDevices(byteCount: 256 * 1024)
    for topics in 1...3 {
      folded.fold(device(6, topics: topics))
      let found = folded.take(key(6))
      #expect(found?.record?.topics.count == topics)
    }
  }

  @Test(
    "What is found is current, and the newest are found", arguments: 1...5 as ClosedRange<UInt64>)
  func walk(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    // Room for some 250 of 300 devices.
    var folded = FoldedDevices(byteCount: 64 * 1024)
    var latest: [UInt64: (topics: Int, step: Int)] = [:]
    for step in 0..<4000 {
      let number = UInt64.random(in: 1...300, using: &random)
      if Int.random(in: 0..<4, using: &random) > 0 {
        let topics = Int.random(in: 1...4, using: &random)
        folded.fold(device(number, topics: topics))
        latest[number] = (topics, step)
      } else {
        let found = folded.take(key(number))
        let expected = latest.removeValue(forKey: number)
        if let found { #expect(found.record?.topics.count == expected?.topics) }
        if let expected, step - expected.step < 100 { #expect(found != nil, "step \(step)") }
      }
    }
  }

  @Test("A device with many topics is not folded")
  func large() {
    var folded = FoldedDevices(byteCount: 1024 * 1024)
    folded.fold(device(1, topics: 100))
    folded.fold(device(2, topics: 20))
    let (large, small) = (folded.take(key(1)), folded.take(key(2)))
    #expect(large == nil)
    #expect(small?.record?.topics.count == 20)
  }
}
