import ApusHTTP2
import ApusModel

/// What pushes wait for. Later cases say more about the cause.
enum WaitingFor: Int, Comparable {
  case connection, streams, silence, window, service

  init(_ hindrance: ProviderSession.Hindrance) {
    switch hindrance {
    case .notReady: self = .connection
    case .streams: self = .streams
    case .window: self = .window
    case .silence: self = .silence
    }
  }

  static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}

// Waiting pushes and connections.
extension Dispatcher {
  // MARK: Waiting pushes

  /// The next push for a stream: single pushes come before those of bulk sends, which take turns.
  func nextPush() -> PendingSend? {
    if let first = queue.first() {
      isBulkNext = false
      return first
    }
    isBulkNext = true
    for _ in bulkJobs.indices {
      if bulkTurn >= bulkJobs.count { bulkTurn = 0 }
      if let first = bulkJobs[bulkTurn].first() { return first }
      bulkTurn += 1
    }
    return nil
  }

  /// Removes the push that ``nextPush()`` returned.
  func dropNextPush() {
    if isBulkNext {
      bulkJobs[bulkTurn].dropFirst()
      bulkTurn += 1
    } else {
      queue.dropFirst()
    }
  }

  func takeWaiting() -> [PendingSend] {
    var waiting = queue.takeAll() + delayed.map(\.send)
    delayed = []
    for job in bulkJobs { waiting += job.takeAll() }
    return waiting
  }

  /// Pushes without an outcome.
  var openCount: Int {
    let streams = (sessions + leaving).reduce(0) { $0 + $1.openCount }
    return streams + waitingCount
  }

  /// Whether any work is pending.
  var isBusy: Bool {
    nextPush() != nil || !delayed.isEmpty
      || (sessions + leaving).contains {
        $0.openCount > 0 || !$0.isReady || $0.pingedMilliseconds != nil
      }
  }

  /// Pushes without a stream.
  var waitingCount: Int {
    // Drops cancelled pushes at the front.
    let single = queue.first() == nil ? 0 : queue.count
    return single + delayed.count + bulkJobs.reduce(0) { $0 + $1.waitingCount }
  }

  // MARK: Bulk sends

  func add(_ job: BulkJob, nowMilliseconds: UInt64) {
    if isClosing { return job.abandon() }
    if !bulkJobs.contains(where: { $0 === job }) { bulkJobs.append(job) }
    job.hasMore()
    if job.isCancelled { cancel(job, nowMilliseconds) }
  }

  /// Nobody wants the outcomes of this bulk send any more.
  private func cancel(_ job: BulkJob, _ nowMilliseconds: UInt64) {
    let waiting = job.takeAll() + queue.unfinished + delayed.map(\.send)
    for send in waiting where send.belongs(to: job) {
      finish(send, UnknownCause(.cancelled), retryMayDuplicate: false)
    }
    for session in sessions + leaving {
      let count = session.cancel(nowMilliseconds: nowMilliseconds) { $0.belongs(to: job) }
      counters.unknown += UInt64(count)
    }
  }

  /// Delivers outcomes, and forgets finished bulk sends. Called at the end of a turn.
  func deliver() {
    guard !bulkJobs.isEmpty else { return }
    for job in bulkJobs { job.deliver() }
    bulkJobs.removeAll { $0.isOver }
    if bulkTurn >= bulkJobs.count { bulkTurn = 0 }
  }

  // MARK: Connections

  /// Whether to open a connection now. Each true starts one attempt, which ends with ``connected(nowMilliseconds:)`` or
  /// ``connectFailed(_:isFinal:nowMilliseconds:)``.
  func wantsConnection(nowMilliseconds: UInt64) -> Bool {
    guard nextPush() != nil, nowMilliseconds >= heldUntilMilliseconds else { return false }
    guard !sessions.isEmpty else {
      return plan.wantsConnection(nowMilliseconds: nowMilliseconds)
    }
    guard sessions.count + plan.attempts < settings.maximumConnections,
      let since = saturatedSinceMilliseconds,
      nowMilliseconds >= since + settings.growAfterMilliseconds
    else { return false }
    // At most doubles the connections: the next ones wait until these have shown their effect.
    return plan.wantsConnection(limit: sessions.count, nowMilliseconds: nowMilliseconds)
  }

  /// Connections with an outdated credential close once their pushes are answered.
  func retireAll() {
    for session in sessions where !session.isDone { leaving.append(session) }
    for session in sessions { session.retire() }
    sessions = []
  }

  /// A connection is open; its bytes go through the returned session.
  func connected(nowMilliseconds: UInt64) -> ProviderSession {
    let session = ProviderSession(nowMilliseconds: nowMilliseconds)
    sessions.append(session)
    plan.connected()
    saturatedSinceMilliseconds = nil
    counters.connectionsMade += 1
    return session
  }

  /// A connection attempt failed. `isFinal`: another attempt would fail in the same way.
  func connectFailed(_ text: String, isFinal: Bool, nowMilliseconds: UInt64) {
    noteFailure(text, isAttempt: true, isFinal: isFinal, nowMilliseconds)
  }

