import ApusDevice
import ApusLog
import ApusLoop
import ApusModel
import ApusWire
import Glibc

/// What the dispatcher needs of the connection.
protocol DispatcherHost: AnyObject {
  /// All that was to happen with the notification is durable.
  func acknowledge(_ arrival: Arrival)
  /// The number of open notifications changed, and maybe which topics are paused.
  func dispatcherChanged()
}

/// Does with each notification what its topic's rule says, and has it acknowledged once all of that is durable.
/// Confined to its loop.
final class Dispatcher {
  /// Open notifications; further ones are left to the service. Above the 32 that it sends before an acknowledgement.
  static let capacity = 256

  final class Delivery {
    var arrival: Arrival
    let rule: TopicRule
    /// What has not ended yet.
    var pending: ActionSet
    var attempts = 0
    var results: [String] = []

    init(_ arrival: Arrival, _ rule: TopicRule, pending: ActionSet) {
      self.arrival = arrival
      self.rule = rule
      self.pending = pending
    }
  }

  let loop: EventLoop
  let log: Log
  let file: RecordFile
  weak var host: (any DispatcherHost)?
  let reader = ForwardDesk()
  let desktop: Desktop
  private(set) var rules: [String: TopicRule] = [:]
  private(set) var deliveries: [String: Delivery] = [:]
  var queue: CommandQueue
  var commands: [String: CommandProcess] = [:]
  private var retries: [(dueMilliseconds: UInt64, key: String, action: ActionSet)] = []
  private var timer: LoopTimer?
  private var isStopping = false
  private var whenIdle: (() -> Void)?

  init(loop: EventLoop, log: Log, file: RecordFile, commandLimit: Int) {
    self.loop = loop
    self.log = log
    self.file = file
    queue = CommandQueue(limit: commandLimit)
    desktop = Desktop(loop: loop, log: log)
    timer = LoopTimer(loop: loop) { [weak self] in self?.retryDue() }
    desktop.onAction = { [weak self] topic, action in self?.runAction(topic, action) }
  }

  /// Replaces the rules. Open notifications go on by their old ones, unless nobody can read them any more.
  func use(_ rules: [TopicRule], commandLimit: Int) {
    self.rules = Dictionary(rules.map { ($0.topic, $0) }) { first, _ in first }
    queue.limit = commandLimit
    for (key, delivery) in deliveries where self.rules[delivery.rule.topic] == nil {
      ended(.forward, of: key, .failed("the topic was given up"))
    }
    startCommands()
  }

  /// The topics that the service is asked to keep for now: nobody reads them.
  func pausedTopics() -> Set<String> {
    Set(
      rules.values.filter { rule in
        rule.actions == .forward && reader.subscriber(of: rule.topic) == nil
      }.map(\.topic))
  }

  // MARK: Arrivals

  func receive(_ arrival: Arrival) -> DeviceVerdict {
    if let open = deliveries[arrival.key] {
      open.arrival = arrival
      return .hold
    }
    let entry = file[arrival.key]
    if entry?.outcome != nil {
      log(.debug, "handled before", .text("id", arrival.id), .text("topic", arrival.topic))
      return .acknowledge
    }
    guard let rule = rules[arrival.topic], deliveries.count < Self.capacity, !isStopping else {
      return .decline
    }
    let shown = Presentation(payload: arrival.payload)
    var pending = rule.actions
    if shown?.isSilent ?? true || arrival.fields.pushType == .background { pending.remove(.show) }
    pending.subtract(entry?.done ?? [])
    let delivery = Delivery(arrival, rule, pending: pending)
    deliveries[arrival.key] = delivery
    if pending.contains(.run), entry?.isStarted == true {
      interrupted(delivery)
    }
    for action in [ActionSet.write, .show, .forward, .run] where delivery.pending.contains(action) {
      perform(action, delivery)
    }
    if delivery.pending.isEmpty, deliveries[arrival.key] != nil { finish(delivery) }
    host?.dispatcherChanged()
    return .hold
  }

  /// The command had started when an earlier agent was killed: its result is unknown.
  private func interrupted(_ delivery: Delivery) {
    let runsAgain = delivery.rule.run?.afterKill == .runAgain
    log(
      .warning, "the end of a command is unknown", .text("id", delivery.arrival.id),
      .text("topic", delivery.arrival.topic), .truth("runs_again", runsAgain))
    guard !runsAgain else { return }
    delivery.pending.remove(.run)
    delivery.results.append("run: interrupted")
  }

