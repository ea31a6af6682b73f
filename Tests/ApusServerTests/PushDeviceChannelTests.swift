import ApusDevice
import ApusLoop
import ApusModel
import ApusServer
import ApusTesting
import ApusTrust
import Testing

/// The library for devices against the service.
@Suite("A push device and channels", .timeLimit(.minutes(10)))
struct PushDeviceChannelTests {
  private static let shared = Result { try BroadcastService() }
  private let service: BroadcastService

  init() throws { service = try Self.shared.get() }

  private func start(
    _ identity: TestDevice, topics: [String] = [BroadcastService.topic]
  ) throws -> PushDevice {
    let device = try PushDevice(
      configuration: DeviceConfiguration(
        host: "localhost", port: service.service.address(.courier).port,
        authorityPEM: service.directory.serviceAuthority.certificate.pem,
        certificatePEM: identity.certificate.pem, keyPEM: identity.key.pkcs8PEM,
        topics: DeviceTopics(enabled: topics)))
    try device.start()
    return device
  }

  private func code(_ change: () async throws -> Void) async throws -> DeviceError.Code? {
    do {
      try await change()
      return nil
    } catch let error as DeviceError {
      return error.code
    }
  }

  @Test("It gets a broadcast with its channel, and after a reconnection the newest one, once")
  func wholeWay() async throws {
    let channel = try service.createChannel()
    let provider = try service.provider()
    let identity = try service.directory.device()
    let device = try start(identity)
    try await device.subscribe(to: channel, of: BroadcastService.topic)
    let first = try provider.store(channel, 1)
    var arrivals = device.notifications.makeAsyncIterator()
    let received = try #require(await arrivals.next())
    #expect(received.payload == first.payload && received.channel == channel)
    #expect(received.topic == BroadcastService.topic)
    #expect(received.apnsID?.text.lowercased() == first.id.lowercased())
    #expect(received.pushType == .liveactivity && !received.isFromStorage)
    // Its acknowledgement is sent before the connection ends.
    await device.stop()
    try provider.store(channel, 2)
    let newest = try provider.store(channel, 3)

    let again = try start(identity)
    arrivals = again.notifications.makeAsyncIterator()
    let stored = try #require(await arrivals.next())
    #expect(stored.payload == newest.payload && stored.isFromStorage && stored.channel == channel)
    #expect(
      try await again.subscriptions() == [
        ChannelSubscription(to: channel, of: BroadcastService.topic)
      ])
    await again.stop()

    let third = try start(identity)
    // The service answers behind what it had to send.
    _ = try await third.subscriptions()
    let last = try provider.store(channel, 4)
    arrivals = third.notifications.makeAsyncIterator()
    #expect(await arrivals.next()?.payload == last.payload)
    await third.stop()
  }

  @Test("Unsubscribing and replacing change the list")
  func changes() async throws {
    let topic = BroadcastService.topic
    let channels = try (0..<3).map { _ in try service.createChannel() }
    let all = channels.map { ChannelSubscription(to: $0, of: topic) }
    let device = try start(try service.directory.device())
    #expect(try await device.subscriptions().isEmpty)
    try await device.setSubscriptions(all)
    #expect(try await device.subscriptions() == all)
    try await device.unsubscribe(from: channels[1], of: topic)
    try await device.unsubscribe(from: channels[1], of: topic)
    #expect(try await device.subscriptions() == [all[0], all[2]])
    try await device.setSubscriptions([all[1]])
    #expect(try await device.subscriptions() == [all[1]])
    try await device.setSubscriptions([])
    #expect(try await device.subscriptions().isEmpty)
    await device.stop()
    await #expect(throws: DeviceError.self) { try await device.subscriptions() }
  }

  @Test("Each refusal has a code of its own, and the rest is applied")
  func refusals() async throws {
    let topic = BroadcastService.topic
    let channel = try service.createChannel()
    let device = try start(try service.directory.device())
    let unknown = "AAAAAAAAAAAAAAAAAAAAAA=="
    let listed = ChannelSubscription(to: channel, of: topic)
    #expect(
      try await code { try await device.subscribe(to: unknown, of: topic) } == .unknownChannel)
    #expect(
      try await code {
        try await device.setSubscriptions([ChannelSubscription(to: unknown, of: topic), listed])
      } == .unknownChannel)
    #expect(try await device.subscriptions() == [listed])
    #expect(
      try await code {
        try await device.subscribe(to: channel, of: TestDirectory.topic)
      } == .unknownTopic)
    #expect(
      try await code { try await device.subscribe(to: "?", of: topic) } == .badConfiguration)
    await device.stop()
  }

  @Test("A device has at most a hundred subscriptions")
  func limit() async throws {
    let device = try start(try service.directory.device())
    let all = try (0...Limits.subscriptionsPerDevice).map { _ in
      ChannelSubscription(to: try service.createChannel(), of: BroadcastService.topic)
    }
    #expect(
      try await code { try await device.setSubscriptions(all) } == .tooManySubscriptions)
    #expect(try await device.subscriptions() == Array(all.dropLast()))
    await device.stop()
  }

  @Test("What is asked for without a connection waits, in order; a cancelled wait ends")
  func waits() async throws {
    let channel = try service.createChannel()
    let identity = try service.directory.device()
    let device = try start(identity)
    let tasks = (0..<20).map { _ in
      Task { try await device.subscribe(to: channel, of: BroadcastService.topic) }
    }
    let cancelled = Task { try await device.subscriptions() }
    cancelled.cancel()
    for task in tasks { try await task.value }
    _ = try? await cancelled.value
    #expect(try await device.subscriptions().map(\.channel) == [channel])
    await device.stop()
  }
}
