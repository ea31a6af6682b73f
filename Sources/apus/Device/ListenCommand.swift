import ApusCommand
import ApusDevice
import ApusDirectory
import ApusLoop
import ApusModel
import ApusServer
import ApusTLS
import ApusTrust
import ApusWire
import Glibc

/// `apus listen`: collects what a device needs, and runs its loop.
struct ListenCommand {
  let invocation: Invocation
  /// The service's listeners for devices.
  private let couriers: [HostPort]

  init(_ invocation: Invocation) {
    self.invocation = invocation
    couriers = invocation.couriers
  }

  func run() throws(CommandFailure) {
    let topics = try topics()
    guard topics.count <= Limits.courierFilterTopics else {
      throw invocation.failure(
        about: ApusOptions.topics,
        "a device can register at most \(Limits.courierFilterTopics) topics")
    }
    let dropped = invocation.all(ApusOptions.unregister)
    if let both = dropped.first(where: topics.contains) {
      throw invocation.failure(
        about: ApusOptions.unregister, "\"\(both)\" cannot be both registered and unregistered")
    }
    let channels = try ListenedChannels(invocation, topics: topics)
    let (identity, file) = try ListenIdentity(invocation, couriers).find()
    let authority = try invocation.authority(ApusOptions.authority, of: couriers[0], .courier)
    let context: TLSContext
    do throws(TLSError) {
      context = try Self.context(identity, authority, couriers[0])
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
    let loop = EventLoop(name: "listen")
    let listener = DeviceListener(
      loop: loop, topics: topics, channels: channels, couriers: couriers,
      invocation: invocation,
      configuration: DeviceConnection.Configuration(
        endpoint: Self.endpoint(couriers[0]),
        alternatives: couriers.dropFirst().map {
          .init(endpoint: Self.endpoint($0), serverName: $0.host)
        },
        context: context,
        client: CourierClient.Configuration(
          keepAliveMilliseconds: invocation.keepAliveMilliseconds),
        renewal: file == nil ? nil : RenewalPlan(identity, .sameKey)),
      strings: try strings(),
      renewal: file.map { file in
        { [couriers] identity in
          let context = try Self.context(identity, authority, couriers[0])
          try file.write(identity)
          return context
        }
      })
    do throws(SocketError) {
      // Both signals stop the command.
      let signals = try [SIGINT, SIGTERM].map { (signal) throws(SocketError) in
        try SignalWatcher(loop: loop, signal: signal) { listener.stop() }
      }
      // A released watcher stops watching, and the optimiser may release a value after its last use.
      withExtendedLifetime(signals) {
        listener.start()
        loop.run()
      }
    } catch {
      throw CommandFailure(.failed, "\(error)")
    }
    if let failure = listener.failure { throw failure }
  }

  /// The app's texts, for payloads that refer to them by key.
  private func strings() throws(CommandFailure) -> [String: String] {
    guard let path = invocation[ApusOptions.strings] else { return [:] }
    let text = try Process.text(of: path, for: ApusOptions.strings, invocation)
    guard let object = JSONValue(text: text)?.object else {
      throw invocation.failure(
        about: ApusOptions.strings, "\(path) is not a JSON object with text values")
    }
    return Dictionary(
      object.members.compactMap { member in member.value.string.map { (member.key, $0) } }
    ) { first, _ in first }
  }

  private func topics() throws(CommandFailure) -> [String] {
    let given = invocation.all(ApusOptions.topics)
    if !given.isEmpty || invocation.isGiven(ApusOptions.unregister) { return given }
    let directory = DataDirectory(path: invocation.value(ApusOptions.data))
    guard directory.isProvisioned else { throw invocation.missing(ApusOptions.topics.description) }
    let apps = try Operator(invocation).sections("app").map(\.name)
    guard apps.count == 1 else {
      var failure = invocation.missing(ApusOptions.topics.description)
      failure.problem =
        "--topic is missing, and the number of apps in \(directory.path) is \(apps.count)"
      throw failure
    }
    return apps
  }

  private static func endpoint(_ courier: HostPort) -> DeviceConnection.Endpoint {
    if let address = try? SocketAddress(courier.description) { return .addresses([address]) }
    return .host(courier.host, port: courier.port)
  }

  private static func context(
    _ identity: DeviceIdentity, _ authority: [UInt8]?, _ courier: HostPort
  ) throws(TLSError) -> TLSContext {
    try TLSContext(
      client: TLSClientConfiguration(
        trustRoots: authority.map { .authorities(PEM: $0) } ?? .system,
        identity: TLSIdentity(
          certificateChainPEM: Array(identity.certificatePEM.utf8),
          privateKeyPEM: Array(identity.keyPEM.utf8)),
        applicationProtocols: [CourierALPN.apus.name.description],
        serverName: courier.host))
  }
}
