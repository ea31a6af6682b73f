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
    var serving: ClusterOrders.Serving?
    var links: EdgeLinks?
    var isServing = false
  }

  private let state = Mutex(State())
  private let log: Log

  init(log: Log) { self.log = log }

  func isMember(_ node: NodeName) -> Bool { state.withLock { $0.names.contains(node.text) } }

  /// From now on the edge is told who serves.
  func begin(_ links: EdgeLinks?) {
    let serving = state.withLock { state in
      state.links = links
      return state.serving
    }
    tell(links, serving)
  }

  func learn(_ orders: ClusterOrders) {
    let (links, isNews) = state.withLock { state in
      defer { state.serving = orders.serving }
      state.names = Set(orders.nodes)
      return (state.links, !state.isServing && state.serving != orders.serving)
    }
    if isNews { tell(links, orders.serving) }
  }

  /// This node serves, and its own edge passes on to it what it still has.
  func serves(_ node: NodeName, at address: SocketAddress) {
    let links = state.withLock { state in
      state.isServing = true
      return state.links
    }
    links?.set((node, address))
  }

  private func tell(_ links: EdgeLinks?, _ serving: ClusterOrders.Serving?) {
    guard let links else { return }
    guard let serving, let node = NodeName(serving.node), let place = HostPort(serving.link) else {
      return links.set(nil)
    }
    do throws(SocketError) {
      let found = try SocketAddress.resolve(host: place.host, port: place.port)
      links.set(found.first.map { (node, $0) })
    } catch {
      log(
        .error, "the node that serves is not reached", .text("node", serving.node),
        .text("reason", "\(error)"))
      // The next sign of life tries again.
      state.withLock { $0.serving = nil }
    }
  }
}
