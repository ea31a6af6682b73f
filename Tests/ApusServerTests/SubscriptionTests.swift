import ApusCore
import ApusModel
import ApusServer
import ApusStore
import ApusTesting
import ApusTrust
import ApusWire
import Testing

/// The command 0x1d, by hand-written bytes.
@Suite("Devices subscribe to channels")
struct SubscriptionTests {
  private static let shared = Result { try BroadcastService() }
  private let service: BroadcastService

  init() throws { service = try Self.shared.get() }

  /// The channels that a confirmation lists, in base64.
  private func listed(_ confirmation: RawCourierFrame) throws -> [String] {
    let bytes = try #require(confirmation[2])
    // 1: 1; then one topic with messages of 18 bytes, each an id of 16.
    guard bytes.count > 2 else { return [] }
    let prefix = [0x0a, UInt8(BroadcastService.topic.utf8.count)] + BroadcastService.topic.utf8
    let start = try #require(bytes.indices.first { bytes[$0...].starts(with: prefix) })
    let marks = bytes[(start + prefix.count)...]
    return stride(from: marks.startIndex, to: marks.endIndex, by: 20).map {
      #expect(Array(marks[$0..<$0 + 4]) == [0x12, 18, 0x0a, 16])
      return String(
        decoding: Base64.encode(Array(marks[$0 + 4..<$0 + 20]).span), as: UTF8.self)
    }
  }

  private func channels(_ count: Int) throws -> [String] {
    try (0..<count).map { _ in try service.createChannel() }
  }

