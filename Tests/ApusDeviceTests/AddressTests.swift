import ApusAdmin
import ApusDevice
import ApusDirectory
import ApusLoop
import ApusModel
import ApusServer
import ApusTLS
import ApusTrust
import Glibc
import Testing

@Suite("A device with several addresses of its service", .timeLimit(.minutes(30)))
struct AddressTests {
  /// Nothing listens there.
  private static let dead = SocketAddress.loopbackIPv4(port: 1)
  /// Longer than any test: a device that waited would not come back.
  private static let longWaits = Backoff.Configuration(
    firstMilliseconds: 3_600_000, maximumMilliseconds: 3_600_000)

  private func alternative(
    _ address: SocketAddress, serverName: String = "localhost"
  ) -> DeviceConnection.Alternative {
    .init(endpoint: .addresses([address]), serverName: serverName)
  }

  @Test(
    "When the first address is dead, the device connects to the second at once, and stays there")
  func first() async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    let device = try LiveDevice(
      live, identity: live.issueDevice(), address: Self.dead,
      alternatives: [alternative(live.address(.courier))], backoff: Self.longWaits)
    device.perform { $0.start() }
    try await device.failed(retryMilliseconds: 0)
    _ = try await device.connected(isNew: true)
    try await device.nothingStored()
    #expect(await device.addressIndex() == 1)
    try await device.stop()
    // The next round begins with the address that worked, and resumes the session of it.
    device.perform { $0.start() }
    _ = try await device.connected(isNew: false, isResumed: true)
    try await device.nothingStored()
    try await device.stop()
  }

  @Test("A device whose connection breaks goes to the other address at once")
  func broken() async throws {
    let live = try LiveService()
    let other = try LiveService(copyOf: live)
    defer {
      live.service.stop()
      other.service.stop()
    }
    var backoff = Self.longWaits
    // Every connection counts as one that worked.
    backoff.steadyMilliseconds = 0
    let device = try LiveDevice(
      live, identity: live.issueDevice(), alternatives: [alternative(other.address(.courier))],
      backoff: backoff)
    device.perform { $0.start() }
    _ = try await device.connected(isNew: true)
    try await device.nothingStored()
    for place in [1, 0, 1] {
      device.cut()
      try await device.failed(retryMilliseconds: 0)
      guard case .connected = try await device.next() else {
        Issue.record("not connected to the other address")
        return
      }
      try await device.nothingStored()
      #expect(await device.addressIndex() == place)
    }
    try await device.stop()
  }

  @Test("When its service stops, the device goes to the other one; when both have, it waits")
  func stopped() async throws {
    let live = try LiveService()
    let other = try LiveService(copyOf: live)
    let device = try LiveDevice(
      live, identity: live.issueDevice(), alternatives: [alternative(other.address(.courier))],
      backoff: Self.longWaits)
    device.perform { $0.start() }
    _ = try await device.connected(isNew: true)
    try await device.nothingStored()
    for (service, place) in [(live, 1), (other, 0)] {
      service.service.stop()
      // The service says when to come back.
      guard case .disconnected(.goodbye, let wait?) = try await device.next() else {
        Issue.record("the service closed without a reason")
        return
      }
      #expect(wait < 1_800_000)
      try await device.failed(retryMilliseconds: 0)
      if place == 0 { break }
      guard case .connected = try await device.next() else {
        Issue.record("not connected to the other service")
        return
      }
      try await device.nothingStored()
      #expect(await device.addressIndex() == place)
    }
    guard case .disconnected(.unreachable, let wait?) = try await device.next() else {
      Issue.record("a service is still running")
      return
    }
    #expect(wait >= 1_800_000)
    // The next round begins with the address that worked last.
    #expect(await device.addressIndex() == 1)
    try await device.stop()
  }

  @Test("A device at an edge goes to the node that serves, and back when that is gone")
  func hint() async throws {
    let live = try LiveService(isNode: true)
    let edge = try live.edge()
    defer { edge.stop() }
    let address = try #require(edge.listeners.first { $0.kind == .courier }?.addresses.first)
    var backoff = Self.longWaits
    backoff.steadyMilliseconds = 0
    let device = try LiveDevice(
      live, identity: live.issueDevice(), address: address, backoff: backoff)
    device.perform { $0.start() }
    _ = try await device.connected(isNew: true)
    try await device.nothingStored()
    #expect(await device.hintedAddress() == nil)
    device.cut()
    try await device.failed(retryMilliseconds: 0)
    guard case .connected = try await device.next() else {
      Issue.record("not connected to the node")
      return
    }
    try await device.nothingStored()
    let place = live.address(.courier).description
    #expect(await device.hintedAddress() == place)
    live.service.stop()
    guard case .disconnected(.goodbye, _?) = try await device.next() else {
      Issue.record("the service closed without a reason")
      return
    }
    // Nothing listens there any more, so the edge is next. It may reach the node once more while that stops.
    try await device.failed(retryMilliseconds: 0)
    #expect(await device.hintedAddress() == nil)
    device.perform { $0.stop() }
    while true {
      if case .disconnected(.stopped, _) = try await device.next() { break }
    }
  }

  @Test("A retired device is told so by one address, and tries no other")
  func retired() async throws {
    let live = try LiveService()
    let other = try LiveService(copyOf: live)
    defer {
      live.service.stop()
      other.service.stop()
    }
    let identity = try live.issueDevice()
    let id = try DeviceCertificate(identity.certificate).deviceID
    try live.data.retire(id, nowSeconds: EventLoop.wallClockMilliseconds() / 1000)
    live.service.reload()
    let device = try LiveDevice(
      live, identity: identity, alternatives: [alternative(other.address(.courier))])
    device.perform { $0.start() }
    guard case .disconnected(.refused, nil) = try await device.next() else {
      Issue.record("a retired device was accepted, or tries again")
      return
    }
    #expect(await device.addressIndex() == 0)
  }

  @Test("Each address has its own server name")
  func names() async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    let address = live.address(.courier)
    let device = try LiveDevice(
      live, identity: live.issueDevice(),
      alternatives: [
        alternative(address, serverName: "other.example.com"),
        alternative(address, serverName: "127.0.0.1"),
      ],
      serverName: "first.example.com", backoff: Self.longWaits)
    device.perform { $0.start() }
    for _ in 0..<2 {
      guard case .disconnected(.tls(.certificateRejected), let wait?) = try await device.next(),
        wait == 0
      else {
        Issue.record("a certificate without the name was accepted")
        return
      }
    }
    _ = try await device.connected(isNew: true)
    #expect(await device.addressIndex() == 2)
    try await device.nothingStored()
    try await device.stop()
  }

  @Test("An application's device has alternatives")
  func pushDevice() async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    let identity = try live.issueDevice()
    var configuration = DeviceConfiguration(
      host: "localhost", port: 1,
      authorityPEM: String(decoding: try live.authorityPEM, as: UTF8.self),
      certificatePEM: identity.certificate.pem, keyPEM: identity.key.pkcs8PEM,
      topics: DeviceTopics(enabled: [LiveService.topic]))
    configuration.alternatives = [DeviceAddress(host: "")]
    #expect(throws: DeviceError.self) { try PushDevice(configuration: configuration) }
    configuration.alternatives = [
      DeviceAddress(host: "127.0.0.1", port: live.address(.courier).port)
    ]
    let device = try PushDevice(configuration: configuration)
    try device.start()
    _ = try await device.token(for: LiveService.topic)
    await device.stop()
    var events: [DeviceEvent] = []
    for await event in device.events { events.append(event) }
    guard case .disconnected(_, retryMilliseconds: 0)? = events.first,
      case .connected(_, isNewToken: true, _) = events[1]
    else {
      Issue.record("\(events)")
      return
    }
  }
}

extension LiveDevice {
  fileprivate func addressIndex() async -> Int {
    await withCheckedContinuation { continuation in
      perform { continuation.resume(returning: $0.addressIndex) }
    }
  }

  fileprivate func hintedAddress() async -> String? {
    await withCheckedContinuation { continuation in
      perform { continuation.resume(returning: $0.hintedAddress) }
    }
  }

  /// Breaks the connection.
  fileprivate func cut() {
    perform { connection in
      if let descriptor = connection.descriptor { shutdown(descriptor, Int32(SHUT_RDWR)) }
    }
  }

  /// Any end that is followed by another attempt after this time.
  fileprivate func failed(retryMilliseconds: UInt64) async throws {
    let next = try await next()
    guard case .disconnected(_, retryMilliseconds) = next else {
      throw Unexpected(next, "disconnected, connects again in \(retryMilliseconds) ms")
    }
  }
}