  private func perform(_ action: ActionSet, _ delivery: Delivery) {
    let (arrival, rule) = (delivery.arrival, delivery.rule)
    switch action {
    case .write:
      guard let write = rule.write else { return }
      ended(.write, of: arrival.key, LineWriter.append(arrival.json.line, to: write.path))
    case .show:
      guard let show = rule.show else { return }
      desktop.show(arrival, show) { [weak self] in self?.ended(.show, of: arrival.key, $0) }
    case .forward: reader.offer(arrival)
    case .run:
      queue.add(arrival.key, topic: rule.topic)
      startCommands()
    default: break
    }
  }

  /// A program acknowledged a notification that was forwarded to it.
  func acknowledged(_ arrival: Arrival, by peer: String) {
    ended(.forward, of: arrival.key, .done("acknowledged by \(peer)"))
  }

  // MARK: Ends

  func ended(_ action: ActionSet, of key: String, _ result: ActionResult) {
    guard let delivery = deliveries[key], delivery.pending.contains(action) else { return }
    let text: String
    switch result {
    case .again(let reason): return again(action, delivery, reason)
    case .done(let detail): text = detail
    case .failed(let reason):
      text = reason
      log(
        .warning, "an action failed", .text("id", delivery.arrival.id),
        .text("topic", delivery.rule.topic),
        .text("action", action.name), .text("reason", reason))
    }
    delivery.pending.remove(action)
    delivery.results.append("\(action.name): \(text)")
    if action == .forward { reader.withdraw(key) }
    do throws(AgentFault) {
      try file.write(DeliveryRecord.done(key, action), durably: false)
    } catch {
      log(.error, "not recorded", .text("reason", "\(error)"))
    }
    if delivery.pending.isEmpty { finish(delivery) }
    host?.dispatcherChanged()
  }

  private func again(_ action: ActionSet, _ delivery: Delivery, _ reason: String) {
    delivery.attempts += 1
    let wait = ActionResult.waitMilliseconds(attempts: delivery.attempts)
    log(
      .notice, "an action is tried again", .text("id", delivery.arrival.id),
      .text("topic", delivery.rule.topic), .text("action", action.name), .text("reason", reason),
      .number("wait_ms", wait))
    loop.updateNow()
    retries.append((loop.nowMilliseconds + wait, delivery.arrival.key, action))
    armRetries()
  }

  private func armRetries() {
    guard let due = retries.map(\.dueMilliseconds).min() else { return }
    timer?.start(afterMilliseconds: due > loop.nowMilliseconds ? due - loop.nowMilliseconds : 0)
  }

  private func retryDue() {
    let now = loop.nowMilliseconds
    let due = retries.filter { $0.dueMilliseconds <= now }
    retries.removeAll { $0.dueMilliseconds <= now }
    for retry in due {
      guard let delivery = deliveries[retry.key] else { continue }
      if retry.action.isEmpty { finish(delivery) } else { perform(retry.action, delivery) }
    }
    armRetries()
  }

  /// Everything has ended: once that is durable, the notification is acknowledged.
  private func finish(_ delivery: Delivery) {
    let arrival = delivery.arrival
    let outcome =
      delivery.results.isEmpty ? "nothing to do" : delivery.results.joined(separator: ", ")
    do throws(AgentFault) {
      try file.write(
        DeliveryRecord.end(
          arrival.key, seconds: EventLoop.wallClockMilliseconds() / 1000,
          outcome: outcome), durably: true)
    } catch {
      return again([], delivery, "\(error)")
    }
    deliveries[arrival.key] = nil
    log(
      .info, "handled", .text("id", arrival.id), .text("topic", arrival.topic),
      .text("outcome", outcome))
    host?.acknowledge(arrival)
    do throws(AgentFault) { try file.compactIfLong() } catch {
      log(.error, "the record was not written anew", .text("reason", "\(error)"))
    }
    if isStopping, commands.isEmpty { becomeIdle() }
  }

  // MARK: Stopping

  /// Accepts no further notifications, and calls back when no command is running.
  func stop(whenIdle: @escaping () -> Void) {
    isStopping = true
    self.whenIdle = whenIdle
    if commands.isEmpty { becomeIdle() }
  }

  func becomeIdle() {
    let callback = whenIdle
    whenIdle = nil
    callback?()
  }

  /// Whether commands may start.
  var mayStart: Bool { !isStopping }
}

extension TopicRule {
  var actions: ActionSet {
    var actions: ActionSet = []
    if run != nil { actions.insert(.run) }
    if show != nil { actions.insert(.show) }
    if write != nil { actions.insert(.write) }
    if forward != nil { actions.insert(.forward) }
    return actions
  }
}
