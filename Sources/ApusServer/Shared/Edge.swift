package import ApusCore
package import ApusDirectory
import ApusLoop
import ApusModel
import ApusTLS
import ApusWire
import Synchronization

/// What a service needs for links to other nodes of its cluster.
package struct LinkServing: Sendable {
  package var identity: LinkIdentity
  /// Whether a node of that name belongs to the cluster. Called on any thread, for each link.
  package var isMember: @Sendable (NodeName) -> Bool

  package init(
    identity: LinkIdentity, isMember: @escaping @Sendable (NodeName) -> Bool
  ) {
    self.identity = identity
    self.isMember = isMember
  }
}

/// The node that decides about devices, and how others reach it.
package final class LinkTarget: Sendable {
  let node: NodeName
  let address: SocketAddress
  let context: TLSContext
  private let lastSession = Mutex<TLSSession?>(nil)

  init(_ node: NodeName, at address: SocketAddress, _ context: TLSContext) {
    self.node = node
    self.address = address
    self.context = context
  }

  func isSamePlace(as other: LinkTarget) -> Bool {
    node == other.node && address == other.address
  }

  /// Its number grows when nodes of one version would misunderstand those of the other.
  package static let applicationProtocol = "apus-link/3"

  /// The session to resume.
  var session: TLSSession? {
    get { lastSession.withLock { $0 } }
    set { lastSession.withLock { $0 = newValue } }
  }
}

extension LinkIdentity {
  /// What links to that node speak.
  ///
  /// - Throws: `TLSError`, for an identity that is not one.
  func context(for node: NodeName) throws -> TLSContext {
    var tls = TLSClientConfiguration(
      trustRoots: .authorities(PEM: authorityPEM),
      identity: TLSIdentity(certificateChainPEM: certificatePEM, privateKeyPEM: keyPEM),
      applicationProtocols: [LinkTarget.applicationProtocol],
      serverName: LinkIdentity.serverName(of: node), minimumVersion: .v1_3)
    tls.allowsCompaction = true
    return try TLSContext(client: tls)
  }
}

/// The nodes that decide about the devices that this service does not: what makes it an edge for their clients.
struct Edges: Sendable {
  /// One for each part of all devices, nil for this service's own; none if it decides about all.
  let places: [Edge?]
  let share: DeviceShare

  /// - Parameter makeContext: What links to that node speak; nil for a service that decides about all devices.
  init(
    _ share: DeviceShare, _ makeContext: (@Sendable (NodeName) throws -> TLSContext)? = nil
  ) {
    self.share = share
    guard let makeContext, share != .all else {
      places = []
      return
    }
    places = (0..<share.partCount).map { part in
      share.part == part ? nil : Edge(part, of: share.partCount, makeContext)
    }
  }

  /// For what exists once in a cluster; nil where this service has it.
  var main: Edge? { places.first ?? nil }

  var all: some Sequence<Edge> { places.lazy.compactMap(\.self) }

  /// This process takes over, and nothing waits for another node any more.
  func surrender() { for edge in all { edge.surrender() } }
}

/// What a worker has for each part of the devices that another node decides about.
struct PartLinks<Link> {
  private let links: [Link?]
  private let share: DeviceShare

  init(_ edges: Edges, _ make: (Edge) -> Link) {
    links = edges.places.map { $0.map(make) }
    share = edges.share
  }

  /// Nil where this service decides about the device.
  subscript(of device: DeviceID) -> Link? { links.isEmpty ? nil : links[share.part(of: device)] }

  subscript(part: Int) -> Link? { links.indices.contains(part) ? links[part] : nil }
}

extension PartLinks: Sequence {
  func makeIterator() -> some IteratorProtocol<Link> {
    links.lazy.compactMap(\.self).makeIterator()
  }
}

/// The node that decides about a part of all devices, for a service that accepts their clients.
final class Edge: Sendable {
  /// Which links name first, with how many parts there are, so that no node decides about the devices of another.
  let part: Int
  private let partCount: Int
  private let makeContext: @Sendable (NodeName) throws -> TLSContext
  private let state = Mutex(State())

  private struct State {
    var target: LinkTarget?
    /// When the target was set, in milliseconds of the monotonic clock.
    var sinceMilliseconds = EventLoop.monotonicMilliseconds()
    var isSurrendered = false
  }

  /// - Parameter makeContext: What links to that node speak.
  init(
    _ part: Int, of partCount: Int,
    _ makeContext: @escaping @Sendable (NodeName) throws -> TLSContext
  ) {
    (self.part, self.partCount) = (part, partCount)
    self.makeContext = makeContext
  }

  /// How a link for that purpose begins.
  func preface(_ purpose: LinkPurpose) -> [UInt8] {
    [purpose.rawValue, UInt8(part), UInt8(partCount)]
  }

  /// Nil while no node decides.
  var target: LinkTarget? { state.withLock { $0.target } }

  /// Whether this process takes over, so that nothing waits for another node any more.
  var isSurrendered: Bool { state.withLock { $0.isSurrendered } }

  func surrender() { state.withLock { $0.isSurrendered = true } }

  /// Why clients are better off at another node; nil while there is no reason. A take-over is none.
  var unreadiness: String? {
    let lacksNode = state.withLock { state in
      state.target == nil
        && state.sinceMilliseconds + Limits.linkWaitMilliseconds
          <= EventLoop.monotonicMilliseconds()
    }
    return lacksNode ? "no node of the cluster serves" : nil
  }

  /// Returns whether that is another place than before.
  func setTarget(_ place: (node: NodeName, address: SocketAddress)?) throws -> Bool {
    let known = target
    guard known?.node != place?.node || known?.address != place?.address else { return false }
    let next = try place.map { LinkTarget($0.node, at: $0.address, try makeContext($0.node)) }
    state.withLock { state in
      (state.target, state.sinceMilliseconds) = (next, EventLoop.monotonicMilliseconds())
    }
    return true
  }
}
