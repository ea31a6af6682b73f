import ApusCore
import ApusDirectory
import ApusLoop
import ApusModel
import ApusServer
import ApusStore
import ApusTesting
import ApusWire
import Glibc
import Testing

/// Broadcasts reach the devices that are subscribed, read byte for byte.
@Suite("Broadcasts are delivered")
struct BroadcastDeliveryTests {
  private static let shared = Result { try BroadcastService() }
  private let service: BroadcastService

  init() throws { service = try Self.shared.get() }

  private let durable = TestService.Options { $0.isEphemeral = false }

  @Test("A subscribed device gets a broadcast with every field, others get nothing")
  func fields() throws {
    let channel = try service.createChannel()
    let (device, other) = (try service.connect(), try service.connect())
    try device.subscribe(channel)
    let response = try service.provider().broadcast(
      channel, expiration: "\(TestDirectory.nowSeconds + 3600)", priority: "5")
    #expect(response.status == 200)
    let frame = try device.broadcast()
    #expect(frame[1] == device.baseToken)
    #expect(frame[2] == ConnectedDevice.hash(BroadcastService.topic))
    #expect(frame[3] == Array(BroadcastService.update.utf8))
    #expect(frame[4]?.count == 4 && frame[6]?.count == 8)
    let expiry = frame[5]?.reduce(0) { $0 << 8 | Int64($1) } ?? 0
    #expect(abs(expiry - TestDirectory.nowSeconds - 3600) < 60)
    #expect(frame[7] == [0] && frame[13] == [5])
    let id = try #require(response["apns-unique-id"])
    #expect(frame[0x40] == idBytes(id))
    // The channel: its id, and the time of the broadcast in nanoseconds as a varint.
    let mark = try #require(frame[29])
    let bytes = try channelBytes(channel)
    #expect(Array(mark.prefix(19)) == [0x0a, 16] + bytes + [0x10])
    let nanoseconds = mark.dropFirst(19).reversed().reduce(UInt64(0)) { $0 << 7 | UInt64($1 & 127) }
    #expect(frame[6] == bigEndian(nanoseconds))
    try device.expectNothing()
    try other.expectNothing()
  }

