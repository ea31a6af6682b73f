import ApusCore
import ApusLog
import ApusLoop
import ApusModel
import ApusServer
import ApusStore
import Synchronization

/// Notifications that are kept until upstream has answered: the relay's own thread, and all that it knows.
///
/// A notification counts as accepted when its row is in the store. Its row goes when upstream has answered, or its time
/// is over. Until then it is sent under the same id, as often as it takes; see `RelayLane` for when.
@safe final class Spool: @unchecked Sendable {
  /// Sends a notification upstream, and calls back once, on any thread.
  typealias Sending =
    @Sendable (RelayedNotification, @escaping @Sendable (UpstreamAnswer) -> Void) -> Void

  private struct Answered: Sendable {
    var topic: RelayTopic
    var order: UInt64
    var answer: UpstreamAnswer
  }

  let loop: EventLoop
  private let requests: Inbox<KeptNotification>
  private let answers: Inbox<Answered>
  private let isFullNow = Atomic(false)

  // Confined to the loop.

  let host: RelayHost
  private let sending: Sending
  /// Spreads attempts: a number from 0 to 999.
  private let entropy: @Sendable () -> UInt64
  private let limits: SpoolLimits
  let log: Log
  var rows: SpoolRows
  var lanes: [RelayTopic: SpoolLane] = [:]
  /// Topics with something to do.
  var due: Set<RelayTopic> = []
  var deadTokens = DeadTokens()
  private var timer: LoopTimer?
  private var sweepTimer: LoopTimer?
  /// When the lanes have something to do by themselves.
  private var dueMilliseconds = UInt64.max
  private var totalBytes = 0
  private var unwritten: [UnwrittenNotification] = []
  /// Topics whose totals are to be written.
  private var changed: Set<RelayTopic> = []
  private var schedule = SpoolSchedule()
  private var isStopping = false
  /// A store that fails while the service stops is not waited for.
  private var hasGivenUp = false
  var decisions = DecisionBatch()
  /// Those of a lower order were accepted before the service was started, and may have been sent then.
  private let startOrder: UInt64

  private static let sweepMilliseconds: UInt64 = 10_000
  /// For how long the end waits for a store that does not answer.
  private static let stopMilliseconds: UInt64 = 5000

  /// Reads what the store has.
  init(
    _ host: RelayHost, _ limits: SpoolLimits, log: Log,
    loop: EventLoop = EventLoop(name: "apus-relay"),
    entropy: @escaping @Sendable () -> UInt64 = { .random(in: 0...999) },
    sending: @escaping Sending
  ) throws(StoreError) {
    self.host = host
    self.loop = loop
    self.entropy = entropy
    self.limits = limits
    self.log = log
    self.sending = sending
    startOrder = host.order.next() ?? .max
    rows = SpoolRows(
      host.store, try RelayLedger(host.store, host.ledger.mode, host.ledger.bounds))
    weak var spool: Spool?
    // Workers stop reading before the inbox is full.
    requests = Inbox(loop: loop, capacity: Limits.relayInboxCapacity) { spool?.take(&$0) }
    answers = Inbox(loop: loop, capacity: .max) { spool?.take(&$0) }
    for (topic, totals) in try rows.totals() {
      lanes[topic] = SpoolLane(totals)
      totalBytes += totals.byteCount
    }
    due = Set(lanes.keys)
    for record in try rows.deadTokens() {
      _ = deadTokens.note(
        record.token, sinceMilliseconds: record.sinceMilliseconds,
        notedSeconds: record.notedSeconds)
    }
    spool = self
  }

  // MARK: The service's side, on any thread

  /// Starts to send what the store has.
  func start() {
    loop.onTurnEnd = { [unowned self] in endTurn() }
    loop.perform { [unowned self] in
      timer = LoopTimer(loop: loop) {}
      let sweepTimer = LoopTimer(loop: loop) { [unowned self] in sweep() }
      sweepTimer.start(
        afterMilliseconds: Self.sweepMilliseconds, repeatMilliseconds: Self.sweepMilliseconds)
      self.sweepTimer = sweepTimer
    }
    if !loop.isSimulated { loop.start() }
  }

