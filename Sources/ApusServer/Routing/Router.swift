import ApusAdmin
import ApusCore
import ApusLoop
import ApusModel

/// Sends notifications to the workers that own their devices, and verdicts back.
///
/// What goes to another worker leaves when the turn ends, in one batch for each.
final class Router {
  private let context: WorkerContext
  private let shard: ShardDriver
  /// To the nodes that decide about other devices.
  private var uplinks: PartLinks<Uplink>?
  /// Handles what this worker gets, from others or from itself.
  private var handler: (WorkerMessage) -> Void = { _ in }
  private var inboxes: [Inbox<WorkerMessage>] = []
  private var outboxes: [[WorkerMessage]] = []
  private lazy var inbox = Inbox<WorkerMessage>(
    loop: context.loop, capacity: Self.inboxCapacity
  ) { [unowned self] messages in receive(&messages) }

  /// Messages waiting for one worker; verdicts that do not fit wait with their sender.
  private static let inboxCapacity = 65_536

  init(_ context: WorkerContext, _ shard: ShardDriver) {
    self.context = context
    self.shard = shard
    let edges = context.shared.edges
    guard !edges.places.isEmpty, !context.isAcceptor else { return }
    uplinks = PartLinks(edges) { edge in
      Uplink(context, edge) { [unowned self] verdict, notification in
        if let notification { shard.shard.pool.release(notification) }
        handler(.verdict(verdict))
      }
    }
  }

  /// Call this before a loop runs.
  ///
  /// - Parameter routers: those of all workers, in order. None is an acceptor's: nothing is sent to acceptors.
  func connect(to routers: [Router], handler: @escaping (WorkerMessage) -> Void) {
    self.handler = handler
    inboxes = routers.map(\.inbox)
    outboxes = routers.map { _ in [] }
  }

  /// Messages that wait for this worker.
  var inboxDepth: Int { inbox.count }

  /// For simulations that are to notice: whether an edge routes again what a link had when it ended.
  var routesAgain: Bool {
    get { uplinks?.allSatisfy(\.routesAgain) ?? true }
    set { uplinks?.forEach { $0.routesAgain = newValue } }
  }

  /// Of all links together; nil where there are none.
  var linkFigures: LinkFigures? { uplinks.map { LinkFigures(adding: $0.map(\.figures)) } }

  /// Hands an admitted notification to the worker that owns its device. Returns the verdict if it is known at once;
  /// otherwise the verdict comes as a message to the worker that `answer` names.
  func route(_ notification: consuming Notification, _ answer: Answer) -> Verdict? {
    if let uplink = uplinks?[of: notification.claims.device] {
      uplink.submit(notification, answer)
      return nil
    }
    let target = context.ownerIndex(of: notification.claims.device)
    guard target == context.index else {
      outboxes[target].append(.submit(notification, answer))
      return nil
    }
    return shard.submit(
      notification, answer, nowMilliseconds: context.wallMilliseconds,
      loopMilliseconds: context.loop.nowMilliseconds)
  }

  func send(_ message: WorkerMessage, to target: Int) {
    if target == context.index { handler(message) } else { outboxes[target].append(message) }
  }

  func send(_ verdict: Verdict) { send(.verdict(verdict), to: Int(verdict.answer.worker)) }

  /// Sends what the turn brought about.
  func endTurn() {
    if let uplinks { for uplink in uplinks { uplink.endTurn() } }
    for target in outboxes.indices where !outboxes[target].isEmpty {
      _ = inboxes[target].send(contentsOf: &outboxes[target])
    }
  }

  /// Another node decides about a part of the devices from now on, or none.
  func linkTargetChanged(ofPart part: Int) { uplinks?[part]?.targetChanged() }

  private func receive(_ messages: inout [WorkerMessage]) {
    if messages.count > 1 { prefetch(messages) }
    for message in messages { handler(message) }
    messages.removeAll(keepingCapacity: true)
  }

  /// Reads the start of each notification's device, so that it is in the processor's cache.
  private func prefetch(_ messages: [WorkerMessage]) {
    for case .submit(let notification, _) in messages {
      shard.memory.prefetch(notification.claims)
    }
  }

  func dismantle() {
    inbox.close()
    uplinks?.forEach { $0.dismantle() }
    uplinks = nil
    (inboxes, outboxes) = ([], [])
    handler = { _ in }
  }
}
