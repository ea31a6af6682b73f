import ApusAdmin
import ApusCluster
import ApusCommand
import ApusCore
import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusServer
import ApusWire
import Glibc
import Synchronization

/// The life of a cluster's node: it stands by, serves when it is its turn, steps down, and begins again.
///
/// It begins again as a new program in the same process, so that nothing of the old service is left.
final class NodeService {
  private let directory: DataDirectory
  private let member: ClusterMember
  /// Nil if the node accepts clients only while it serves.
  private let links: NodeLinks?
  private let peers: NodePeers
  /// Accepts clients while another node serves.
  private var edge: Service?
  private let follower: ClusterFollower
  private let turn: Turn
  private let log: Log
  /// Whether it says on standard output, as JSON, that it stands by.
  private let isAnnounced: Bool
  private let manager = ServiceManager(Process.environment)

  private static let edgePollMilliseconds: Int64 = 20

  /// Why the node stops serving.
  private enum End: Sendable {
    case drained
    case takenOver
    case rearranged
    case removed
  }

  /// What the threads of follower and store tell the main thread.
  private final class Turn: Sendable {
    private let state = Mutex<(isServing: Bool, end: End?)>((false, nil))
    private let lastHolder = Mutex<String?>(nil)

    var end: End? { state.withLock { $0.end } }

    /// Whether the node that serves is another one than before.
    func isNew(holder: String) -> Bool {
      lastHolder.withLock { last in
        defer { last = holder }
        return last != holder
      }
    }

    func begin() { state.withLock { $0.isServing = true } }

    /// Ends the service, if there is one.
    func end(_ reason: End) {
      let isFirst = state.withLock { state in
        guard state.isServing, state.end == nil else { return false }
        state.end = reason
        return true
      }
      if isFirst { Service.requestStop() }
    }
  }

  init(
    _ directory: DataDirectory, _ member: ClusterMember, _ links: NodeLinks?, log: Log,
    isAnnounced: Bool
  ) {
    self.directory = directory
    self.member = member
    self.links = links
    self.log = log
    self.isAnnounced = isAnnounced
    let (turn, peers) = (Turn(), NodePeers(log: log))
    (self.turn, self.peers) = (turn, peers)
    follower = ClusterFollower(
      directory, member, program: Program.version, link: links?.advertised ?? "", log: log,
      onOrders: { orders in
        peers.learn(orders)
        if orders.isDraining, orders.standbyCount > 0 { turn.end(.drained) }
      }, onRemoval: { turn.end(.removed) }, onRearrangement: { turn.end(.rearranged) })
  }