  /// False if too many wait to be written.
  func keep(_ notification: KeptNotification) -> Bool { requests.send(notification) }

  /// Whether providers must wait.
  var isFull: Bool { isFullNow.load(ordering: .relaxed) }

  /// A worker has dealt with a refusal.
  func settled(_ refusal: RelayRefusal, isReported: Bool) {
    loop.perform { [unowned self] in settle(refusal, isReported: isReported) }
  }

  /// Writes what is known by now, and ends.
  func stop() {
    loop.perform { [unowned self] in
      isStopping = true
      sweepTimer = LoopTimer(loop: loop) { [unowned self] in end() }
      sweepTimer?.start(afterMilliseconds: Self.stopMilliseconds)
    }
    guard loop.isSimulated else { return loop.join() }
    // It has no thread that could be waited for, nor can the store be.
    while loop.takeTurn() {}
    end()
  }

  private func end() {
    (timer, sweepTimer) = (nil, nil)
    loop.onTurnEnd = nil
    if !loop.isSimulated { loop.stop() }
  }

  // MARK: Acceptance

  private func take(_ kept: inout [KeptNotification]) {
    for notification in kept { take(notification) }
  }

  private func take(_ kept: KeptNotification) {
    guard let order = host.order.next() else {
      return answer(kept.waiter, isKept: false)
    }
    var spooled = SpooledNotification(
      notification: kept.notification, acceptedMilliseconds: kept.acceptedMilliseconds,
      interface: kept.waiter.interface, answer: kept.waiter.frame, byteCount: 0,
      mayHaveArrived: false)
    spooled.byteCount = rows.put(order, spooled)
    rows.record(.received, order, spooled)
    change(spooled.topic) { $0.totals.add(spooled.byteCount) }
    totalBytes += spooled.byteCount
    unwritten.append(UnwrittenNotification(order: order, spooled: spooled, waiter: kept.waiter))
  }

  private func answer(_ waiter: KeptNotification.Waiter, isKept: Bool) {
    switch waiter {
    case .frame(let answer):
      decisions.add(
        Verdict(answer: answer, rejection: isKept ? nil : Rejection(.serviceUnavailable)))
    case .request(let done): done(isKept)
    }
  }

  func change(_ topic: RelayTopic, _ body: (inout SpoolLane) -> Void) {
    body(&lanes[topic, default: SpoolLane(SpoolTotals())])
    changed.insert(topic)
    due.insert(topic)
  }

  /// The rows were written, or not.
  private func written(_ batch: [UnwrittenNotification], _ error: StoreError?) {
    schedule.finished(succeeded: error == nil, nowMilliseconds: loop.nowMilliseconds)
    rows.committed(succeeded: error == nil)
    if let error { return notWritten(batch, error) }
    for one in batch {
      if lanes[one.spooled.topic]?.machine.add(one.order) == true {
        lanes[one.spooled.topic]?.contents[one.order] = one.spooled
      }
      due.insert(one.spooled.topic)
      answer(one.waiter, isKept: true)
    }
  }

  /// Whether the rows are on disk is not known: they go with the next group, since their providers send them again.
  /// So do the ends that were to be written.
  private func notWritten(_ batch: [UnwrittenNotification], _ error: StoreError) {
    log.limited(.error, .groupRefused, atMilliseconds: loop.nowMilliseconds) {
      [.text("reason", "\(error)")]
    }
    for one in batch {
      remove(one.order, one.spooled, .notWritten)
      answer(one.waiter, isKept: false)
    }
    changed.formUnion(lanes.keys)
    hasGivenUp = isStopping
  }

