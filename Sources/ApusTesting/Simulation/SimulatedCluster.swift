import ApusCore
import ApusDirectory
import ApusLoop
import ApusModel
import ApusRandom
import ApusServer
import ApusTLS

/// Several nodes: those that decide, each about a part of the devices, and edges, which pass on what their clients
/// send. The service of a part moves from machine to machine; its disk stands for the part's rows in a database.
final class SimulatedCluster {
  private unowned let world: Simulation
  private var random: SeededRandom
  private(set) var edges: [SimulatedServer] = []
  /// Processes that were taken over from and do not know it yet.
  private var fenced: [FencedProcess] = []
  var hasFenced: Bool { !fenced.isEmpty }
  private var lastFenced: UInt64 = 0
  /// Until when there were such processes.
  var fencedUntil: UInt64 { hasFenced ? world.timeline.now : lastFenced }
  private(set) var endCount = 0

  enum Fault: Int, CaseIterable {
    case edgeIsKilled, edgeLosesPower, edgeStops, edgeStalls
    case linkIsCut, edgeIsCutOff
    case nodeIsReplaced
  }

  /// - Parameter edges: The numbers of those nodes. Those that decide come first.
  init(_ world: Simulation, edges: Range<Int>, random: SeededRandom) throws {
    self.world = world
    self.random = random
    for index in edges { self.edges.append(try makeEdge(index)) }
  }

  /// A further part of the devices, with a node that decides about it.
  func makePart(_ number: Int, _ configuration: ServerConfiguration) throws -> SimulatedPart {
    guard let share = DeviceShare(part: number, of: world.share.partCount) else {
      preconditionFailure("there is no part \(number)")
    }
    var configuration = configuration
    configuration.link = Self.serving(as: number)
    let disk = SimulatedDisk(
      world.timeline, random: random.split(), trace: world.trace, canary: nil)
    disk.syncMicroseconds = random.between(50, 4_000)
    return try SimulatedPart(
      world, share, host: makeHost(), disk: disk, configuration: configuration,
      workers: 1 + random.below(2), random: random.split())
  }

  /// The nodes that decide are part of the cluster.
  func join(_ parts: [SimulatedPart]) {
    let canary = world.options.canary
    for part in parts {
      equip(part.server.host)
      part.server.hasLease = canary != .trustsMemory
      if parts.count > 1 { makeLinks(from: part.server, as: part.number) }
    }
  }

  private func makeLinks(from node: SimulatedServer, as index: Int) {
    let credentials = world.credentials
    node.edgeContext = { _ in
      try credentials.clientContext(
        certificate: SimulationCredentials.nodeCertificate(index),
        protocols: [LinkTarget.applicationProtocol])
    }
    node.routesAgain = world.options.canary != .losesLinkBatch
    node.givesUnhandled = world.options.canary != .losesUnhandled
  }

  private func makeEdge(_ index: Int) throws -> SimulatedServer {
    let host = makeHost()
    var configuration = ServerConfiguration(dataDirectory: "(simulated)", listeners: [])
    configuration.ledger = .off
    configuration.share = DeviceShare(part: nil, of: world.share.partCount) ?? .none
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
    makeLinks(from: edge, as: index)
    edge.onServe = { [unowned self, unowned edge] in
      for part in world.parts { tellLater(edge, of: part) }
    }
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
    equip(host)
    return host
  }

  private func equip(_ host: SimulatedHost) {
    host.onConnect = { [unowned self, unowned host] address in connect(to: address, from: host) }
  }

  // MARK: Links

  /// The port is that of one process of the part, so that what is meant for an earlier one is refused.
  private func address(of part: SimulatedPart) -> SocketAddress {
    .loopbackIPv4(port: UInt16(part.number * Self.portsOfPart + part.server.generation))
  }
  private static let portsOfPart = 10_000

  private func connect(to address: SocketAddress, from host: SimulatedHost) -> any SimulatedEnd {
    endCount += 1
    let end = SimulatedNodeEnd(endCount, on: host)
    end.onEnd = { [unowned world, unowned host] in
      world.oracle.linkEnded()
      for device in world.devices where device.channel?.link?.host === host {
        device.disturbed()
      }
    }
    let part = world.parts[Int(address.port) / Self.portsOfPart]
    let isCurrent = address == self.address(of: part)
    end.connect(
      to: ServingPlace(part.server, isCurrent: isCurrent),
      listener: SimulationListener.index(.link, .production), over: world.network)
    return end
  }

  /// Everyone learns where the part's service is, each in its own time. Devices at other nodes do not notice, but may
  /// get again what the node before has had.
  func serves(_ part: SimulatedPart) {
    for device in world.devices { device.disturbed() }
    for edge in edges { tellLater(edge, of: part) }
    for other in world.parts where other !== part {
      tellLater(other.server, of: part)
      tellLater(part.server, of: other)
    }
  }

  private func tellLater(_ node: SimulatedServer, of part: SimulatedPart) {
    world.timeline.after(random.between(1_000, 600_000)) { [weak self, weak node] in
      guard let self, let node, part.server.state == .up else { return }
      // One edge stays where it was.
      if world.options.canary == .hasTwoOwners, !fenced.isEmpty, node === edges[0] { return }
      node.service?.links?.set(
        (SimulationCredentials.node(part.number), address(of: part)), part: part.number)
    }
  }

  /// The part's service stops, and says so.
  func stops(_ part: SimulatedPart) {
    let others = world.parts.map(\.server).filter { $0 !== part.server }
    for node in edges + others { node.service?.links?.set(nil, part: part.number) }
  }

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
    let place = random.below(edges.count + world.parts.count)
    return place >= edges.count ? world.parts[place - edges.count].server : edges[place]
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
    guard !edges.isEmpty else { return replaceNode() }
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
    let part = world.anyPart(&random)
    let server = part.server
    let host = server.host
    // What a relay that was frozen sends upstream once more is not accounted for.
    guard server.state == .up, !world.relay.isOn || part.number > 0 else { return }
    if world.options.canary == .trustsMemory, !world.directory.hasLateApp {
      // Devices install it during the freeze, so that the frozen node has not heard of their tokens.
      world.addApp()
      world.timeline.after(seconds: 1) { [weak self] in self?.replaceNode() }
      return
    }
    let thaw = world.options.canary == .trustsMemory ? 40 : random.between(6, 20)
    host.stalledUntil = world.timeline.now + thaw * Timeline.second
    disturb(seconds: thaw + 30)
    let generation = server.generation
    world.timeline.after(random.between(5_000_000, 5_900_000)) { [weak self] in
      guard let self, server.generation == generation else { return }
      guard let left = server.takeOver(on: makeHost()) else { return }
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
    lastFenced = world.timeline.now
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

/// Where a node was told that a part's service is.
private final class ServingPlace: SimulatedNode {
  let host: SimulatedHost
  private let server: SimulatedServer
  private let isCurrent: Bool
  private let generation: Int

  init(_ server: SimulatedServer, isCurrent: Bool) {
    self.server = server
    self.isCurrent = isCurrent
    generation = server.generation
    host = server.host
  }

  func accept(_ link: SimulatedLink) -> Bool {
    isCurrent && server.generation == generation && server.accept(link)
  }
}
