import ApusDirectory
import ApusLoop
import ApusModel
import ApusServer
import ApusTLS
import ApusTrust
import ApusWire
import Glibc
import Testing

@testable import ApusDevice

@Suite("A device stays connected to a service", .timeLimit(.minutes(30)))
struct DeviceConnectionTests {
  @Test(
    "It connects, gets its token and a notification, and stops",
    arguments: [CourierALPN.apus, .securityV2, .securityV3])
  func wholeWay(dialect: CourierALPN) async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    let device = try LiveDevice(
      live, identity: live.issueDevice(rsaBits: dialect == .securityV3 ? 2048 : nil),
      dialect: dialect)
    device.perform { $0.start() }
    _ = try await device.connected(isNew: true)
    try await device.nothingStored()
    let token = try await device.appToken()
    let expiration = EventLoop.wallClockMilliseconds() / 1000 + 3600
    #expect(
      try live.push(#"{"aps":{"alert":"Hi"}}"#, to: token, expirationSeconds: expiration) == "200")
    let (notification, payload, collapseID) = try await device.received()
    #expect(payload == #"{"aps":{"alert":"Hi"}}"#)
    #expect(notification.token == token)
    #expect(notification.priority == .immediate)
    #expect(notification.expirySeconds == UInt32(expiration))
    let isOurs = dialect == .apus
    #expect(notification.id?.text == (isOurs ? LiveService.notificationID : nil))
    #expect(notification.pushType == (isOurs ? .alert : nil))
    #expect(collapseID == (isOurs ? "score" : ""))
    try await device.stop()
    #expect(live.service.counts()[.delivered] == 1)
  }

  /// Another holder of the same identity: it accepts no notifications, and stays disconnected once displaced.
  private func intruder(_ live: LiveService, _ identity: IssuedIdentity) throws -> LiveDevice {
    try LiveDevice(
      live, identity: identity, verdicts: [.hold, .hold],
      backoff: .init(firstMilliseconds: 300_000, maximumMilliseconds: 300_000))
  }

