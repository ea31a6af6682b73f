import ApusCore
import ApusDirectory
import ApusLoop
import ApusModel
import ApusRandom
import ApusServer
import ApusTLS

/// The nodes that do not decide: edges, which pass on what their clients send. With the service that decides, which
/// moves from machine to machine, they are a cluster over one database: the world's disk.
final class SimulatedCluster {
  private unowned let world: Simulation
  private var random: SeededRandom
  private(set) var edges: [SimulatedServer] = []
  /// Processes that were taken over from and do not know it yet.
  private var fenced: [FencedProcess] = []
  var hasFenced: Bool { !fenced.isEmpty }
  private(set) var endCount = 0

  enum Fault: Int, CaseIterable {
    case edgeIsKilled, edgeLosesPower, edgeStops, edgeStalls
    case linkIsCut, edgeIsCutOff
    case nodeIsReplaced
  }

  static let serving = SimulationCredentials.node(0)

  /// - Parameter edgeCount: At most four.
  init(_ world: Simulation, edgeCount: Int, random: SeededRandom) throws {
    self.world = world
    self.random = random
    for index in 1...edgeCount { edges.append(try makeEdge(index)) }
  }

  private func makeEdge(_ index: Int) throws -> SimulatedServer {
    let host = makeHost()
    var configuration = ServerConfiguration(dataDirectory: "(simulated)", listeners: [])
    configuration.ledger = .off
    configuration.share = .none
    configuration.log = world.serviceLog
    configuration.link = Self.serving(as: index)
    let credentials = world.credentials
    let edge = try SimulatedServer(
      host: host, network: world.network,
      disk: SimulatedDisk(
        world.timeline, random: random.split(), trace: world.trace, canary: nil),
      trace: world.trace,
      listeners: SimulationListener.all.map {
        ($0.configuration(world.options.canary), try $0.serverContext(credentials))
      },
      configuration: configuration, trust: try credentials.trust(world.directory),
      workers: 1 + random.below(2), random: random.split())
    edge.edgeContext = { _ in
      try credentials.clientContext(
        certificate: SimulationCredentials.nodeCertificate(index),
        protocols: [LinkTarget.applicationProtocol])
    }
    edge.routesAgain = world.options.canary != .losesLinkBatch
    edge.givesUnhandled = world.options.canary != .losesUnhandled
    edge.onServe = { [unowned self, unowned edge] in tellLater(edge) }
    edge.onEnd = { [unowned self] in disturb(seconds: 10) }
    return edge
  }

  /// What a node needs to accept links from others.
  static func serving(as index: Int) -> LinkServing {
    LinkServing(
      identity: LinkIdentity(
        node: SimulationCredentials.node(index), certificatePEM: [], keyPEM: [], authorityPEM: []),
      isMember: { _ in true })
  }

  /// Another machine of the cluster.
  func makeHost() -> SimulatedHost {
    let host = SimulatedHost(world.clock, random: random.split())
    host.onConnect = { [unowned self, unowned host] address in connect(to: address, from: host) }
    return host
  }

  // MARK: Links

  /// The port is that of one process, so that what is meant for an earlier one is refused.
  private var address: SocketAddress { .loopbackIPv4(port: port) }
  private var port: UInt16 { UInt16(truncatingIfNeeded: world.server.generation) }

  private func connect(to address: SocketAddress, from host: SimulatedHost) -> any SimulatedEnd {
    endCount += 1
    let end = SimulatedNodeEnd(endCount, on: host)
    end.onEnd = { [unowned world, unowned host] in
      world.oracle.linkEnded()
      for device in world.devices where device.channel?.link?.host === host {
        device.disturbed()
      }
    }
    end.connect(
      to: ServingPlace(world.server, generation: world.server.generation, of: address),
      listener: SimulationListener.index(.link, .production), over: world.network)
    return end
  }

  /// Everyone learns where the service is, each in its own time. Devices at edges do not notice, but may get again what
  /// the node before has had.
  func served() {
    for device in world.devices { device.disturbed() }
    for edge in edges { tellLater(edge) }
  }

  private func tellLater(_ edge: SimulatedServer) {
    world.timeline.after(random.between(1_000, 600_000)) { [weak self, weak edge] in
      guard let self, let edge, world.server.state == .up else { return }
      // One edge stays where it was.
      if world.options.canary == .hasTwoOwners, !fenced.isEmpty, edge === edges[0] { return }
      edge.service?.links?.set((Self.serving, address))
    }
  }

  /// The service that decides stops, and says so.
  func stops() { for edge in edges { edge.service?.links?.set(nil) } }

  // MARK: The world

  func start() { for edge in edges { edge.start() } }

  func discard() {
    for process in fenced { process.end(world.network) }
    fenced = []
    for edge in edges { edge.discard() }
  }

  func replace(trust: Trust) { for edge in edges { edge.replace(trust: trust) } }

  func isUnder(generation: UInt64) -> Bool {
    fenced.isEmpty
      && edges.allSatisfy { $0.state == .down || $0.isUnder(generation: generation) }
  }

  /// A node for the next client.
  func pick() -> any SimulatedNode {
    let place = random.below(edges.count + 1)
    return place == edges.count ? world.server : edges[place]
  }

