import ApusRandom
import ApusLoop
import ApusModel

/// All connections to the service, and the network between.
final class SimulatedNetwork {
  let timeline: Timeline
  let host: SimulatedHost
  private(set) var random: SeededRandom
  private let trace: SimulationTrace
  private var links: [SimulatedLink] = []
  private var linkCount = 0
  /// Whether all connections are cut.
  private(set) var isDown = false
  /// Minimum microseconds for a packet.
  var latency: UInt64 = 2_000
  /// Passes a new connection to the service; false if there is no listener.
  var accept: ((SimulatedLink) -> Bool)?
  var isListening: () -> Bool = { false }

  init(_ timeline: Timeline, host: SimulatedHost, random: SeededRandom, trace: SimulationTrace) {
    self.timeline = timeline
    self.host = host
    self.random = random
    self.trace = trace
  }

  /// Long delays are packets that were lost and retransmitted.
  func delay() -> UInt64 {
    random.chance(1, in: 200)
      ? latency + random.between(200_000, 1_500_000) : latency + random.between(0, latency)
  }

  /// Starts to connect; the peer receives the result.
  func connect(_ peer: any LinkPeer, listener: Int) -> SimulatedLink {
    linkCount += 1
    let capacity = random.chance(1, in: 4) ? 4096 : 65_536
    let link = SimulatedLink(
      linkCount, listener: listener, peer: peer, network: self, capacity: capacity)
    links.append(link)
    if isDown { link.cut() }
    timeline.after(delay()) { [self] in arriveAtListener(link, attempts: 0) }
    return link
  }

  private func arriveAtListener(_ link: SimulatedLink, attempts: Int) {
    guard link.isPeerOpen else { return }
    guard !link.isCut, !host.isOff else {
      guard attempts < 6 else { return link.refuse() }
      timeline.after(seconds: 5) { [self] in arriveAtListener(link, attempts: attempts + 1) }
      return
    }
    timeline.after(delay()) { [self] in
      guard link.isPeerOpen else { return }
      guard accept?(link) == true else { return link.refuse() }
      link.peer?.linkConnected()
    }
  }

  func link(_ descriptor: Int32) -> SimulatedLink? { host.link(descriptor) }

  /// One end was closed: forgets a link that is over.
  func closed(_ link: SimulatedLink) {
    guard link.isOver else { return }
    host.forget(link)
    links.removeAll { $0 === link }
  }

  var count: Int { links.count }

  // MARK: Faults

  /// A random existing link.
  func any(_ random: inout SeededRandom) -> SimulatedLink? {
    links.isEmpty ? nil : random.pick(links)
  }

  /// Cuts or restores all connections.
  func setDown(_ isDown: Bool) {
    self.isDown = isDown
    trace("network", isDown ? 0 : 1)
    for link in links { isDown ? link.cut() : link.heal() }
  }

  func healAll() { setDown(false) }

  /// The service's process was killed: its kernel closes every connection.
  func killService() {
    for link in links { link.closeService(resets: random.chance(1, in: 4)) }
  }

  func loseService() { for link in links { link.loseService() } }

  func serviceMachineIsBack() { for link in links { link.serviceMachineIsBack() } }

  func clear() { links = [] }
}