  /// In each turn: answers, time and the operator make room.
  private func watchFullness() {
    let isFull = totalBytes > (self.isFull ? limits.byteCount / 16 * 15 : limits.byteCount)
    guard isFull != self.isFull else { return }
    isFullNow.store(isFull, ordering: .relaxed)
    log(
      isFull ? .warning : .notice,
      isFull ? "relay full: providers wait" : "relay takes notifications again",
      .number("megabytes", Int64(totalBytes >> 20)))
    if !isFull { host.readOn() }
  }

  // MARK: Sending

  /// Everything that the turn brought about leaves.
  private func endTurn() {
    let now = loop.nowMilliseconds
    if dueMilliseconds <= now {
      dueMilliseconds = .max
      due.formUnion(lanes.keys)
    }
    if !isStopping { for topic in due.sorted() { work(topic, now) } }
    due.removeAll(keepingCapacity: true)
    gatherLines()
    if !hasGivenUp { write(now) }
    watchFullness()
    decisions.deliver(host.deliver)
    if isStopping, schedule.isIdle || hasGivenUp { end() }
    setTimer(now)
  }

  /// Does what a lane wants done.
  private func work(_ topic: RelayTopic, _ now: UInt64) {
    while let action = lanes[topic]?.machine.next(nowMilliseconds: now) {
      switch action {
      case .send(let order): send(order, topic, now)
      case .read(let after, let count): read(topic, after: after, count: count)
      case .wait(let until):
        if let until { dueMilliseconds = min(dueMilliseconds, until) }
        return
      }
    }
  }

  private func send(_ order: UInt64, _ topic: RelayTopic, _ now: UInt64) {
    guard var spooled = lanes[topic]?.contents[order] else { return }
    let end =
      isDead(spooled)
      ? .withheld
      : spooled.end(nowMilliseconds: loop.wallMilliseconds, ageSeconds: limits.ageSeconds)
    if let end {
      _ = lanes[topic]?.machine.answered(order, nil, nowMilliseconds: now, entropy: 0)
      return self.end(order, spooled, end)
    }
    if spooled.mayHaveArrived { lanes[topic]?.ended.repeated += 1 }
    rows.record(.sentUpstream, order, spooled)
    spooled.wasSent = true
    lanes[topic]?.contents[order] = spooled
    sending(spooled.notification) { [answers] answer in
      _ = answers.send(Answered(topic: topic, order: order, answer: answer))
    }
  }

  /// Whether upstream has declared its token dead within a day; asking again would not help its reputation.
  private func isDead(_ spooled: SpooledNotification) -> Bool {
    guard deadTokens.count > 0 else { return false }
    let token = RelayedToken(spooled.notification)
    return deadTokens.sinceMilliseconds(of: token, nowSeconds: loop.wallMilliseconds / 1000) != nil
  }

  private func read(_ topic: RelayTopic, after order: UInt64, count: Int) {
    do throws(StoreError) {
      let found = try rows.read(topic, after: order, count: count)
      for (order, spooled) in found {
        lanes[topic]?.contents[order] = spooled
        guard order < startOrder else { continue }
        lanes[topic]?.contents[order]?.mayHaveArrived = true
        lanes[topic]?.contents[order]?.answer = nil
      }
      lanes[topic]?.machine.read(found.map(\.order), isEnd: found.count < count)
    } catch {
      // The lane asks again, a little later.
      lanes[topic]?.machine.readFailed(nowMilliseconds: loop.nowMilliseconds)
      log.limited(.error, .notificationUnreadable, atMilliseconds: loop.nowMilliseconds) {
        [.text("reason", "\(error)")]
      }
    }
  }

  // MARK: Answers

  private func take(_ answered: inout [Answered]) {
    for one in answered { take(one) }
  }

