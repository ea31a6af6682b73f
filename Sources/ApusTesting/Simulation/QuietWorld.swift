import ApusRandom
import ApusModel
import ApusServer
import ApusTLS

/// A service on a simulated host with its clock, in a world without other events.
final class QuietWorld {
  let timeline = Timeline()
  let network: SimulatedNetwork
  let server: SimulatedServer
  let credentials: SimulationCredentials

  /// - Parameter configure: Changes the service's configuration.
  init(configure: (inout ServerConfiguration) -> Void = { _ in }) throws {
    var random = SeededRandom(seed: 1)
    credentials = try SimulationCredentials()
    let trace = SimulationTrace(timeline, capacity: 0)
    let host = SimulatedHost(SimulatedClock(timeline), random: random.split())
    network = SimulatedNetwork(timeline, random: random.split(), trace: trace)
    let disk = SimulatedDisk(timeline, random: random.split(), trace: trace, canary: nil)
    let credentials = credentials
    var configuration = ServerConfiguration(dataDirectory: "(simulated)", listeners: [])
    configure(&configuration)
    server = try SimulatedServer(
      host: host, network: network, disk: disk, trace: trace,
      listeners: SimulationListener.all.map {
        ($0.configuration(nil), try $0.serverContext(credentials))
      },
      configuration: configuration, trust: try credentials.trust(SimulatedDirectory()), workers: 1,
      random: random.split())
    network.pick = { [unowned server] in server }
  }

  func start() {
    server.start()
    advance(1)
  }

  func advance(_ seconds: Int) {
    timeline.run(until: timeline.now + UInt64(seconds) * Timeline.second) { false }
  }

  /// - Parameter certificate: The client's index in the credentials; nil for none.
  func connect(
    _ owner: any ChannelOwner, listener: Int, certificate: Int?, protocols: [String]
  ) throws -> ClientChannel {
    try ClientChannel(
      owner, listener: listener,
      context: credentials.clientContext(certificate: certificate, protocols: protocols),
      network: network)
  }

  /// Breaks the reference cycles.
  func end() {
    timeline.clear()
    server.discard()
    network.clear()
  }
}
