import ApusCore
import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusRelay
import ApusTesting
import ApusTrust
import ApusWire
import Synchronization

/// A gateway with an upstream service behind it, each with its own directory, keys and devices.
///
/// Only `TestDirectory.topic` has an upstream, where the app has the name `TestDirectory.otherTopic`.
final class RelayBench {
  let script = ScriptedUpstream()
  let upstream: TestService
  let gateway: TestService
  private let lines: LogLines

  init(_ change: (DataDirectory, TestService) throws -> Void = { _, _ in }) throws {
    let script = script
    upstream = try TestService(nil, .init { $0.interceptor = script })
    let directory = try TestDirectory()
    try Self.configure(directory.data, upstream)
    try change(directory.data, upstream)
    let lines = LogLines()
    self.lines = lines
    let log = Log(minimumLevel: .info) { lines.append($0) }
    gateway = try TestService(directory, .init { $0.relay = Relay(log: log) })
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
