import ApusCore
import ApusLog
import ApusLoop
import ApusModel

/// The links of an edge's worker for its clients: one to each worker of the node that decides.
///
/// Thousands of clients share a link, so a take-over costs a handshake for each pair of workers, and what they say in a
/// turn leaves together. Confined to its worker.
final class ClientLinks {
  let edge: Edge
  /// How long the other machine may leave bytes unacknowledged before the link counts as lost.
  let silenceMilliseconds: UInt64
  /// For simulations that are to notice: whether the next node gets what no node has dealt with.
  var givesUnhandled = true
  private let context: WorkerContext
  private var links: [ClientLink] = []
  /// How many workers the node has; nil until it has said so.
  private var workerCount: Int?
  private var timer: LoopTimer?
  private var isTicking = false

  private static let tickMilliseconds: UInt64 = 100

  init(_ context: WorkerContext, _ edge: Edge, silenceMilliseconds: UInt64) {
    self.context = context
    self.edge = edge
    self.silenceMilliseconds = silenceMilliseconds
    timer = LoopTimer(loop: context.loop) { [unowned self] in tick() }
  }

  /// When a client that comes now has waited for long enough.
  var giveUpMilliseconds: UInt64 {
    context.loop.nowMilliseconds + Limits.linkWaitMilliseconds
  }

  /// When a device has waited for long enough that a node has had.
  var resumeMilliseconds: UInt64 {
    context.loop.nowMilliseconds + Limits.linkResumeMilliseconds
  }

  func add(_ client: ForwardedClient) {
    guard timer != nil else { return client.lost("this node stops") }
    link(for: client).add(client)
    goOnTicking()
  }

  private func link(for client: ForwardedClient) -> ClientLink {
    let count = workerCount ?? 1
    while links.count < count {
      links.append(ClientLink(self, context, workerIndex: links.count))
    }
    return links[client.device?.ownerIndex(of: count) ?? context.index % count]
  }

  /// The node has said how many workers it has.
  func opened(workerCount count: Int) {
    guard workerCount != count else { return }
    workerCount = count
    distribute()
  }

  /// Has those that wait do so for the right link.
  private func distribute() {
    let waiting = links.flatMap { $0.takeWaiting() }
    for client in waiting { link(for: client).add(client) }
  }

  /// Another node decides, or none. Without one, links go on: the node that stops ends them.
  func targetChanged() {
    if links.contains(where: { !$0.isCurrent }) {
      let ended = links
      let waiting = ended.flatMap { $0.takeWaiting() }
      (links, workerCount) = ([], nil)
      for link in ended { link.lost("another node decides now") }
      for client in waiting { add(client) }
    } else {
      for link in links { link.goOn() }
    }
  }

  func noteLost(_ fault: String) {
    // The worker's `Uplink` warns of a node that is not reached.
    context.log.limited(.info, .linkFailed, atMilliseconds: context.loop.nowMilliseconds) {
      [.text("node", edge.target?.node.text ?? ""), .text("reason", fault)]
    }
  }

  /// Whether a node has dealt with everything that clients have sent.
  var isQuiet: Bool { links.allSatisfy(\.isQuiet) }

  /// Sends what the turn brought about.
  func endTurn() { for link in links { link.endTurn() } }

  func dismantle() {
    timer = nil
    for link in links {
      _ = link.takeWaiting()
      link.lost("this node stops")
    }
    links = []
  }

  // MARK: Waiting

  private func goOnTicking() {
    guard !isTicking, links.contains(where: \.isAwaited) else { return }
    isTicking = true
    timer?.start(afterMilliseconds: Self.tickMilliseconds)
  }

  private func tick() {
    isTicking = false
    for link in links where link.isAwaited {
      link.giveUp(nowMilliseconds: context.loop.nowMilliseconds)
      link.goOn()
    }
    goOnTicking()
  }
}