  /// Whether nothing is on its way between nodes, or to the client of `link`: what the node before has sent, and the
  /// one after it once more, may be under way at the same time.
  func isAtRest(for link: SimulatedLink) -> Bool {
    fenced.isEmpty && link.isPeerReading && link.toPeer.inFlightBytes == 0
      && edges.allSatisfy { $0.isServing && $0.service?.isQuiet == true }
      && world.network.betweenNodes.allSatisfy {
        !$0.isCut && $0.toService.inFlightBytes == 0 && $0.toService.unreadBytes == 0
          && $0.toPeer.inFlightBytes == 0
      }
  }

  // MARK: Faults

  private func disturb(seconds: UInt64, cutsLinks: Bool = false) {
    let end = world.timeline.now + seconds * Timeline.second
    if cutsLinks {
      world.linksCutUntil = max(world.linksCutUntil, end)
    } else {
      world.troubledUntil = max(world.troubledUntil, end)
    }
    for device in world.devices { device.disturbed() }
  }

  func happen(_ fault: Fault) {
    world.trace("cluster", fault.rawValue)
    let edge = random.pick(edges)
    switch fault {
    case .edgeIsKilled, .edgeLosesPower:
      if fault == .edgeLosesPower { hinderDevices(of: edge) }
      edge.crash(
        losesPower: fault == .edgeLosesPower, downMicroseconds: random.between(1_000, 20_000_000))
    case .edgeStops:
      disturb(seconds: 20)
      edge.stop(downMicroseconds: random.between(1_000, 5_000_000))
    case .edgeStalls:
      let seconds = random.between(1, 20)
      edge.host.stalledUntil = world.timeline.now + seconds * Timeline.second
      disturb(seconds: seconds + 10)
    case .linkIsCut:
      guard let link = world.network.betweenNodes.randomElement(using: &random) else { return }
      cut([link])
    case .edgeIsCutOff:
      cut(world.network.betweenNodes.filter { ($0.peer as? SimulatedNodeEnd)?.host === edge.host })
    case .nodeIsReplaced: replaceNode()
    }
  }

  /// They notice only when they have something to say, and get no answer.
  private func hinderDevices(of edge: SimulatedServer) {
    for device in world.devices where device.channel?.link?.host === edge.host {
      device.hinderedUntil = world.timeline.now + 400 * Timeline.second
    }
  }

  private func cut(_ links: [SimulatedLink]) {
    let seconds = random.between(1, 60)
    for link in links { link.cut() }
    disturb(seconds: seconds + 10, cutsLinks: true)
    world.timeline.after(seconds: Double(seconds)) { [weak self] in
      for link in links { link.heal() }
      self?.disturb(seconds: 10, cutsLinks: true)
    }
  }

  /// The node that decides is frozen, another one takes over, and the first one goes on after that.
  private func replaceNode() {
    let host = world.server.host
    // What a relay that was frozen sends upstream once more is not accounted for.
    guard world.server.state == .up, !world.relay.isOn else { return }
    if world.options.canary == .trustsMemory, !world.directory.hasLateApp {
      // Devices install it during the freeze, so that the frozen node has not heard of their tokens.
      world.addApp()
      world.timeline.after(seconds: 1) { [weak self] in self?.replaceNode() }
      return
    }
    let thaw = world.options.canary == .trustsMemory ? 40 : random.between(6, 20)
    host.stalledUntil = world.timeline.now + thaw * Timeline.second
    disturb(seconds: thaw + 30)
    let generation = world.server.generation
    world.timeline.after(random.between(5_000_000, 5_900_000)) { [weak self] in
      guard let self, world.server.generation == generation else { return }
      guard let left = world.server.takeOver(on: makeHost()) else { return }
      fenced.append(left)
      if world.options.canary == .hasTwoOwners { return }
      // It tries to renew its lease every second.
      let notices = host.stalledUntil + random.between(1_000, 1_500_000)
      world.timeline.at(notices) { [weak self] in self?.stop(left) }
    }
  }

  /// In order, as long as nobody kills it.
  private func stop(_ process: FencedProcess) {
    let pause = random.between(10_000, 1_000_000)
    for step in 0..<3 {
      world.timeline.after(UInt64(step) * pause) { [weak self] in
        if self?.fenced.contains(where: { $0 === process }) == true { process.stop(step: step) }
      }
    }
    let end = random.between(1, 4 * pause)
    world.timeline.after(end) { [weak self] in self?.notice(process) }
  }

  private func notice(_ process: FencedProcess) {
    guard let place = fenced.firstIndex(where: { $0 === process }) else { return }
    fenced.remove(at: place)
    world.trace("fenced process ends")
    process.end(world.network)
    disturb(seconds: 10)
  }

  /// Ends all faults.
  func calmDown() {
    for edge in edges {
      edge.host.stalledUntil = 0
      edge.start()
    }
    for process in fenced { notice(process) }
  }
}

/// Where a node was told that the service that decides is.
private final class ServingPlace: SimulatedNode {
  let host: SimulatedHost
  private let server: SimulatedServer
  private let isCurrent: Bool
  private let generation: Int

  init(_ server: SimulatedServer, generation: Int, of address: SocketAddress) {
    self.server = server
    self.generation = generation
    host = server.host
    isCurrent = address.port == UInt16(truncatingIfNeeded: generation)
  }

  func accept(_ link: SimulatedLink) -> Bool {
    isCurrent && server.generation == generation && server.accept(link)
  }
}
