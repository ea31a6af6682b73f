import ApusAdmin
import ApusCore
import ApusDevice
import ApusDirectory
import ApusLoop
import ApusModel
import ApusServer
import ApusTLS
import ApusTrust
import ApusWire
import Foundation
import Testing

/// A complete service with its own data directory, otherwise in memory.
final class LiveService {
  static let topic = "com.example.app"
  static let notificationID = "11111111-2222-4333-8444-555555555555"

  let data: DataDirectory
  let service: Service
  let provisioned: ProvisionedService
  private let directory: URL

  private let configuration: ServerConfiguration
  private static let node = NodeName("a")

  /// - Parameters:
  ///   - other: The service whose authorities and keys this one has too; nil: it has its own.
  ///   - isNode: Whether it accepts links of an edge, and names itself to devices there.
  init(copyOf other: LiveService? = nil, isNode: Bool = false) throws {
    directory = FileManager.default.temporaryDirectory
      .appendingPathComponent("apus-device-\(UUID().uuidString)")
    data = DataDirectory(path: directory.path)
    if let other {
      try FileManager.default.copyItem(at: other.directory, to: directory)
      provisioned = other.provisioned
    } else {
      provisioned = try data.initialize(
        names: ["localhost", "127.0.0.1"], topic: Self.topic, teamName: "Team",
        nowSeconds: EventLoop.wallClockMilliseconds() / 1000)
    }
    var configuration = ServerConfiguration(
      dataDirectory: directory.path,
      listeners: [
        ListenerConfiguration(
          kind: .courier, environment: .production, addresses: [.loopbackIPv4(port: 0)]),
        ListenerConfiguration(
          kind: .provider, environment: .production, addresses: [.loopbackIPv4(port: 0)]),
      ])
    configuration.isEphemeral = true
    configuration.workers = 2
    configuration.shutdownSeconds = 3
    if isNode, let node = Self.node {
      configuration.link = LinkServing(
        identity: try data.linkIdentity(
          of: node, nowSeconds: EventLoop.wallClockMilliseconds() / 1000),
        isMember: { $0 == node })
      configuration.advertisedHost = "127.0.0.1"
      configuration.listeners.append(
        ListenerConfiguration(
          kind: .link, environment: .production, addresses: [.loopbackIPv4(port: 0)]))
    }
    self.configuration = configuration
    service = try Service(configuration)
    try service.start()
  }

  /// An edge in front of the service, which is a node.
  func edge() throws -> Service {
    var configuration = configuration
    configuration.listeners.removeLast()
    configuration.share = .none
    let edge = try Service(configuration)
    try edge.start()
    if let node = Self.node { edge.links?.set((node, address(.link))) }
    return edge
  }

  deinit { try? FileManager.default.removeItem(at: directory) }

  func address(_ kind: ListenerKind) -> SocketAddress {
    guard let listener = service.listeners.first(where: { $0.kind == kind }) else {
      preconditionFailure("the listener was asked for")
    }
    return listener.addresses[0]
  }

  var authorityPEM: [UInt8] {
    get throws { [UInt8](try Data(contentsOf: URL(fileURLWithPath: provisioned.authorityFile))) }
  }

  func issueDevice(rsaBits: Int? = nil) throws -> IssuedIdentity {
    try data.issueDevice(
      name: "device", rsaBits: rsaBits, nowSeconds: EventLoop.wallClockMilliseconds() / 1000
    ).identity
  }

  /// Sends a notification as a provider, with curl; returns the status and the body.
  func push(
    _ payload: String, to token: DeviceToken, expirationSeconds: Int64 = 4_000_000_000,
    collapseID: String = "score"
  ) throws -> String {
    let identity = try data.issueProvider(
      topic: Self.topic, team: provisioned.teamID, extraTopics: nil, environments: .both,
      nowSeconds: EventLoop.wallClockMilliseconds() / 1000)
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = [
      "curl", "--silent", "--http2", "--max-time", "20", "--cacert", provisioned.authorityFile,
      "--cert", identity.certificateFile, "--key", identity.keyFile, "--write-out", "%{http_code}",
      "--header", "apns-topic: \(Self.topic)", "--header", "apns-priority: 10",
      "--header", "apns-push-type: alert",
      "--header", "apns-id: \(Self.notificationID)",
      "--header", "apns-collapse-id: \(collapseID)", "--header",
      "apns-expiration: \(expirationSeconds)",
      "--data", payload,
      "https://localhost:\(address(.provider).port)/3/device/\(token.hex)",
    ]
    let output = Pipe()
    process.standardOutput = output
    try process.run()
    let data = output.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    return String(decoding: data, as: UTF8.self)
  }
}