  /// Waits until the node may serve. Nil if the operator stopped it before.
  func standBy(_ configuration: ServerConfiguration) throws(CommandFailure) -> Service? {
    let cluster = Cluster(directory, program: Program.version)
    do {
      try cluster.requireNeighbours()
      try follower.catchUp()
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
    try requireMembership()
    beginAgainIfRearranged()
    var configuration = configuration
    configuration.cluster = ClusterNodes(
      own: member.node.text,
      setDraining: { node, isDraining in
        if isDraining { try cluster.beginDrain(node) } else { try cluster.resume(node) }
      }
    ) { [follower] in follower.nodes }
    try beginLinks(&configuration)
    follower.start()
    configuration.node = NodeServing(
      name: member.node.text, partCount: member.parts,
      onHolder: { [log, manager, turn, isAnnounced] holder in
        guard turn.isNew(holder: holder) else { return }
        if isAnnounced {
          Output.json(.members(["event": .string("standby"), "serving": .string(holder)]))
        }
        log(.notice, "standing by", .text("serving", holder))
        manager?.ready("standing by: \(holder) serves")
      },
      permission: { [follower, manager] in
        manager?.isAlive()
        let hasChanged = follower.isRemoved || follower.isRearranged
        if Service.takeStopSignal() || hasChanged { return .giveUp }
        return follower.orders?.isDraining == true ? .wait : .takeOver
      },
      onTurn: { [follower] in
        try follower.pull()
        // Nobody divides the devices, or moves a part, while this node has a lease.
        return !follower.isRearranged
      },
      onTakeOver: { [turn] in turn.end(.takenOver) })
    let service: Service?
    do { service = try Service.standingBy(configuration) } catch {
      follower.stop()
      throw CommandFailure(.configuration, "\(error)")
    }
    guard let service else {
      follower.stop()
      edge?.stop()
      try requireMembership()
      beginAgainIfRearranged()
      return nil
    }
    edge?.surrenderAddresses()
    turn.begin()
    return service
  }

  /// Opens the edge, and has the service accept links from those of other nodes.
  private func beginLinks(_ configuration: inout ServerConfiguration) throws(CommandFailure) {
    guard let links else {
      guard member.parts == 1 else {
        throw CommandFailure(
          .configuration, "the cluster's devices are divided, and the node has no links to others",
          remedy: "Start it with --link-listen.")
      }
      return
    }
    let peers = peers
    do {
      configuration.link = LinkServing(
        identity: try directory.linkIdentity(
          of: member.node, nowSeconds: EventLoop.wallClockMilliseconds() / 1000),
        isMember: peers.isMember)
      edge = try Service(edgeConfiguration(configuration))
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
    try edge?.startListening()
    peers.begin(edge?.links)
    configuration.listeners.append(
      ListenerConfiguration(kind: .link, environment: .production, addresses: links.addresses))
    configuration.takesPortsOver = true
  }

  /// Nothing that an edge knows has to outlive it.
  private func edgeConfiguration(_ configuration: ServerConfiguration) -> ServerConfiguration {
    var edge = configuration
    edge.share = DeviceShare(part: nil, of: member.parts) ?? .none
    edge.isEphemeral = true
    edge.ledger = .off
    (edge.relay, edge.store) = (nil, nil)
    return edge
  }

  private func beginAgainIfRearranged() {
    guard follower.isRearranged else { return }
    log(.notice, "beginning again", .text("reason", "devices were divided, or a part was moved"))
    Process.beginAgain()
  }

  private func requireMembership() throws(CommandFailure) {
    guard follower.isRemoved else { return }
    throw CommandFailure(
      .configuration, "the node \(member.node.text) was removed from the cluster",
      remedy: "Join again with an empty data directory: `apus cluster join`.")
  }

  /// Call it once the service accepts connections. Returns when the edge has none left.
  func serves(_ service: Service) {
    follower.setRole(.serving)
    let part = service.configuration.share.part ?? 0
    log(.notice, "serving", .text("node", member.node.text), .number("part", part))
    guard let edge else { return }
    if let own = service.listeners.last(where: { $0.kind == .link })?.addresses.first {
      peers.serves(
        member.node, at: own.isAny ? .loopbackIPv4(port: own.port) : own, part: part, service.links)
    }
    log(.notice, "devices kept", .number("devices", service.takeDevices(from: edge)))
    defer { peers.forgetEdge() }
    edge.stop { [manager] milliseconds in
      manager?.isAlive()
      if Service.takeStopSignal() {
        // The service that goes on has to see it, too.
        Service.requestStop()
        return true
      }
      usleep(UInt32(1000 * min(milliseconds, Self.edgePollMilliseconds)))
      return false
    }
    self.edge = nil
  }

  /// Call it once the service has stopped. Does not return if the node goes on as a standby.
  func stepDown() throws(CommandFailure) {
    follower.stop()
    switch turn.end {
    case nil: return
    case .removed: try requireMembership()
    case .rearranged: beginAgainIfRearranged()
    case .drained:
      log(.notice, "stepped down", .text("reason", "the node is being drained"))
      Process.beginAgain()
    case .takenOver:
      log(.warning, "stepped down", .text("reason", "another node has taken over"))
      Process.beginAgain()
    }
  }
}
