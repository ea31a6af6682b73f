import ApusCore
import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusRelay
import ApusServer
import ApusStore
import ApusTLS
import ApusTesting
import ApusThread
import ApusTrust
import ApusWebhooks
import ApusWire
import Glibc
import Synchronization

/// A gateway with an upstream service behind it, each with its own directory, keys and devices.
///
/// Only `TestDirectory.topic` has an upstream, where the app has the name `TestDirectory.otherTopic`.
final class RelayBench {
  let script = ScriptedUpstream()
  let upstream: TestService
  private(set) var gateway: TestService
  private(set) var relay: Relay
  private let limits: SpoolLimits
  private let lines: LogLines

  /// - Parameter store: In place of the directory's.
  init(
    _ limits: SpoolLimits = SpoolLimits(), store: MemoryStore? = nil, webhook: Webhook? = nil
  ) throws {
    let script = script
    upstream = try TestService(nil, .init { $0.interceptor = script })
    let directory = try TestDirectory()
    if let webhook { try directory.data.add(webhook) }
    try Self.configure(directory.data, upstream)
    let lines = LogLines()
    (self.lines, self.limits) = (lines, limits)
    (gateway, relay) = try Self.start(directory, limits, lines, store)
  }

  private static func start(
    _ directory: TestDirectory, _ limits: SpoolLimits, _ lines: LogLines,
    _ store: MemoryStore? = nil
  ) throws -> (TestService, Relay) {
    let relay = Relay(limits, log: Log(minimumLevel: .info) { lines.append($0) })
    var confirming = BinaryRules.standard
    confirming.confirmsAccepted = true
    let rules = [BinaryRules.standard, confirming]
    let gateway = try TestService(
      directory,
      .init {
        $0.relay = relay
        $0.isEphemeral = false
        $0.store = store
        $0.gatewayRules = rules
      })
    return (gateway, relay)
  }

  /// Ends the gateway, and starts it again on the same data.
  func restart() throws {
    gateway.stop()
    (gateway, relay) = try Self.start(gateway.directory, limits, lines)
  }

  /// Changes the app's record in the gateway's directory, and lets it apply.
  func edit(_ key: String, to value: String) throws {
    let data = gateway.directory.data
    try data.edit { text, records in
      text.set(key, to: value, in: try data.section("app", TestDirectory.topic, of: records))
    }
    gateway.service.reload()
  }

  /// Lets the app have another upstream.
  func turn(to upstream: MisbehavingUpstream) throws {
    let file = "\(gateway.directory.data.path)/upstreams/\(TestDirectory.topic).authority.crt"
    try Files.write(upstream.authorityPEM, to: file, isPrivate: false)
    try edit("upstream", to: "https://127.0.0.1:\(upstream.port)")
  }

  /// A sender with a certificate for the app, on the binary interface.
  ///
  /// - Parameter confirms: Whether the listener confirms what is accepted.
  func sender(confirms: Bool = false, _ identity: TLSIdentity? = nil) throws -> RawGatewayClient {
    try gateway.gateway(
      listener: confirms ? 1 : 0,
      identity: identity ?? gateway.directory.providerIdentity())
  }

  /// Sends a frame that has an identifier on a connection of its own, and waits until it is accepted.
  ///
  /// - Parameter isRejected: Whether upstream rejects its token. If it does so before the confirmation has left, the
  ///   sender gets the error packet alone.
  func accept(_ frame: [UInt8], _ identity: TLSIdentity? = nil, isRejected: Bool = false) throws {
    let sender = try sender(confirms: true, identity)
    try sender.send(frame)
    let packet = try sender.packet()
    guard let packet, packet[1] == 0 || isRejected && packet[1] == 8 else {
      throw RawFault.unexpected("the frame was not accepted: \(packet ?? [])")
    }
  }

  /// The feedback list, once so many tokens were in it.
  func feedback(count: Int) throws -> [RawFeedbackTuple] {
    var tuples: [RawFeedbackTuple] = []
    try waitFor {
      tuples += try gateway.feedback()
      return tuples.count >= count
    }
    return tuples
  }

  func figures() -> [RelayFigures] {
    let found = Monitor<[RelayFigures]?>(nil)
    relay.report { figures in found.notify { $0 = figures } }
    return found.take()
  }

  /// Waits until the spool is empty.
  func drain() throws {
    try waitFor { figures().allSatisfy { $0.count == 0 } }
  }

  private static func configure(_ data: DataDirectory, _ upstream: TestService) throws {
    let (topic, key) = (TestDirectory.topic, upstream.directory.key)
    let folder = "\(data.path)/upstreams"
    try Files.makeDirectory(folder)
    try Files.write(key.key.pkcs8PEM, to: "\(folder)/\(topic).p8", isPrivate: true)
    try Files.write(
      upstream.directory.serviceAuthority.certificate.pem, to: "\(folder)/\(topic).authority.crt",
      isPrivate: false)
    try data.edit { text, records in
      let section = try data.section("app", topic, of: records)
      text.set("upstream-topic", to: TestDirectory.otherTopic, in: section)
      text.set("upstream-team", to: key.team.text, in: section)
      text.set("upstream-key-id", to: key.id.text, in: section)
      text.set(
        "upstream", to: "https://localhost:\(upstream.address(.provider, .development).port)",
        in: section)
    }
  }

  /// The fields of a push through the gateway.
  func push(to token: String, topic: String = TestDirectory.topic) throws -> [RawHeader] {
    try gateway.pushHeaders(to: token, topic: topic, authorization: gateway.authorization())
  }

  /// A token that the upstream service issued, of a device that has the app there and is connected.
  func device() throws -> (ConnectedDevice, token: String) {
    let device = try upstream.connect(nil, .development)
    try device.enable(TestDirectory.otherTopic)
    return (device, try device.token(TestDirectory.otherTopic))
  }

  func logged(_ text: String) -> Bool { lines.contain(text) }
}

private final class LogLines: Sendable {
  private let lines = Mutex<[String]>([])

  func append(_ line: String) { lines.withLock { $0.append(line) } }

  func contain(_ text: String) -> Bool { lines.withLock { $0.contains { $0.contains(text) } } }
}

/// Waits for what others bring about.
func waitFor(_ condition: () throws -> Bool, line: Int = #line) throws {
  let deadline = ContinuousClock.now + .seconds(20)
  while try !condition() {
    guard ContinuousClock.now < deadline else {
      throw RawFault.unexpected("what line \(line) waits for did not come")
    }
    usleep(5000)
  }
}
