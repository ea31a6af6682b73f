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
  private var unwritten: [Unwritten] = []
  /// Topics whose totals are to be written.
  private var changed: Set<RelayTopic> = []
  private var endingsDueMilliseconds = UInt64.max
  var decisions = DecisionBatch()
  /// Those of a lower order were accepted before the service was started, and may have been sent then.
  private let startOrder: UInt64

  private static let sweepMilliseconds: UInt64 = 10_000
  /// A crash within this time sends again what upstream has answered.
  private static let endingsMilliseconds: UInt64 = 20
  /// After this time a lost group is written again, unless another one is.
  private static let repeatMilliseconds: UInt64 = 1000

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
    rows = SpoolRows(host.store)
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
      (timer, sweepTimer) = (nil, nil)
      writeEndings()
      loop.onTurnEnd = nil
    }
    guard !loop.isSimulated else { return takeLastTurns() }
    loop.stop()
    loop.join()
  }

  /// A simulated loop has no thread that could be waited for.
  private func takeLastTurns() { while loop.takeTurn() {} }

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
      answer: kept.waiter.frame, byteCount: 0, mayHaveArrived: false)
    spooled.byteCount = rows.put(order, spooled)
    change(spooled.topic) { $0.totals.add(spooled.byteCount) }
    totalBytes += spooled.byteCount
    unwritten.append(Unwritten(order: order, spooled: spooled, waiter: kept.waiter))
  }

  private func answer(_ waiter: KeptNotification.Waiter, isKept: Bool) {
    switch waiter {
    case .frame(let answer):
      decisions.add(
        Verdict(answer: answer, rejection: isKept ? nil : Rejection(.serviceUnavailable)))
    case .request(let done): done(isKept)
    }
  }

  /// Notifications whose rows are being written, and who waits for that.
  private struct Unwritten: Sendable {
    var order: UInt64
    var spooled: SpooledNotification
    var waiter: KeptNotification.Waiter
  }

  func change(_ topic: RelayTopic, _ body: (inout SpoolLane) -> Void) {
    body(&lanes[topic, default: SpoolLane(SpoolTotals())])
    changed.insert(topic)
    due.insert(topic)
  }

  /// The rows were written, or not.
  private func written(
    _ batch: [Unwritten], _ endings: [SpoolRows.Ending], _ error: StoreError?
  ) {
    if let error { return notWritten(batch, endings, error) }
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
  private func notWritten(
    _ batch: [Unwritten], _ endings: [SpoolRows.Ending], _ error: StoreError
  ) {
    log.limited(.error, .groupRefused, atMilliseconds: loop.nowMilliseconds) {
      [.text("reason", "\(error)")]
    }
    for one in batch {
      rows.remove(one.order, one.spooled.topic)
      change(one.spooled.topic) { $0.totals.remove(one.spooled.byteCount) }
      totalBytes -= one.spooled.byteCount
      answer(one.waiter, isKept: false)
    }
    rows.repeatAll(endings)
    changed.formUnion(lanes.keys)
    endingsDueMilliseconds = loop.nowMilliseconds + Self.repeatMilliseconds
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
    for topic in due.sorted() { work(topic, now) }
    due.removeAll(keepingCapacity: true)
    write(now)
    watchFullness()
    decisions.deliver(host.deliver)
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
    let isDead = isDead(spooled)
    let isOver = spooled.isOver(
      nowMilliseconds: loop.wallMilliseconds, ageSeconds: limits.ageSeconds)
    if isDead || isOver {
      _ = lanes[topic]?.machine.answered(order, nil, nowMilliseconds: now, entropy: 0)
      return end(order, spooled, isDead ? \.dead : \.expired)
    }
    if spooled.mayHaveArrived { lanes[topic]?.ended.repeated += 1 }
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
    let ending = lanes[topic]?.machine.answered(
      order, verdict, nowMilliseconds: loop.nowMilliseconds, entropy: entropy())
    guard ending == .finished else {
      if case .again(mayDuplicate: true) = verdict {
        spooled.mayHaveArrived = true
        lanes[topic]?.contents[order] = spooled
      }
      return
    }
    conclude(order, spooled, verdict)
  }

  /// It is over: nothing of it stays.
  func end(
    _ order: UInt64, _ spooled: SpooledNotification,
    _ how: WritableKeyPath<RelayEndings, UInt64>
  ) {
    noteAnswered(spooled)
    rows.remove(order, spooled.topic)
    change(spooled.topic) { lane in
      lane.contents[order] = nil
      lane.totals.remove(spooled.byteCount)
      lane.ended[keyPath: how] += 1
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
        if let spooled = over[order] { end(order, spooled, \.expired) }
      }
    }
    while let token = deadTokens.removeExpired(nowSeconds: loop.wallMilliseconds / 1000) {
      rows.remove(token)
    }
  }

  // MARK: Writing

  /// Accepted notifications are written in the turn; that others are over can wait a little, for those.
  private func write(_ now: UInt64) {
    guard !unwritten.isEmpty || now >= endingsDueMilliseconds else {
      if !rows.isEmpty { noteEndings(now) }
      return
    }
    writeEndings()
  }

  private func noteEndings(_ now: UInt64) {
    if endingsDueMilliseconds == .max {
      endingsDueMilliseconds = now + Self.endingsMilliseconds
    }
    dueMilliseconds = min(dueMilliseconds, endingsDueMilliseconds)
  }

  private func writeEndings() {
    endingsDueMilliseconds = .max
    guard !rows.isEmpty else { return }
    for topic in changed {
      guard let totals = lanes[topic]?.totals else { continue }
      rows.put(totals, of: topic)
    }
    changed.removeAll(keepingCapacity: true)
    let batch = unwritten
    unwritten = []
    rows.commit { [self] error, endings in
      loop.perform { self.written(batch, endings, error) }
    }
  }

  private func setTimer(_ now: UInt64) {
    guard dueMilliseconds < .max else { return }
    timer?.start(afterMilliseconds: dueMilliseconds > now ? dueMilliseconds - now : 0)
  }
}