  private func noteFailure(
    _ text: String, isAttempt: Bool, isFinal: Bool, _ nowMilliseconds: UInt64
  ) {
    lastFailure = text
    counters.connectionsFailed += 1
    let verdict = plan.failed(
      isAttempt: isAttempt, isFinal: isFinal, entropy: entropy(), nowMilliseconds: nowMilliseconds)
    // While other connections work, pushes do not end because of this one.
    if verdict == .giveUp, sessions.isEmpty { fail(UnknownCause(.connectionFailed, text)) }
  }

  /// The connection of a session has ended.
  func lost(_ session: ProviderSession, _ text: String, isFinal: Bool, nowMilliseconds: UInt64) {
    session.connectionLost(text)
    settle(session, nowMilliseconds)
    retire(session, session.goAway?.text ?? text, nowMilliseconds, isFinal: isFinal)
    leaving.removeAll { $0 === session }
  }

  /// Takes a session out of use.
  func retire(
    _ session: ProviderSession, _ text: String, _ nowMilliseconds: UInt64, isFinal: Bool = false
  ) {
    guard let place = sessions.firstIndex(where: { $0 === session }) else { return }
    sessions.remove(at: place)
    if !session.isDone { leaving.append(session) }
    if let reason = session.goAway?.credentialFault { refuseAll(reason) }
    if session.answerCount == 0, !isClosing {
      noteFailure(text, isAttempt: false, isFinal: isFinal, nowMilliseconds)
    }
  }

  // MARK: Time

  /// Ends what is overdue. Call several times a second while pushes are open, and every few seconds while there are
  /// connections.
  func tick(nowMilliseconds: UInt64) {
    if let hindrance, let ticked = tickedMilliseconds, nowMilliseconds > ticked {
      counters.waited(waitingCount, for: hindrance, milliseconds: nowMilliseconds - ticked)
    }
    tickedMilliseconds = nowMilliseconds
    for send in queue.takeOverdue(nowMilliseconds: nowMilliseconds) {
      finish(send, UnknownCause(.timedOut, waitingText), retryMayDuplicate: false)
    }
    for job in bulkJobs { endOverdue(job, nowMilliseconds) }
    sendDelayed(nowMilliseconds)
    for session in leaving + sessions {
      session.expire(nowMilliseconds: nowMilliseconds) { finish($0, $1) }
      session.watch(settings, nowMilliseconds: nowMilliseconds)
    }
    for session in sessions where !session.takesPushes {
      retire(session, session.deathText ?? "no answer came", nowMilliseconds)
    }
    leaving.removeAll { $0.isDone }
    shrink(nowMilliseconds)
    fill(nowMilliseconds: nowMilliseconds)
    endStall(nowMilliseconds)
  }

  /// Those of a relay have a deadline while they wait, each no earlier than the one before.
  private func endOverdue(_ job: BulkJob, _ nowMilliseconds: UInt64) {
    while let send = job.first(), send.deadlineMilliseconds <= nowMilliseconds {
      job.dropFirst()
      finish(send, UnknownCause(.timedOut, waitingText), retryMayDuplicate: false)
    }
  }

  private func sendDelayed(_ nowMilliseconds: UInt64) {
    guard delayed.contains(where: { $0.dueMilliseconds <= nowMilliseconds }) else { return }
    var due = delayed.filter { $0.dueMilliseconds <= nowMilliseconds }.map(\.send)
    delayed.removeAll { $0.dueMilliseconds <= nowMilliseconds }
    due.sort { $0.number < $1.number }
    queue.putBack(due)
  }

  /// Closes connections that have long been idle, except for the number that stays.
  private func shrink(_ nowMilliseconds: UInt64) {
    while sessions.count > settings.idleConnections, let last = sessions.last, last.openCount == 0,
      nowMilliseconds >= last.idleSinceMilliseconds + settings.shrinkAfterMilliseconds
    {
      last.retire()
      sessions.removeLast()
    }
  }

  /// Pushes of a bulk send have no deadline before they have a stream, so that a million can wait their turn. If
  /// nothing progresses at all, they end like other pushes.
  private func endStall(_ nowMilliseconds: UInt64) {
    let goesOn =
      nowMilliseconds < heldUntilMilliseconds || sessions.contains { $0.openCount > 0 }
      || !bulkJobs.contains { $0.first() != nil }
    guard !goesOn, let since = stalledSinceMilliseconds else {
      stalledSinceMilliseconds = goesOn ? nil : nowMilliseconds
      return
    }
    guard nowMilliseconds >= since + settings.stallMilliseconds else { return }
    stalledSinceMilliseconds = nil
    for job in bulkJobs {
      for send in job.takeAll() {
        finish(send, UnknownCause(.timedOut, waitingText), retryMayDuplicate: false)
      }
    }
  }

  private var waitingText: String {
    sessions.isEmpty ? lastFailure : "no stream became free"
  }
}