/// Records the events of device connections, in order, for a test to wait for.
final class Recorder: DeviceConnectionDelegate, @unchecked Sendable {
  enum Happening: Sendable {
    case connected(DeviceToken, isNew: Bool, isResumed: Bool)
    case disconnected(DeviceDisconnection, retryMilliseconds: UInt64?)
    case received(CourierNotification, payload: String, collapseID: String)
    case appToken(DeviceToken?)
    case nothingStored
  }

  let happenings: AsyncStream<Happening>
  private let continuation: AsyncStream<Happening>.Continuation
  /// The verdicts on notifications, in order; later ones are acknowledged.
  var verdicts: [DeviceVerdict] = []
  /// Whether the delegate stops the connection when it is told of its end.
  var stopsWhenDisconnected = false

  init() { (happenings, continuation) = AsyncStream.makeStream() }

  func deviceConnection(
    _ connection: DeviceConnection, connectedAs token: DeviceToken, isNewToken: Bool,
    serverMilliseconds: UInt64
  ) {
    continuation.yield(
      .connected(token, isNew: isNewToken, isResumed: connection.isResumed))
  }

  func deviceConnection(
    _ connection: DeviceConnection, disconnected reason: DeviceDisconnection,
    retryMilliseconds: UInt64?
  ) {
    continuation.yield(.disconnected(reason, retryMilliseconds: retryMilliseconds))
    if stopsWhenDisconnected, retryMilliseconds != nil { connection.stop() }
  }

  func deviceConnection(
    _ connection: DeviceConnection, received notification: CourierNotification,
    payload: Span<UInt8>, collapseID: Span<UInt8>, channelID: Span<UInt8>
  ) -> DeviceVerdict {
    continuation.yield(
      .received(notification, payload: payload.text, collapseID: collapseID.text))
    return verdicts.isEmpty ? .acknowledge : verdicts.removeFirst()
  }

  func deviceConnection(
    _ connection: DeviceConnection, appToken token: DeviceToken?, for topic: TopicHash
  ) { continuation.yield(.appToken(token)) }

  func deviceConnectionFoundNothingStored(_ connection: DeviceConnection) {
    continuation.yield(.nothingStored)
  }
}

/// A device connection with its loop.
final class LiveDevice: @unchecked Sendable {
  let loop = EventLoop(name: "device")
  let recorder = Recorder()
  /// Used only on the loop.
  let connection: DeviceConnection
  private var iterator: AsyncStream<Recorder.Happening>.Iterator

  init(
    _ live: LiveService, identity: IssuedIdentity, dialect: CourierALPN = .apus,
    authorityPEM: [UInt8]? = nil, address: SocketAddress? = nil,
    alternatives: [DeviceConnection.Alternative] = [], serverName: String = "localhost",
    verdicts: [DeviceVerdict] = [],
    backoff: Backoff.Configuration = .init(firstMilliseconds: 20, maximumMilliseconds: 100)
  ) throws {
    iterator = recorder.happenings.makeAsyncIterator()
    recorder.verdicts = verdicts
    let inBand = dialect == .securityV3
    let context = try TLSContext(
      client: TLSClientConfiguration(
        trustRoots: .authorities(PEM: try authorityPEM ?? live.authorityPEM),
        identity: inBand
          ? nil
          : TLSIdentity(
            certificateChainPEM: Array(identity.certificate.pem.utf8),
            privateKeyPEM: Array(identity.key.pkcs8PEM.utf8)),
        applicationProtocols: ["\(dialect.name)"], serverName: serverName))
    connection = DeviceConnection(
      shared: DeviceLoop(loop: loop),
      configuration: .init(
        endpoint: .addresses([address ?? live.address(.courier)]), alternatives: alternatives,
        context: context,
        client: .init(dialect: dialect), backoff: backoff,
        inBandIdentity: inBand
          ? .init(certificateDER: identity.certificate.der, key: identity.key) : nil),
      seed: 1, delegate: recorder)
    connection.setTopics(.init(enabled: [TopicHash(of: Array(LiveService.topic.utf8).span)]))
    loop.start()
  }

  deinit { loop.stop() }

  /// The next event, each returned once.
  func next() async throws -> Recorder.Happening {
    try #require(await iterator.next())
  }

  func perform(_ body: @Sendable @escaping (DeviceConnection) -> Void) {
    loop.perform { body(self.connection) }
  }
}