  @Test("Subscribe, list, unsubscribe and replace")
  func life() throws {
    let channels = try channels(3)
    let device = try service.connect()
    let empty = try device.change(ConnectedDevice.subscriptions(to: []), index: 1)
    #expect(empty[1] == [0, 0, 0, 1] && empty[4] == [0])
    #expect(try listed(empty).isEmpty)
    let two = try device.change(ConnectedDevice.subscriptions(to: [channels[0], channels[1]]))
    #expect(try two[4] == [0] && listed(two) == [channels[0], channels[1]])
    // Subscribing again changes nothing.
    let same = try device.change(ConnectedDevice.subscriptions(to: [channels[0]]))
    #expect(try same[4] == [0] && listed(same) == [channels[0], channels[1]])
    let changed = try device.change(
      ConnectedDevice.subscriptions(to: [channels[2]], from: [channels[0]]))
    #expect(try changed[4] == [0] && listed(changed) == [channels[1], channels[2]])
    let replaced = try device.change(
      ConnectedDevice.subscriptions(to: [channels[0]], replaces: true))
    #expect(try replaced[4] == [0] && listed(replaced) == [channels[0]])
    let provider = try service.provider()
    for channel in channels { #expect(try provider.broadcast(channel).status == 200) }
    let bytes = try channelBytes(channels[0])
    #expect(try device.broadcast()[29]?.prefix(18) == [0x0a, 16] + bytes)
    try device.expectNothing()
    let none = try device.change(ConnectedDevice.subscriptions(to: [], replaces: true))
    #expect(try none[4] == [0] && listed(none).isEmpty)
  }

  @Test("What cannot be carried out is left out, and the status says why")
  func refused() throws {
    let channel = try service.createChannel()
    let development = try service.createChannel(environment: .development)
    let device = try service.connect()
    let unknown = "AAAAAAAAAAAAAAAAAAAAAA=="
    for strange in [unknown, development] {
      let confirmation = try device.change(ConnectedDevice.subscriptions(to: [strange, channel]))
      #expect(try confirmation[4] == [2] && listed(confirmation) == [channel])
    }
    for topic in [
      TestDirectory.topic, "com.example.nobody", "com.example.other.push-type.liveactivity",
    ] {
      let confirmation = try device.change(
        ConnectedDevice.subscriptions(to: [channel], topic: topic))
      #expect(try confirmation[4] == [1] && listed(confirmation) == [channel])
    }
  }

  @Test("A device has at most a hundred subscriptions")
  func limit() throws {
    let all = try channels(Limits.subscriptionsPerDevice + 1)
    let device = try service.connect()
    let confirmation = try device.change(ConnectedDevice.subscriptions(to: all))
    #expect(try confirmation[4] == [3] && listed(confirmation) == all.dropLast())
    let others = try channels(1)
    let swapped = try device.change(
      ConnectedDevice.subscriptions(to: others, from: [all[0]]))
    #expect(try swapped[4] == [0] && listed(swapped).count == Limits.subscriptionsPerDevice)
  }

  @Test("A device that says what it has gets only what is newer")
  func resumePoint() throws {
    let channel = try service.createChannel()
    let provider = try service.provider()
    try provider.store(channel, 1)
    let bytes = try channelBytes(channel)
    func subscribe(_ mark: [UInt8]) throws -> ConnectedDevice {
      let device = try service.connect()
      let one = [0x12, UInt8(18 + mark.count), 0x0a, 16] + bytes + mark
      let topic = [0x0a, UInt8(BroadcastService.topic.utf8.count)] + BroadcastService.topic.utf8
      let message = [0x08, 1, 0x12, UInt8(topic.count + one.count)] + topic + one
      #expect(try device.change(message)[4] == [0])
      return device
    }
    // Unix second 1 is before the broadcast; the largest number that a varint of nine bytes has is after it.
    let behind = try subscribe([0x10, 0x80, 0x94, 0xeb, 0xdc, 0x03])
    _ = try behind.broadcast()
    let ahead = try subscribe([0x10] + [UInt8](repeating: 0xff, count: 8) + [0x7f])
    try ahead.expectNothing()
    let next = try provider.store(channel, 2)
    #expect(try ahead.broadcast()[3] == next.payload)
  }

  @Test("Nothing is confirmed before it is durable, a list neither")
  func pending() throws {
    let store = MemoryStore()
    let service = try BroadcastService(nil, .init { $0.store = store })
    defer { service.service.stop() }
    let channel = try service.createChannel()
    let device = try service.connect()
    store.holdCommits()
    for (index, message) in [
      ConnectedDevice.subscriptions(to: [channel]), ConnectedDevice.subscriptions(to: []),
    ].enumerated() {
      try device.client.send(
        RawCourierFrame(0x1d, (1, [0, 0, 0, UInt8(index)]), (2, message)))
    }
    try device.expectNothing()
    store.releaseCommits()
    for index in 0..<2 as Range<UInt8> {
      let confirmation = try device.client.expect(0x1d)
      #expect(try confirmation[1] == [0, 0, 0, index] && listed(confirmation) == [channel])
    }
  }

  /// A disk that fails after it has written: the service reads what it told the device it does not have.
  @Test("A change that failed and was written all the same takes effect when it is asked for again")
  func writtenAllTheSame() throws {
    let store = MemoryStore()
    let service = try BroadcastService(nil, .init { $0.store = store })
    defer { service.service.stop() }
    let channel = try service.createChannel()
    let (device, provider) = (try service.connect(), try service.provider())
    let error = StoreError.inputOutput(path: "(memory)", detail: "made by a test")
    func changeTwice(_ message: [UInt8]) throws {
      store.failNextCommits(1000, with: error, isKept: true)
      #expect(try device.change(message)[4] == [4])
      store.failNextCommits(0, with: error)
      #expect(try device.change(message)[4] == [0])
    }
    try changeTwice(ConnectedDevice.subscriptions(to: [channel]))
    #expect(try provider.broadcast(channel).status == 200)
    _ = try device.broadcast()
    try changeTwice(ConnectedDevice.subscriptions(to: [], from: [channel]))
    #expect(try provider.broadcast(channel).status == 200)
    try device.expectNothing()
  }

  @Test("Deleting a channel ends its subscriptions")
  func deleted() throws {
    let channels = try channels(2)
    let device = try service.connect()
    try device.subscribe(channels[0], channels[1])
    try service.deleteChannel(channels[0])
    let left = try device.change(ConnectedDevice.subscriptions(to: []))
    #expect(try listed(left) == [channels[1]])
    expectRefusal(
      try service.provider().broadcast(channels[0]), "400 ChannelNotRegistered")
    #expect(try service.provider().broadcast(channels[1]).status == 200)
    _ = try device.broadcast()
  }

  @Test("A paused topic gets its newest broadcast when it is enabled again")
  func paused() throws {
    let channel = try service.createChannel()
    let device = try service.connect()
    try device.subscribe(channel)
    try device.filter([(5, BroadcastService.topic)])
    try device.settle()
    let provider = try service.provider()
    try provider.store(channel, 1)
    let newest = try provider.store(channel, 2)
    try device.expectNothing()
    try device.filter([(2, BroadcastService.topic)])
    #expect(try device.broadcast()[3] == newest.payload)
    try device.expectNothing()
  }

  @Test("The other dialect is served as well, without the extensions")
  func otherDialect() throws {
    let channel = try service.createChannel()
    let identity = try service.directory.device()
    let client = try service.service.courier(
      identity, protocols: [TestService.oldCourierProtocol])
    let device = try ConnectedDevice(client, identity)
    try device.enable(BroadcastService.topic)
    let confirmation = try device.change(ConnectedDevice.subscriptions(to: [channel]))
    #expect(confirmation[4] == [0] && confirmation[2] == nil)
    #expect(try service.provider().broadcast(channel).status == 200)
    let frame = try device.broadcast()
    #expect(frame[0x40] == nil && frame[0x41] == nil && frame[29] != nil)
  }

  @Test("Another connection's token, and bytes that are no message, harm nobody else")
  func malformed() throws {
    let channel = try service.createChannel()
    let (device, other) = (try service.connect(), try service.connect())
    try device.client.send(
      RawCourierFrame(
        0x1d, (1, [0, 0, 0, 1]), (2, ConnectedDevice.subscriptions(to: [channel])),
        (3, other.baseToken)))
    try device.expectNothing()
    try device.subscribe(channel)
    // A length beyond the end.
    try other.client.send(RawCourierFrame(0x1d, (1, [0, 0, 0, 1]), (2, [0x12, 9])))
    #expect(throws: RawFault.self) { try other.client.expect(0x1d, skipping: 0x0e) }
    #expect(try service.provider().broadcast(channel).status == 200)
    _ = try device.broadcast()
  }
}