  private func take(_ answered: Answered) {
    let (topic, order) = (answered.topic, answered.order)
    guard var spooled = lanes[topic]?.contents[order] else { return }
    due.insert(topic)
    let verdict = UpstreamVerdict(answered.answer)
    let cause = UpstreamCause(answered.answer)
    let ending = lanes[topic]?.machine.answered(
      order, verdict, nowMilliseconds: loop.nowMilliseconds, entropy: entropy())
    guard ending == .finished else {
      rows.record(.deferredUpstream, causeCode: cause?.code ?? 0, order, spooled)
      if case .again(mayDuplicate: true) = verdict {
        spooled.mayHaveArrived = true
        lanes[topic]?.contents[order] = spooled
      }
      return
    }
    conclude(order, spooled, verdict, cause ?? .otherReason)
  }

  /// It is over: only the ledger knows of it.
  func end(_ order: UInt64, _ spooled: SpooledNotification, _ end: SpoolEnd) {
    noteAnswered(spooled)
    remove(order, spooled, end)
  }

  private func remove(_ order: UInt64, _ spooled: SpooledNotification, _ end: SpoolEnd) {
    let (state, cause) = end.state
    rows.record(state, causeCode: cause, order, spooled)
    rows.remove(order, spooled.topic)
    change(spooled.topic) { lane in
      lane.contents[order] = nil
      lane.totals.remove(spooled.byteCount)
      if let figure = end.figure { lane.ended[keyPath: figure] += 1 }
    }
    totalBytes -= spooled.byteCount
  }

  /// Ends what waited for too long while nothing was sent.
  private func sweep() {
    due.formUnion(lanes.keys)
    for topic in lanes.keys {
      if lanes[topic]?.alarm.isRaised == false { sendDoubted(topic) }
      let over =
        lanes[topic]?.over(
          nowMilliseconds: loop.wallMilliseconds, ageSeconds: limits.ageSeconds) ?? [:]
      for order in lanes[topic]?.machine.drop(Set(over.keys)) ?? [] {
        if let spooled = lanes[topic]?.contents[order], let reason = over[order] {
          end(order, spooled, reason)
        }
      }
    }
    while let token = deadTokens.removeExpired(nowSeconds: loop.wallMilliseconds / 1000) {
      rows.remove(token)
    }
    if rows.ledger.needsUpkeep(nowMilliseconds: loop.wallMilliseconds) {
      schedule.note(.lines, nowMilliseconds: loop.nowMilliseconds)
    }
  }

  // MARK: Writing

  private func gatherLines() {
    let lines = rows.ledger.gather(nowMilliseconds: loop.wallMilliseconds)
    if !lines.isEmpty { host.noted(lines) }
    let lost = rows.ledger.takeLostLines()
    guard lost > 0 else { return }
    log(.error, "ledger lines lost while the store fails", .number("lines", Int64(lost)))
  }

  private func write(_ now: UInt64) {
    if !unwritten.isEmpty {
      schedule.note(.acceptances, nowMilliseconds: now)
    } else if !rows.isEmpty {
      schedule.note(.endings, nowMilliseconds: now)
    } else if rows.ledger.hasLines || !changed.isEmpty {
      schedule.note(.lines, nowMilliseconds: now)
    }
    guard schedule.begin(nowMilliseconds: now, isLast: isStopping) else {
      if let next = schedule.nextMilliseconds { dueMilliseconds = min(dueMilliseconds, next) }
      return
    }
    for topic in changed {
      guard let totals = lanes[topic]?.totals else { continue }
      rows.put(totals, of: topic)
    }
    changed.removeAll(keepingCapacity: true)
    let batch = unwritten
    unwritten = []
    rows.commit(nowMilliseconds: loop.wallMilliseconds) { [self] error in
      loop.perform { self.written(batch, error) }
    }
  }

  private func setTimer(_ now: UInt64) {
    guard dueMilliseconds < .max else { return }
    timer?.start(afterMilliseconds: dueMilliseconds > now ? dueMilliseconds - now : 0)
  }
}