  @Test("A displaced device reports the reason, reconnects and resumes its session")
  func displaced() async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    let identity = try live.issueDevice()
    let device = try LiveDevice(live, identity: identity)
    device.perform { $0.start() }
    let token = try await device.connected(isNew: true)
    try await device.nothingStored()
    try await device.displace(by: intruder(live, identity))
    let again = try await device.connected(isNew: false, isResumed: true)
    #expect(again == token)
    try await device.nothingStored()
    try await device.stop()
  }

  @Test("An attempt that breaks before the service sends anything keeps the TLS session")
  func cutAttempts() async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    let identity = try live.issueDevice()
    let device = try LiveDevice(live, identity: identity)
    let overrun = try CuttingListener()
    device.perform { $0.start() }
    let token = try await device.connected(isNew: true)
    try await device.nothingStored()
    let (there, elsewhere) = (live.address(.courier), overrun.address)
    device.perform { $0.configuration.endpoint = .addresses([elsewhere]) }
    try await device.displace(by: intruder(live, identity))
    for _ in 0..<3 {
      switch try await device.disconnected() {
      case .transport, .unreachable: continue
      case let other: Issue.record("the attempt ended with \(other)")
      }
    }
    device.perform { $0.configuration.endpoint = .addresses([there]) }
    #expect(try await device.connectedAtLast(isResumed: true) == token)
    try await device.nothingStored()
    try await device.stop()
  }

  @Test("A delegate can stop the connection when a write fails")
  func stoppedAtFailedWrite() async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    let device = try LiveDevice(live, identity: live.issueDevice())
    device.recorder.stopsWhenDisconnected = true
    device.perform { $0.start() }
    _ = try await device.connected(isNew: true)
    try await device.nothingStored()
    let stage = await withCheckedContinuation { continuation in
      device.perform { connection in
        if let descriptor = connection.descriptor { shutdown(descriptor, Int32(SHUT_RDWR)) }
        connection.setPower(.lowPower)
        continuation.resume(returning: connection.stage)
      }
    }
    #expect(stage == .idle)
    guard case .transport = try await device.disconnected(),
      case .stopped = try await device.disconnected()
    else {
      Issue.record("it ended differently")
      return
    }
  }

  @Test("A held notification is reported once, over two connections, and acknowledged")
  func held() async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    let identity = try live.issueDevice()
    let device = try LiveDevice(live, identity: identity, verdicts: [.hold])
    device.perform { $0.start() }
    _ = try await device.connected(isNew: true)
    try await device.nothingStored()
    let token = try await device.appToken()
    #expect(try live.push(#"{"aps":{}}"#, to: token) == "200")
    let messageID = try await device.received().0.messageID
    try await device.displace(by: intruder(live, identity))
    _ = try await device.connected(isNew: false, isResumed: true)
    // The answer to this request follows the repetition.
    _ = try await device.appToken()
    #expect(live.service.counts()[.deliveredFromStorage, default: 0] == 0)
    device.perform { $0.acknowledge(messageID) }
    try await device.stop()
    #expect(live.service.counts()[.deliveredFromStorage] == 1)
  }

  @Test("A declined notification is reported again on the next connection")
  func declined() async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    let identity = try live.issueDevice()
    let device = try LiveDevice(live, identity: identity, verdicts: [.decline])
    device.perform { $0.start() }
    _ = try await device.connected(isNew: true)
    try await device.nothingStored()
    let token = try await device.appToken()
    #expect(try live.push(#"{"aps":{}}"#, to: token) == "200")
    let first = try await device.received().0
    #expect(!first.storage.contains(.fromStorage))
    try await device.displace(by: intruder(live, identity))
    _ = try await device.connected(isNew: false, isResumed: true)
    let second = try await device.received().0
    #expect(second.messageID == first.messageID)
    #expect(second.storage == [.fromStorage, .lastFromStorage])
    try await device.stop()
    #expect(live.service.counts()[.deliveredFromStorage] == 1)
  }

  @Test("The reason for a failed connection is reported, and the device tries again")
  func failures() async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    let identity = try live.issueDevice()
    let foreign = try CertificateAuthority.create(
      commonName: "foreign",
      validity: Validity(now: EventLoop.wallClockMilliseconds() / 1000, days: 1))

    let nobody = try LiveDevice(live, identity: identity, address: .loopbackIPv4(port: 1))
    let atProviders = try LiveDevice(live, identity: identity, address: live.address(.provider))
    let distrustful = try LiveDevice(
      live, identity: identity, authorityPEM: Array(foreign.certificate.pem.utf8))
    let unproven = try LiveDevice(live, identity: identity, dialect: .securityV3)
    for device in [nobody, atProviders, distrustful, unproven] { device.perform { $0.start() } }
    for _ in 0..<2 {
      guard
        case .unreachable(.system(.connect, _, .loopbackIPv4(port: 1)?)) =
          try await nobody.disconnected()
      else {
        Issue.record("something listens on port 1")
        return
      }
      guard case .tls(.noApplicationProtocol) = try await atProviders.disconnected() else {
        Issue.record("the provider listener accepted a device")
        return
      }
      guard case .tls(.certificateRejected) = try await distrustful.disconnected() else {
        Issue.record("the service was trusted")
        return
      }
      guard case .proof(.unsupportedKey) = try await unproven.disconnected() else {
        Issue.record("an EC key signed")
        return
      }
    }
    for device in [nobody, atProviders, distrustful, unproven] { device.perform { $0.stop() } }
  }

  @Test("A device with a certificate of another authority gets that reason, and stops")
  func foreignDevice() async throws {
    let live = try LiveService()
    let other = try LiveService()
    defer {
      live.service.stop()
      other.service.stop()
    }
    let device = try LiveDevice(live, identity: other.issueDevice())
    for _ in 0..<2 {
      device.perform { $0.start() }
      // 48: unknown_ca.
      guard case .disconnected(.tls(.alertReceived(48)), nil) = try await device.next() else {
        Issue.record("a foreign device was accepted, got no reason, or tries again")
        return
      }
    }
  }

  @Test("A retired device is told so, and stops")
  func retired() async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    let identity = try live.issueDevice()
    let device = try LiveDevice(live, identity: identity)
    device.perform { $0.start() }
    _ = try await device.connected(isNew: true)
    try await device.nothingStored()
    let id = try DeviceCertificate(identity.certificate).deviceID
    try live.data.retire(id, nowSeconds: EventLoop.wallClockMilliseconds() / 1000)
    live.service.reload()
    guard case .goodbye(reason: "the device is retired") = try await device.disconnected() else {
      Issue.record("the connection did not end with its reason")
      return
    }
    guard case .disconnected(.refused(let refusal), nil) = try await device.next() else {
      Issue.record("a retired device was accepted, or tries again")
      return
    }
    #expect(refusal.explanation.contains("is retired"))
  }

  @Test("The device waits for a service that shuts down")
  func serviceStops() async throws {
    let live = try LiveService()
    let device = try LiveDevice(live, identity: live.issueDevice())
    device.perform { $0.start() }
    _ = try await device.connected(isNew: true)
    try await device.nothingStored()
    live.service.stop()
    guard case .goodbye = try await device.disconnected() else {
      Issue.record("the service closed without a reason")
      return
    }
    guard case .unreachable = try await device.disconnected() else {
      Issue.record("the service is still running")
      return
    }
    try await device.stop()
  }
}

