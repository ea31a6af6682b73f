import ApusClient
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
  struct Answered: Sendable {
    var topic: RelayTopic
    var order: UInt64
    var answer: UpstreamAnswer
  }

  let loop: EventLoop
  private let requests: Inbox<KeptNotification>
  /// Of notifications that did not go through a client.
  let answers: Inbox<Answered>
  /// Those with answers.
  let answered: Inbox<RelayedSends>
  private let isFullNow = Atomic(false)

  // Confined to the loop.

  let host: RelayHost
  /// Knows the upstreams.
  unowned let relay: Relay
  /// Sends in place of the clients.
  let simulation: RelaySimulation?
  /// Spreads attempts: a number from 0 to 999.
  let entropy: @Sendable () -> UInt64
  let limits: SpoolLimits
  let log: Log
  var rows: SpoolRows
  private(set) var lanes: [RelayTopic: SpoolLane] = [:]
  /// The one asked for last: the next notification is mostly of the same.
  private var latestLane: SpoolLane?
  /// Lanes with something to do.
  private var due: [SpoolLane] = []
  /// Those in use, also after their lanes have got others.
  var exits: [ObjectIdentifier: LaneExit] = [:]
  var deadTokens = DeadTokens()
  private var timer: LoopTimer?
  private var sweepTimer: LoopTimer?
  /// When the lanes have something to do by themselves.
  var dueMilliseconds = UInt64.max
  private var totalBytes = 0
  /// Of the rows of notifications in memory.
  private var memoryBytes = 0
  private var unwritten: [UnwrittenNotification] = []
  /// Those in the group that is being written.
  private var writing: [UnwrittenNotification] = []
  /// Lanes whose totals are to be written.
  private var changed: [SpoolLane] = []
  private var schedule = SpoolSchedule()
  private var isStopping = false
  /// A store that fails while the service stops is not waited for.
  private var hasGivenUp = false
  var decisions = DecisionBatch()
  /// Those of a lower order were accepted before the service was started, and may have been sent then.
  let startOrder: UInt64

  private static let sweepMilliseconds: UInt64 = 10_000
  /// For how long the end waits for a store that does not answer.
  private static let stopMilliseconds: UInt64 = 5000

  /// Reads what the store has.
  init(
    _ host: RelayHost, _ limits: SpoolLimits, log: Log,
    of relay: Relay, simulation: RelaySimulation?
  ) throws(StoreError) {
    self.host = host
    let loop = simulation?.loop ?? EventLoop(name: "apus-relay")
    self.loop = loop
    let chance: @Sendable () -> UInt64 = { UInt64.random(in: 0...999) }
    entropy = simulation?.entropy ?? chance
    self.limits = limits
    self.log = log
    self.relay = relay
    self.simulation = simulation
    startOrder = host.order.next() ?? .max
    rows = SpoolRows(
      host.store, try RelayLedger(host.store, host.ledger.mode, host.ledger.bounds))
    weak var spool: Spool?
    // Workers stop reading before the inbox is full.
    requests = Inbox(loop: loop, capacity: limits.inboxCapacity) { spool?.take(&$0) }
    answers = Inbox(loop: loop, capacity: .max) { batch in
      for one in batch { spool?.take(one) }
    }
    answered = Inbox(loop: loop, capacity: .max) { batch in
      for one in batch { spool?.takeAnswers(one) }
    }
    for (topic, totals) in try rows.totals() {
      lanes[topic] = SpoolLane(topic, totals)
      totalBytes += totals.byteCount
    }
    allDue()
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

  /// Leaves those in the array that there is no room for.
  func keep(contentsOf notifications: inout [KeptNotification]) {
    _ = requests.send(contentsOf: &notifications)
  }

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

  // MARK: Lanes

  /// The lane of a topic; nil if nothing of it was ever kept.
  func knownLane(_ topic: RelayTopic) -> SpoolLane? {
    if let latestLane, latestLane.topic == topic { return latestLane }
    latestLane = lanes[topic]
    return latestLane
  }

  /// The lane of a topic, which is made if there is none.
  func lane(_ topic: RelayTopic) -> SpoolLane {
    if let known = knownLane(topic) { return known }
    let lane = SpoolLane(topic, SpoolTotals())
    lanes[topic] = lane
    return lane
  }

  /// The lane has something to do.
  func due(_ lane: SpoolLane) {
    guard !lane.isDue else { return }
    lane.isDue = true
    due.append(lane)
  }

  func allDue() { for lane in lanes.values { due(lane) } }

  /// The lane's totals have changed.
  func changed(_ lane: SpoolLane) {
    due(lane)
    guard !lane.isChanged else { return }
    lane.isChanged = true
    changed.append(lane)
  }

  /// Keeps a notification in memory.
  func remember(_ spooled: SpooledNotification, _ lane: SpoolLane) {
    if lane.contents.updateValue(spooled, forKey: spooled.order) == nil {
      memoryBytes += spooled.byteCount
    }
  }

  func forget(_ spooled: SpooledNotification, _ lane: SpoolLane) {
    if lane.contents.removeValue(forKey: spooled.order) != nil {
      memoryBytes -= spooled.byteCount
    }
  }

  // MARK: Acceptance

  private func take(_ kept: inout [KeptNotification]) {
    for notification in kept { take(notification) }
  }

  private func take(_ kept: KeptNotification) {
    guard let order = host.order.next() else {
      return answer(kept.waiter, isKept: false)
    }
    let spooled = SpooledNotification(
      kept.notification, order: order, acceptedMilliseconds: kept.acceptedMilliseconds,
      interface: kept.waiter.interface, answer: kept.waiter.frame, byteCount: 0)
    spooled.byteCount = rows.put(spooled)
    rows.record(.received, spooled)
    let lane = lane(spooled.topic)
    lane.totals.add(spooled.byteCount)
    changed(lane)
    totalBytes += spooled.byteCount
    unwritten.append(UnwrittenNotification(spooled: spooled, lane: lane, waiter: kept.waiter))
  }

  private func answer(_ waiter: KeptNotification.Waiter, isKept: Bool) {
    switch waiter {
    case .frame(let answer):
      decisions.add(
        Verdict(answer: answer, rejection: isKept ? nil : Rejection(.serviceUnavailable)))
    case .request(let done): done(isKept)
    }
  }

  /// The rows were written, or not.
  private func written(_ error: StoreError?) {
    schedule.finished(succeeded: error == nil, nowMilliseconds: loop.nowMilliseconds)
    rows.committed(succeeded: error == nil)
    defer { writing.removeAll(keepingCapacity: true) }
    if let error { return notWritten(error) }
    for one in writing {
      let hasRoom = memoryBytes < Limits.relayMemoryBytes
      if one.lane.machine.add(one.spooled.order, hasRoom: hasRoom) {
        remember(one.spooled, one.lane)
      }
      due(one.lane)
      answer(one.waiter, isKept: true)
    }
  }

  /// Whether the rows are on disk is not known: they go with the next group, since their providers send them again.
  /// So do the ends that were to be written.
  private func notWritten(_ error: StoreError) {
    log.limited(.error, .groupRefused, atMilliseconds: loop.nowMilliseconds) {
      [.text("reason", "\(error)")]
    }
    for one in writing {
      remove(one.spooled, one.lane, .notWritten)
      answer(one.waiter, isKept: false)
    }
    for lane in lanes.values { changed(lane) }
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

  // MARK: Turns

  /// Everything that the turn brought about leaves.
  private func endTurn() {
    let now = loop.nowMilliseconds
    if dueMilliseconds <= now {
      dueMilliseconds = .max
      allDue()
    }
    workOnDue(now)
    gatherLines()
    if !hasGivenUp { write(now) }
    watchFullness()
    decisions.deliver(host.deliver)
    if isStopping, schedule.isIdle || hasGivenUp { end() }
    setTimer(now)
  }

  private func workOnDue(_ now: UInt64) {
    // The same input has the same effects, in a simulation.
    if due.count > 1 { due.sort { $0.topic < $1.topic } }
    if !isStopping { for lane in due { work(lane, now) } }
    for lane in due { lane.isDue = false }
    due.removeAll(keepingCapacity: true)
  }

  // MARK: Ends

  /// It is over: only the ledger knows of it.
  func end(_ spooled: SpooledNotification, _ lane: SpoolLane, _ end: SpoolEnd) {
    noteAnswered(spooled)
    remove(spooled, lane, end)
  }

  private func remove(_ spooled: SpooledNotification, _ lane: SpoolLane, _ end: SpoolEnd) {
    let (state, cause) = end.state
    rows.record(state, causeCode: cause, spooled)
    rows.remove(spooled.order, lane.topic)
    forget(spooled, lane)
    lane.totals.remove(spooled.byteCount)
    if let figure = end.figure { lane.ended[keyPath: figure] += 1 }
    changed(lane)
    totalBytes -= spooled.byteCount
  }

  /// Ends what waited for too long while nothing was sent.
  private func sweep() {
    allDue()
    for lane in lanes.values {
      if !lane.alarm.isRaised { sendDoubted(lane) }
      let over = lane.over(
        nowMilliseconds: loop.wallMilliseconds, ageSeconds: limits.ageSeconds)
      for order in lane.machine.drop(Set(over.keys)) {
        if let spooled = lane.contents[order], let reason = over[order] {
          end(spooled, lane, reason)
        }
      }
      releaseExit(of: lane)
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
    if lost > 0 { host.lost(lost) }
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
    for lane in changed {
      lane.isChanged = false
      rows.put(lane.totals, of: lane.topic)
    }
    changed.removeAll(keepingCapacity: true)
    swap(&writing, &unwritten)
    rows.commit(nowMilliseconds: loop.wallMilliseconds) { [self] error in
      loop.perform { self.written(error) }
    }
  }

  private func setTimer(_ now: UInt64) {
    guard dueMilliseconds < .max else { return }
    timer?.start(afterMilliseconds: dueMilliseconds > now ? dueMilliseconds - now : 0)
  }
}