  @Test("A broadcast reaches many devices, dormant ones too")
  func many() throws {
    let service = try BroadcastService(nil, .init { $0.workers = 2 })
    defer { service.service.stop() }
    let channel = try service.createChannel(storage: 0)
    let devices = try (0..<30).map { _ in try service.connect() }
    for device in devices { try device.subscribe(channel) }
    try service.service.awaitDormant(devices.count)
    let provider = try service.provider()
    for round in 0..<3 {
      let body = BroadcastService.payload(bytes: 100 + round)
      #expect(try provider.broadcast(channel, body).status == 200)
      for device in devices { #expect(try device.broadcast()[3] == Array(body.utf8)) }
    }
  }

  @Test("A device that connects later gets the newest stored broadcast, once")
  func later() throws {
    let channel = try service.createChannel()
    let device = try service.connect()
    try device.subscribe(channel)
    device.client.tls.close()
    let provider = try service.provider()
    try provider.store(channel, 1)
    let (payload, id) = try provider.store(channel, 2)
    let again = try service.connect(device.device)
    let frame = try again.broadcast()
    #expect(frame[3] == payload)
    // It waited in the service, and may have come before.
    #expect(frame[7] == [5])
    #expect(frame[0x40] == idBytes(id))
    try again.expectNothing()
    again.client.tls.close()
    let third = try service.connect(device.device)
    try third.expectNothing()
    // It is subscribed all the same.
    let next = try provider.store(channel, 3)
    #expect(try third.broadcast()[3] == next.payload)
  }

  @Test("One that was not acknowledged comes again, with the same id")
  func unacknowledged() throws {
    let channel = try service.createChannel()
    let device = try service.connect()
    try device.subscribe(channel)
    let sent = try service.provider().store(channel, 1)
    let frame = try device.client.expect(0x0a, skipping: 0x0e)
    device.client.tls.close()
    let again = try service.connect(device.device)
    let repeated = try again.broadcast()
    #expect(repeated[3] == sent.payload && repeated[0x40] == frame[0x40])
    try again.expectNothing()
  }

  @Test("One acknowledgement goes for both copies that a device has of it after it subscribed anew")
  func subscribedAnew() throws {
    let channel = try service.createChannel()
    let device = try service.connect()
    try device.subscribe(channel)
    try service.provider().store(channel, 1)
    let first = try device.client.expect(0x0a, skipping: 0x0e)
    _ = try device.change(ConnectedDevice.subscriptions(to: [], from: [channel]))
    try device.subscribe(channel)
    let second = try device.client.expect(0x0a, skipping: 0x0e)
    #expect(first[4] == second[4])
    try device.acknowledge(second)
    device.client.tls.close()
    try service.connect(device.device).expectNothing()
  }

  @Test("One that comes again is marked, although the clock was set back meanwhile")
  func clockSetBack() throws {
    let interceptor = TestInterceptor()
    let service = try BroadcastService(nil, .init { $0.interceptor = interceptor })
    defer { service.service.stop() }
    let channel = try service.createChannel()
    let device = try service.connect()
    try device.subscribe(channel)
    try service.provider().store(channel, 1)
    #expect(try device.client.expect(0x0a, skipping: 0x0e)[7] == [0])
    device.client.tls.close()
    interceptor.clock.advance(byMilliseconds: -60_000)
    #expect(try service.connect(device.device).broadcast()[7] == [5])
  }

  @Test("A broadcast that ends every connection is given up")
  func poison() throws {
    let channel = try service.createChannel()
    var device = try service.connect()
    try device.subscribe(channel)
    try service.provider().store(channel, 1)
    for _ in 0..<Limits.unacknowledgedEnds {
      _ = try device.client.expect(0x0a, skipping: 0x0e)
      device.client.tls.close()
      device = try service.connect(device.device)
    }
    try device.expectNothing()
  }

  @Test("A channel that stores nothing has nothing for devices that connect later")
  func policyNone() throws {
    let channel = try service.createChannel(storage: 0)
    let device = try service.connect()
    try device.subscribe(channel)
    device.client.tls.close()
    #expect(try service.provider().broadcast(channel).status == 200)
    let again = try service.connect(device.device)
    try again.expectNothing()
    #expect(try service.provider().broadcast(channel).status == 200)
    _ = try again.broadcast()
  }

  @Test("One that is not to be stored removes what is older")
  func attemptReplaces() throws {
    let channel = try service.createChannel()
    let device = try service.connect()
    try device.subscribe(channel)
    device.client.tls.close()
    let provider = try service.provider()
    try provider.store(channel, 1)
    #expect(try provider.broadcast(channel).status == 200)
    try service.connect(device.device).expectNothing()
  }

  @Test("An expired broadcast is not sent")
  func expired() throws {
    let channel = try service.createChannel()
    let device = try service.connect()
    try device.subscribe(channel)
    device.client.tls.close()
    let provider = try service.provider()
    let end = TestDirectory.nowSeconds + 1
    #expect(try provider.broadcast(channel, expiration: "\(end)").status == 200)
    while TestDirectory.nowSeconds <= end { usleep(50_000) }
    try service.connect(device.device).expectNothing()
  }

  @Test("A device whose window is full gets the oldest in order, and then the newest")
  func fullWindow() throws {
    let channel = try service.createChannel()
    let device = try service.connect()
    try device.subscribe(channel)
    let provider = try service.provider()
    var frames: [RawCourierFrame] = []
    var payloads: [[UInt8]] = []
    for number in 0..<Limits.broadcastWindowFrames {
      payloads.append(try provider.store(channel, number).payload)
      frames.append(try device.client.expect(0x0a, skipping: 0x0e))
    }
    #expect(frames.map { $0[3] } == payloads)
    for number in 100..<120 { payloads.append(try provider.store(channel, number).payload) }
    try device.expectNothing()
    try device.acknowledge(frames[0])
    #expect(try device.client.expect(0x0a)[3] == payloads.last)
    try device.acknowledge(frames[1])
    try device.expectNothing()
  }

  @Test("An idle device is not woken for a broadcast of priority 5 or 1")
  func power() throws {
    let channel = try service.createChannel()
    let device = try service.connect()
    try device.subscribe(channel)
    func setState(_ state: UInt8) throws {
      try device.client.send(RawCourierFrame(0x14, (1, [state]), (2, [0, 0, 0, 0])))
    }
    try setState(0)
    try device.settle()
    let provider = try service.provider()
    #expect(try provider.broadcast(channel).status == 200)
    _ = try device.broadcast()
    for priority in ["5", "1"] {
      let response = try provider.broadcast(
        channel, expiration: "\(TestDirectory.nowSeconds + 60)", priority: priority)
      #expect(response.status == 200)
      try device.expectNothing()
      // A keep-alive uses the radio; for priority 1 the device must be active.
      try device.client.send(RawCourierFrame(0x0c))
      _ = try device.client.expect(0x0d)
      if priority == "1" {
        try device.expectNothing()
        try setState(1)
      }
      _ = try device.broadcast()
      try setState(0)
    }
  }

  // MARK: Durability

  @Test("Subscriptions, stored broadcasts and what devices have outlive the service")
  func restart() throws {
    let directory = try TestDirectory()
    let first = try BroadcastService(directory, durable)
    let (channel, second) = (try first.createChannel(), try first.createChannel())
    let (had, absent) = (try first.connect(), try first.connect())
    for device in [had, absent] { try device.subscribe(channel, second) }
    absent.client.tls.close()
    let sent = try first.provider().store(channel, 1)
    _ = try had.broadcast()
    try had.settle()
    first.service.stop()
    let again = try BroadcastService(directory, durable)
    defer { again.service.stop() }
    try again.connect(had.device).expectNothing()
    let late = try again.connect(absent.device)
    #expect(try late.broadcast()[3] == sent.payload)
    let next = try again.provider().store(second, 2)
    #expect(try late.broadcast()[3] == next.payload)
  }

  @Test("While the store refuses, a broadcast is answered 503 and reaches nobody")
  func unavailable() throws {
    let store = MemoryStore()
    let service = try BroadcastService(nil, .init { $0.store = store })
    defer { service.service.stop() }
    let (channel, transient) = (try service.createChannel(), try service.createChannel(storage: 0))
    let device = try service.connect()
    try device.subscribe(channel, transient)
    let provider = try service.provider()
    store.failNextCommits(1000, with: .unavailable)
    let response = try provider.broadcast(
      channel, expiration: "\(TestDirectory.nowSeconds + 60)")
    expectRefusal(response, "503 ServiceUnavailable")
    try device.expectNothing()
    let refused = try device.change(ConnectedDevice.subscriptions(to: [], from: [channel]))
    #expect(refused[4] == [4])
    store.failNextCommits(0, with: .unavailable)
    let sent = try provider.store(channel, 2)
    #expect(try device.broadcast()[3] == sent.payload)
    #expect(try provider.broadcast(transient).status == 200)
    _ = try device.broadcast()
  }

  @Test("A retired device's subscriptions are removed")
  func retired() throws {
    let store = MemoryStore()
    let service = try BroadcastService(nil, .init { $0.store = store })
    defer { service.service.stop() }
    let channel = try service.createChannel()
    let device = try service.connect()
    try device.subscribe(channel)
    let id = device.device.id
    #expect(try store.subscriptions(of: id, in: .production) != nil)
    try service.directory.data.retire(id, nowSeconds: TestDirectory.nowSeconds)
    service.service.service.reload()
    let deadline = Deadline(seconds: 20)
    while try store.subscriptions(of: id, in: .production) != nil,
      deadline.remainingMilliseconds > 0
    {
      usleep(20_000)
    }
    #expect(try store.subscriptions(of: id, in: .production) == nil)
  }
}