extension LiveDevice {
  struct Unexpected: Error, CustomStringConvertible {
    var description: String
    init(_ happening: Recorder.Happening, _ wanted: String) {
      description = "wanted \(wanted), got \(happening)"
    }
  }

  func connected(isNew: Bool, isResumed: Bool = false) async throws -> DeviceToken {
    let next = try await next()
    guard case .connected(let token, isNew, isResumed) = next else {
      throw Unexpected(next, "connected, new: \(isNew), resumed: \(isResumed)")
    }
    return token
  }

  /// The same after failed attempts.
  func connectedAtLast(isResumed: Bool) async throws -> DeviceToken {
    while true {
      let next = try await next()
      switch next {
      case .disconnected(_, _?): continue
      case .connected(let token, false, isResumed): return token
      default: throw Unexpected(next, "connected, resumed: \(isResumed)")
      }
    }
  }

  func nothingStored() async throws {
    let next = try await next()
    guard case .nothingStored = next else { throw Unexpected(next, "nothing stored") }
  }

  func appToken() async throws -> DeviceToken {
    perform { _ = $0.requestToken(TopicHash(of: Array(LiveService.topic.utf8).span)) }
    let next = try await next()
    guard case .appToken(let token?) = next else { throw Unexpected(next, "a token") }
    return token
  }

  func received() async throws -> (CourierNotification, String, String) {
    let next = try await next()
    guard case .received(let notification, let payload, let collapseID) = next else {
      throw Unexpected(next, "a notification")
    }
    return (notification, payload, collapseID)
  }

  func disconnected() async throws -> DeviceDisconnection {
    let next = try await next()
    guard case .disconnected(let reason, _) = next else {
      throw Unexpected(next, "a disconnection")
    }
    return reason
  }

  func stop() async throws {
    perform { $0.stop() }
    while true {
      let next = try await next()
      switch next {
      case .disconnected(.stopped, nil): return
      // An attempt that failed before the device was stopped.
      case .disconnected(_, _?): continue
      default: throw Unexpected(next, "stopped")
      }
    }
  }

  /// Lets another holder of the same identity connect briefly.
  func displace(by other: LiveDevice) async throws {
    other.perform { $0.start() }
    _ = try await other.connected(isNew: true)
    other.perform { $0.stop() }
    let next = try await next()
    guard case .disconnected(.goodbye, _?) = next else { throw Unexpected(next, "a goodbye") }
  }
}

/// Accepts connections and closes each one.
private final class CuttingListener: @unchecked Sendable {
  private let loop = EventLoop(name: "cutting")
  private let listener: Listener
  let address: SocketAddress

  init() throws {
    let loop = loop
    listener = try Listener(loop: loop, address: .loopbackIPv4(port: 0)) { descriptor, _ in
      try? Socket(adopting: descriptor, loop: loop).abort()
    }
    address = try #require(listener.localAddress)
    loop.start()
  }

  deinit { loop.stop() }
}
