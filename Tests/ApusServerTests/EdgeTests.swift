import ApusAdmin
import ApusCore
import ApusLoop
import ApusModel
import ApusStore
import ApusTesting
import ApusWeb
import ApusWire
import Glibc
import Testing

/// Clients of an edge, while the node that decides comes and goes. `make edge-test` runs other tests of this target
/// behind an edge, too.
@Suite("An edge passes on what clients send, and waits for the node that decides")
struct EdgeTests {
  private let store = MemoryStore()
  private let service: TestService
  private let pusher: QuietPusher
  private let device: ConnectedDevice
  private let token: String

  init() throws {
    let store = store
    service = try TestService(nil, .init { ($0.isBehindEdge, $0.store) = (true, store) })
    pusher = try QuietPusher(service)
    device = try service.connect()
    token = try device.token()
    try device.enable(TestDirectory.topic)
    try device.settle()
  }

  private func setTarget(_ isThere: Bool) throws {
    let node = try #require(TestService.node)
    let address = try #require(service.linkAddress)
    service.service.setLinkTarget(isThere ? (node, address) : nil)
  }

  private func begin(_ count: Int, to token: String? = nil) throws -> [UInt32] {
    let headers = pusher.headers(token ?? self.token)
      .setting("apns-expiration", "\(TestDirectory.nowSeconds + 3600)")
    return try (0..<count).map { _ in
      try pusher.client.request(headers, body: TestService.payload)
    }
  }

