import ApusRandom
import ApusLoop
import ApusModel

/// Accepts connections at its machine.
protocol SimulatedNode: AnyObject {
  var host: SimulatedHost { get }
  /// Passes a new connection to the service; false if there is no listener.
  func accept(_ link: SimulatedLink) -> Bool
}

/// All connections to the service and between its nodes, and the network between.
final class SimulatedNetwork {
  let timeline: Timeline
  private(set) var random: SeededRandom
  private let trace: SimulationTrace
  private var links: [SimulatedLink] = []
  private var linkCount = 0
  /// Whether the connections of all clients are cut.
  private(set) var isDown = false
  /// Minimum microseconds for a packet.
  var latency: UInt64 = 2_000
  /// The node that a new client connects to.
  var pick: () -> any SimulatedNode = { preconditionFailure("the network leads nowhere") }

  init(_ timeline: Timeline, random: SeededRandom, trace: SimulationTrace) {
    self.timeline = timeline
    self.random = random
    self.trace = trace
  }

  /// Long delays are packets that were lost and retransmitted.
  func delay() -> UInt64 {
    random.chance(1, in: 200)
      ? latency + random.between(200_000, 1_500_000) : latency + random.between(0, latency)
  }

  /// Starts to connect a client; the peer receives the result.
  func connect(_ peer: any LinkPeer, listener: Int) -> SimulatedLink {
    let link = connect(peer, listener: listener, to: pick())
    if isDown { link.cut() }
    return link
  }

  /// The same for a node that is the client of another one.
  func connect(
    _ peer: any LinkPeer, listener: Int, to node: any SimulatedNode
  ) -> SimulatedLink {
    linkCount += 1
    let capacity = random.chance(1, in: 4) ? 4096 : 65_536
    let link = SimulatedLink(
      linkCount, listener: listener, peer: peer, host: node.host, network: self,
      capacity: capacity)
    links.append(link)
    timeline.after(delay()) { [self] in arriveAtListener(link, of: node, attempts: 0) }
    return link
  }

  private func arriveAtListener(_ link: SimulatedLink, of node: any SimulatedNode, attempts: Int) {
    guard link.isPeerOpen else { return }
    guard !link.isCut, !link.host.isOff else {
      guard attempts < 6 else { return link.refuse() }
      timeline.after(seconds: 5) { [self] in
        arriveAtListener(link, of: node, attempts: attempts + 1)
      }
      return
    }
    timeline.after(delay()) {
      guard link.isPeerOpen else { return }
      // The node may be on another machine by now.
      guard node.host === link.host, node.accept(link) else { return link.refuse() }
      link.peer?.linkConnected()
    }
  }

  /// One end was closed: forgets a link that is over.
  func closed(_ link: SimulatedLink) {
    guard link.isOver else { return }
    link.host.forget(link.descriptor)
    links.removeAll { $0 === link }
  }

  var count: Int { links.count }

  /// Between nodes.
  var betweenNodes: [SimulatedLink] { links.filter { $0.peer is SimulatedNodeEnd } }

  // MARK: Faults

  /// A random existing link.
  func any(_ random: inout SeededRandom) -> SimulatedLink? {
    links.isEmpty ? nil : random.pick(links)
  }

  /// Cuts or restores the connections of all clients.
  func setDown(_ isDown: Bool) {
    self.isDown = isDown
    trace("network", isDown ? 0 : 1)
    for link in links where !(link.peer is SimulatedNodeEnd) { isDown ? link.cut() : link.heal() }
  }

  func healAll() {
    setDown(false)
    for link in links { link.heal() }
  }

  /// A process on that machine was killed: its kernel closes every connection.
  func killService(on host: SimulatedHost) {
    for link in links {
      if link.host === host { link.closeService(resets: random.chance(1, in: 4)) }
      if let end = link.peer as? SimulatedNodeEnd, end.host === host {
        end.close(resets: random.chance(1, in: 4))
      }
    }
  }

  func loseService(on host: SimulatedHost) {
    for link in links {
      if link.host === host { link.loseService() }
      if let end = link.peer as? SimulatedNodeEnd, end.host === host { end.lose() }
    }
  }

  func serviceMachineIsBack(_ host: SimulatedHost) {
    for link in links where link.host === host { link.serviceMachineIsBack() }
  }

  func clear() { links = [] }
}
