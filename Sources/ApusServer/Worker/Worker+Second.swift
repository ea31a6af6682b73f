import ApusCore
import ApusHTTP2
import ApusLog
import ApusLoop
import ApusModel
import ApusStore
import ApusTLS

// What a worker does each second.

extension Worker {
  func secondPassed() {
    readClock()
    let now = nowSeconds
    watchClock()
    wheel.advance(toSeconds: now)
    answerOverdue()
    tlsBuffers.forgetKeys()
    shard.secondPassed()
    reportDescriptors()
    if index == 0 {
      handOutExpired()
      log.tellSuppressed(atMilliseconds: loop.nowMilliseconds)
      reportRefusedConnections()
      reportScarcity()
    }
    readOnAfterScarcity()
    let awake = shard.shard.sessions.connected - dormant.dormancy.count
    let hasDormantMuch = dormant.freedMuch(awake: awake, nowSeconds: now)
    if hasDormantMuch || requestPool.hasShrunk() { returnMemory() }
  }

  /// Gives back to the system what a crowd leaves: the free pages of the heap, and before them what is kept for reuse,
  /// objects that lie far apart now and hold a page each.
  func returnMemory() {
    shard.shard.forgetFree()
    shard.cache.forgetSpare()
    depot.clear()
    requestPool.forgetFree()
    HeapPages.returnFree()
  }

  /// Looks at connections whose second has come, at some of them in each turn: a crowd that came within a second is due
  /// within one, and all others would wait while it is ended.
  func lookAtDue() {
    for _ in 0..<Limits.duePerTurn {
      guard let entry = wheel.takeDue() else { return }
      look(at: entry, nowSeconds)
    }
    if wheel.hasDue { loop.perform {} }
  }

  private func look(at entry: DeadlineWheel.Entry, _ now: UInt64) {
    guard generations[Int(entry.slot)] == entry.generation else { return }
    guard let connection = connections[Int(entry.slot)] else {
      return lookAtDormant(entry.slot, now)
    }
    guard connection.watchedSeconds <= now else { return }
    (connection.watchedSeconds, connection.plannedSeconds) = (connection.plannedSeconds, .max)
    if connection.dueSeconds <= now { return connection.deadlineReached() }
    if connection.quietSeconds <= now {
      guard !fallDormant(connection) else { return }
      connection.quietSeconds = now + dormantSeconds
    }
    watch(connection)
  }

  /// "Always answer within a deadline": what the store has not decided by then is answered 503, and its verdict, when
  /// it comes, finds nobody waiting.
  func answerOverdue() {
    let limit = UInt64(Limits.answerSeconds)
    guard nowSeconds > limit else { return }
    for open in openRequests.closeAll(startedBefore: (nowSeconds - limit) * 1000) {
      open.provider.finish(open, rejection: Rejection(.serviceUnavailable))
    }
  }

  /// Passes on what the store took for expired, to the devices' owners.
  func handOutExpired() {
    var places: [MailboxKey] = []
    store.takeExpired(
      nowSeconds: wallSeconds, limit: Limits.expiredPerSecond, into: &places)
    for place in places { send(.expired(place), to: ownerIndex(of: place.device)) }
  }
}
