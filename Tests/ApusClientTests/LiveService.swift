import ApusAdmin
import ApusCore
import ApusDevice
import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusServer
import ApusTrust
import Foundation

@testable import ApusClient

/// A complete service with its own data directory, otherwise in memory.
final class LiveService {
  static let topic = "com.example.app"

  let data: DataDirectory
  private(set) var service: Service
  let provisioned: ProvisionedService
  private let directory: URL
  private var isStopped = false

  init() throws {
    directory = FileManager.default.temporaryDirectory
      .appendingPathComponent("apus-client-\(UUID().uuidString)")
    data = DataDirectory(path: directory.path)
    provisioned = try data.initialize(
      names: ["localhost", "127.0.0.1"], topic: Self.topic, teamName: "Team",
      nowSeconds: Self.nowSeconds)
    try data.changeApp(Self.topic, broadcasts: true)
    var configuration = ServerConfiguration(
      dataDirectory: directory.path,
      listeners: [
        ListenerConfiguration(
          kind: .provider, environment: .development, addresses: [.loopbackIPv4(port: 0)]),
        ListenerConfiguration(
          kind: .courier, environment: .development, addresses: [.loopbackIPv4(port: 0)]),
        ListenerConfiguration(
          kind: .channels, environment: .development, addresses: [.loopbackIPv4(port: 0)]),
      ])
    configuration.isEphemeral = true
    configuration.workers = 2
    configuration.shutdownSeconds = 5
    configuration.log = Log(minimumLevel: .warning)
    service = try Service(configuration)
    try service.start()
  }

  deinit {
    stop()
    try? FileManager.default.removeItem(at: directory)
  }

  /// Shuts down, and starts again on the same listeners.
  func restart() throws {
    stop()
    var configuration = service.configuration
    configuration.listeners = service.listeners.map {
      ListenerConfiguration(kind: $0.kind, environment: $0.environment, addresses: $0.addresses)
    }
    service = try Service(configuration)
    try service.start()
    isStopped = false
  }

  func stop() {
    guard !isStopped else { return }
    isStopped = true
    service.stop()
  }

  static var nowSeconds: Int64 { EventLoop.wallClockMilliseconds() / 1000 }

  func port(_ kind: ListenerKind) -> UInt16 {
    guard let listener = service.listeners.first(where: { $0.kind == kind }) else {
      preconditionFailure("the listener was asked for")
    }
    return listener.addresses[0].port
  }

  // MARK: Providers

  func read(_ path: String) throws -> [UInt8] {
    [UInt8](try Data(contentsOf: URL(fileURLWithPath: path)))
  }

  func tokenCredential() throws -> ClientConfiguration.Credential {
    .providerToken(
      keyPEM: try read(provisioned.keyFile), keyID: provisioned.keyID.text,
      teamID: provisioned.teamID.text)
  }

  func certificateCredential(
    environments: EnvironmentSet = .both
  ) throws -> ClientConfiguration.Credential {
    let identity = try data.issueProvider(
      topic: Self.topic, team: provisioned.teamID, extraTopics: nil, environments: environments,
      nowSeconds: Self.nowSeconds)
    return .certificate(
      certificatePEM: Array(identity.certificate.pem.utf8),
      keyPEM: Array(identity.key.pkcs8PEM.utf8))
  }

  func configuration(
    _ credential: ClientConfiguration.Credential, host: String = "localhost"
  ) throws -> ClientConfiguration {
    var configuration = ClientConfiguration(
      endpoint: Endpoint(host: host, port: port(.provider)),
      trustRoots: .pem(try read(provisioned.authorityFile)), credential: credential)
    configuration.channelsEndpoint = Endpoint(host: host, port: port(.channels))
    return configuration
  }

  // MARK: Devices

  /// A token of this service for a device that never connected.
  func tokenOfNobody() throws -> DeviceToken {
    TokenSealer(try data.sealingKeys()).seal(
      TokenClaims(
        device: DeviceID(0x0123_4567_89ab_cdef), topic: TopicKey(app: AppID(1)),
        environment: .development, generation: 1))
  }

  func device() throws -> PushDevice {
    let identity = try data.issueDevice(name: "device", nowSeconds: Self.nowSeconds).identity
    var configuration = DeviceConfiguration(
      host: "127.0.0.1", port: port(.courier),
      authorityPEM: String(decoding: try read(provisioned.authorityFile), as: UTF8.self),
      certificatePEM: identity.certificate.pem, keyPEM: identity.key.pkcs8PEM,
      topics: DeviceTopics(enabled: [Self.topic]))
    configuration.notificationBuffer = 1000
    return try PushDevice(configuration: configuration)
  }
}