  private func expect(_ status: Int, to streams: [UInt32]) throws {
    for stream in streams { #expect(try pusher.client.response(to: stream).status == status) }
  }

  /// The ids of the next notifications, acknowledged, until there are so many different ones.
  private func ids(_ count: Int) throws -> [[UInt8]: Int] {
    var ids: [[UInt8]: Int] = [:]
    while ids.count < count {
      let notification = try device.notification()
      ids[try #require(notification[0x40]), default: 0] += 1
      try device.acknowledge(notification)
    }
    return ids
  }

  @Test("A push, its device and its end are those of the node that decides")
  func through() throws {
    let stream = try begin(1)
    let notification = try device.notification()
    #expect(notification[3] == TestService.payload)
    try device.acknowledge(notification)
    try expect(200, to: stream)
    try waitUntil("it to be counted") { service.service.counts()[.delivered] == 1 }
    try device.filter([])
    try device.settle()
    let answer = try pusher.client.response(to: begin(1)[0])
    #expect(answer.status == 410)
    #expect(String(decoding: answer.body, as: UTF8.self).contains(#""timestamp":"#))
  }

  @Test("While no node decides, pushes wait, and all arrive when one does")
  func nodeIsGone() throws {
    try setTarget(false)
    let streams = try begin(20)
    usleep(300_000)
    try setTarget(true)
    #expect(try ids(20).values.allSatisfy { $0 == 1 })
    try expect(200, to: streams)
  }

  @Test("Devices that come while no node decides wait as well, and all connect when one does")
  func devicesWait() throws {
    // Made first: a device waits for five seconds at most.
    let devices = try (0..<100).map { _ in try service.directory.device() }
    try setTarget(false)
    let waiting = try devices.map { device in
      let client = try service.courier(device)
      try client.send(ConnectedDevice.connectMessage())
      return client
    }
    try setTarget(true)
    for client in waiting { #expect(try client.expect(0x08)[1] == [0]) }
  }

  @Test("A device whose node is not reached is connected by the next attempt")
  func nodeIsUnreachable() throws {
    let node = try #require(TestService.node)
    service.service.setLinkTarget((node, .loopbackIPv4(port: 1)))
    let client = try service.courier(service.directory.device())
    try client.send(ConnectedDevice.connectMessage())
    usleep(500_000)
    try setTarget(true)
    #expect(try client.expect(0x08)[1] == [0])
  }

  @Test("If no node decides within five seconds, a device's connection ends")
  func nodeStaysAwayFromDevices() throws {
    try setTarget(false)
    let start = EventLoop.monotonicMilliseconds()
    #expect(throws: RawFault.self) { try service.connect() }
    // The deadline is in whole seconds.
    #expect(EventLoop.monotonicMilliseconds() - start + 1200 >= Limits.linkWaitMilliseconds)
  }

  @Test("If no node decides within five seconds, the answer is 503")
  func nodeStaysAway() throws {
    try setTarget(false)
    let start = EventLoop.monotonicMilliseconds()
    let answer = try pusher.client.response(to: begin(1)[0])
    #expect(answer.status == 503)
    #expect(String(decoding: answer.body, as: UTF8.self) == #"{"reason":"ServiceUnavailable"}"#)
    #expect(EventLoop.monotonicMilliseconds() - start + 200 >= Limits.linkWaitMilliseconds)
    try setTarget(true)
    let stream = try begin(1)
    _ = try ids(1)
    try expect(200, to: stream)
  }

  @Test("What a link had without a verdict when it ended is sent again, with the same ids")
  func linkEnds() throws {
    store.holdCommits()
    let streams = try begin(10)
    // They are with the node, and not acknowledged: it would answer when they are stored.
    let first = try (0..<10).map { _ in try device.notification() }
    try setTarget(false)
    try setTarget(true)
    let second = try (0..<10).map { _ in try device.notification() }
    #expect(Set(first.map { $0[0x40] }) == Set(second.map { $0[0x40] }))
    store.releaseCommits()
    try expect(200, to: streams)
    // The device recognises those that it has had by the flag, which is also on what it gets from the store.
    #expect(first.allSatisfy { $0[7] == [0] })
    #expect(second.allSatisfy { $0[7] == [Self.mayBeRepeated] })
    let again = try service.connect(device.device)
    try again.filter([(2, TestDirectory.topic)])
    let stored = try again.notification()
    #expect(stored[7] == [Self.mayBeRepeated | Self.fromStorage | Self.isLast])
    #expect(stored[0x40] == second.last?[0x40])
    try again.acknowledge(stored)
    // The edge uses the same notifications again for other pushes.
    let more = try begin(20)
    for _ in more {
      let notification = try again.notification()
      #expect(notification[7] == [0])
      try again.acknowledge(notification)
    }
    try expect(200, to: more)
  }

  private static let fromStorage: UInt8 = 1
  private static let isLast: UInt8 = 2
  private static let mayBeRepeated: UInt8 = 4

  @Test("When another node decides, requests to the one before end, and devices wait for it")
  func otherNode() throws {
    let provider = try service.provider(at: .channels)
    let node = try #require(TestService.node)
    // Nobody accepts, as at a node that is frozen.
    let silent = try Listener(
      loop: EventLoop(name: "silent"), address: .loopbackIPv4(port: 0), reusePort: false,
      keepAlive: nil
    ) { _, _ in }
    defer { withExtendedLifetime(silent) {} }
    service.service.setLinkTarget((node, try #require(silent.localAddress)))
    let start = EventLoop.monotonicMilliseconds()
    #expect(try provider.exchange(channelList(), body: []).status == 503)
    #expect(EventLoop.monotonicMilliseconds() - start < 2 * Limits.linkHandshakeMilliseconds)
    let pushes = try begin(1)
    try setTarget(true)
    // If the node has the device before the push, nothing waits for the device.
    var frame = try #require(try device.client.nextFrame())
    if frame.command == 0x0e { frame = try #require(try device.client.nextFrame()) }
    #expect(frame.command == 0x0a)
    try device.acknowledge(frame)
    try expect(200, to: pushes)
  }

  @Test("A node that takes over goes on with the devices of its own edge")
  func ownDevices() throws {
    let early = try service.courier(service.directory.device())
    try early.send(ConnectedDevice.connectMessage())
    #expect(try early.expect(0x08)[1] == [0])
    // Nobody accepts there: the node before is lost.
    let node = try #require(TestService.node)
    service.service.setLinkTarget((node, .loopbackIPv4(port: 1)))
    try waitUntil("the device to be gone there") { service.service.connectionCount() == 0 }
    // What it sends meanwhile is not lost.
    try device.client.send(RawCourierFrame(0x0c))
    // It waits for the service of its own process, which answers pushes before it has the device. One that no node has
    // had goes over a link.
    let late = try service.courier(service.directory.device())
    try late.send(ConnectedDevice.connectMessage())
    service.service.surrender()
    try setTarget(true)
    #expect(try late.expect(0x08)[1] == [0])
    try expect(200, to: try begin(1))
    #expect(service.service.connectionCount() == 1)
    #expect(service.service.takeDevices() == 1)
    // What has come for it, and the answer.
    let stored = try device.notification()
    #expect(stored[7] == [Self.fromStorage | Self.isLast])
    #expect(try device.client.expect(0x0d).fields.isEmpty)
    try device.acknowledge(stored)
    // One that has not said what it wants connects again.
    #expect(try early.nextFrame() == nil)
    let pushes = try begin(3)
    #expect(try ids(3).count == 3)
    try expect(200, to: pushes)
    #expect(service.service.takeDevices() == 0)
  }

  @Test("Requests about channels are answered by the node that decides, or with 503")
  func channels() throws {
    let provider = try service.provider(at: .channels)
    #expect(try provider.exchange(channelList(), body: []).status != 503)
    try setTarget(false)
    let other = try service.provider(at: .channels)
    #expect(try other.exchange(channelList(), body: []).status == 503)
  }

  @Test("A device of our dialect at an edge is told where the node that decides is")
  func hint() throws {
    let advertising = try TestService(
      nil, .init { ($0.isBehindEdge, $0.advertisedHost) = (true, "::1") })
    let response = try advertising.connect().response
    let place = String(decoding: try #require(response[0x41]), as: UTF8.self)
    #expect(place.hasPrefix("[::1]:"))
    #expect(device.response[0x41] == nil)
    let direct = try TestService(
      nil, .init { ($0.isBehindEdge, $0.advertisedHost) = (false, "::1") })
    #expect(try direct.connect().response[0x41] == nil)
  }

  @Test("The administration of an edge shows and changes what the node that decides has")
  func administration() throws {
    let edge = try MonitoredService { $0.isBehindEdge = true }
    let device = try edge.service.connect()
    try device.settle()
    #expect(try edge.json("v1", "status")["devices_connected"]?.integer == 1)
    #expect(try edge.get("readyz") == "ready\n")
    #expect(try edge.metric("apus_links") == 1)
    edge.service.service.setLinkTarget(nil)
    let start = EventLoop.monotonicMilliseconds()
    let socket = WebCall.Endpoint.unix(path: edge.service.directory.data.adminSocket)
    #expect(try WebCall(socket, "GET", ["v1", "status"]).perform().status == 503)
    #expect(EventLoop.monotonicMilliseconds() - start + 200 >= Limits.linkWaitMilliseconds)
    #expect(try WebCall(socket, "GET", ["readyz"]).perform().status == 503)
    #expect(try edge.metric("apus_links") == 0)
    let node = try #require(TestService.node)
    edge.service.service.setLinkTarget((node, try #require(edge.service.linkAddress)))
    #expect(try edge.get("readyz") == "ready\n")
    #expect(try edge.json("v1", "teams")["teams"]?.array?.isEmpty == false)
  }

  private func channelList() -> [RawHeader] {
    pusher.headers(token).setting(":path", "/1/apps/\(TestDirectory.topic)/all-channels")
      .setting(":method", "GET")
  }
}
