import ApusCommand
import ApusCore
import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusServer
import Synchronization

/// Where a node accepts links from other nodes.
struct NodeLinks {
  let addresses: [SocketAddress]
  /// Where other nodes reach it, as HOST:PORT.
  let advertised: String

  /// Nil if the node has no links.
  init?(_ invocation: Invocation, _ member: ClusterMember) throws(CommandFailure) {
    let endpoints = invocation.value(ClusterOptions.linkListen).list.map(\.endpoint)
    addresses = try Opening.addresses(endpoints, for: ClusterOptions.linkListen, invocation)
    guard let first = addresses.first else { return nil }
    if !first.isAny {
      advertised = first.description
    } else if !member.address.isEmpty {
      advertised = HostPort(host: member.address, port: first.port).description
    } else {
      throw invocation.failure(
        about: ClusterOptions.linkListen, "other nodes would not know this machine's address",
        remedy: "Name the address in the option, as in --link-listen 192.0.2.7:\(first.port).")
    }
  }
}

/// What a node knows of the others from its signs of life: who belongs to the cluster, and who serves.
final class NodePeers: Sendable {
  private struct State {
    var names: Set<String> = []
    var serving: [ClusterOrders.Serving?] = []
    /// Of the services of this process that pass on to other nodes: the edge, and the one that takes its place.
    var edge: EdgeLinks?
    var service: EdgeLinks?
    /// The part of the devices that this node decides about.
    var ownPart: Int?

    var links: [EdgeLinks] { [edge, service].compactMap(\.self) }
  }

  private let state = Mutex(State())
  private let log: Log

  init(log: Log) { self.log = log }

  func isMember(_ node: NodeName) -> Bool { state.withLock { $0.names.contains(node.text) } }

  /// From now on the edge is told who serves.
  func begin(_ edge: EdgeLinks?) {
    let serving = state.withLock { state in
      state.edge = edge
      return state.serving
    }
    for (part, node) in serving.enumerated() { tell([edge], node, part) }
  }

  func learn(_ orders: ClusterOrders) {
    let (links, news) = state.withLock { state in
      let known = state.serving
      state.names = Set(orders.nodes)
      state.serving = orders.serving
      let news = orders.serving.indices.filter { part in
        part != state.ownPart
          && (known.indices.contains(part) ? known[part] : nil) != orders.serving[part]
      }
      return (state.links, news)
    }
    for part in news { tell(links, orders.serving[part], part) }
  }

  /// This node serves, and its own edge passes on to it what it still has.
  ///
  /// - Parameter service: For the parts of the devices that other nodes decide about; nil if there are none.
  func serves(_ node: NodeName, at address: SocketAddress, part: Int, _ service: EdgeLinks?) {
    let (edge, serving) = state.withLock { state in
      (state.ownPart, state.service) = (part, service)
      return (state.edge, state.serving)
    }
    edge?.set((node, address), part: part)
    for (other, node) in serving.enumerated() where other != part { tell([service], node, other) }
  }

  /// The edge has ended.
  func forgetEdge() { state.withLock { $0.edge = nil } }

  private func tell(_ links: [EdgeLinks?], _ serving: ClusterOrders.Serving?, _ part: Int) {
    func set(_ place: (NodeName, SocketAddress)?) {
      for links in links { links?.set(place, part: part) }
    }
    guard let serving, let node = NodeName(serving.node), let place = HostPort(serving.link) else {
      return set(nil)
    }
    do throws(SocketError) {
      let found = try SocketAddress.resolve(host: place.host, port: place.port)
      set(found.first.map { (node, $0) })
    } catch {
      log(
        .error, "the node that serves is not reached", .text("node", serving.node),
        .text("reason", "\(error)"))
      // The next sign of life tries again.
      state.withLock { state in
        if state.serving.indices.contains(part) { state.serving[part] = nil }
      }
    }
  }
}
