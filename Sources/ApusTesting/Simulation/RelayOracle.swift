import ApusCore
import ApusModel

/// A notification for a device of another service, as its provider knows it.
struct RelayedPush {
  enum Provider: Int, CaseIterable {
    /// A legacy sender that reads error packets, and sends again what followed.
    case careful
    /// One that never reads.
    case deaf
    /// One with command 0.
    case simple
    /// The HTTP/2 interface.
    case request
  }

  var app: Int
  /// The index of its token.
  var token: Int
  var provider: Provider
  /// What upstream will reject it with, for another reason than its token.
  var fault: BinaryStatus?
  var expirationSeconds: Int64?
  var sentTime: UInt64
  var generation: Int
  var standing = SentNotification.Standing.waiting
  /// How often it was sent again because of an error packet.
  var resends = 0
  /// How often it was sent upstream.
  var sends = 0
  /// Ids under which it went upstream: one for each time that it was accepted.
  var ids: [NotificationID] = []
  /// Whether its sender was told that upstream rejects it.
  var isTold = false
  /// Whether its connection was lost with what the service had to say.
  var isWordLost = false
  /// The service's clock since it was sent, in Unix milliseconds.
  var clock: ClosedRange<Int64>
  /// The final answer that the relay got last.
  var verdict: UpstreamVerdict?
}

/// What an accepted notification went through upstream.
private struct Passage {
  var serial: Int
  var sends = 0
  var receipts = 0
  /// How often it may arrive again, because the last answer was lost, or not final.
  var excused = 0
  /// The process that waits for an answer.
  var openIn: Int?
  /// The process that got a final answer.
  var finalIn: Int?
  var hasFinalAnswer = false
}

/// Observes what goes through the relay: what providers were told, what upstream received and answered, and what the
/// disk has.
final class RelayOracle {
  /// An app in an environment.
  struct Place: Hashable {
    var app: AppID
    var environment: Environment
  }

  struct Sum: Hashable {
    var count = 0
    var byteCount = 0
  }

  private let timeline: Timeline
  private let wallMilliseconds: () -> Int64
  /// Whether nothing went wrong since then in the process of that number.
  private let isUntroubled: (_ since: UInt64, _ generation: Int) -> Bool
  private let violated: (SimulationLaw, String) -> Void
  /// The number of the service's process.
  var generation = 0
  /// After this many seconds a notification may end that upstream has not answered.
  var ageSeconds: Int64 = 86_400
  private(set) var pushes: [RelayedPush] = []
  private var passages: [NotificationID: Passage] = [:]
  /// Those that have not ended, as far as this knows.
  private var open: Set<Int> = []
  /// Rows of the spool when the last process ended.
  private var rowsAtEnd: Set<NotificationID> = []
  /// Rows of the spool, with their serial numbers.
  private var rows: [NotificationID: Int] = [:]
  /// Tokens in the feedback lists at some time.
  private(set) var listed: Set<Int> = []
  /// Tokens that upstream declared bad or dead.
  private var declared: Set<Int> = []
  /// Since when the operator has apps paused.
  private var pausedTimes: [Int: UInt64] = [:]
  /// Tokens that upstream declared dead: what the relay knows of them.
  private var dead: [Int: Death] = [:]
  /// How often one was sent again because the answer to it was lost with the process.
  private(set) var repeatedCount = 0

  private struct Death {
    var time: UInt64
    var notedMilliseconds: Int64
  }

  init(
    _ timeline: Timeline, wallMilliseconds: @escaping () -> Int64,
    isUntroubled: @escaping (_ since: UInt64, _ generation: Int) -> Bool,
    violated: @escaping (SimulationLaw, String) -> Void
  ) {
    self.timeline = timeline
    self.wallMilliseconds = wallMilliseconds
    self.isUntroubled = isUntroubled
    self.violated = violated
  }

  var receivedCount: Int { passages.values.count { $0.receipts > 0 } }

  // MARK: Providers

  func send(
    app: Int, token: Int, by provider: RelayedPush.Provider, expirationSeconds: Int64?,
    fault: BinaryStatus? = nil
  ) -> Int {
    let now = wallMilliseconds()
    open.insert(pushes.count)
    pushes.append(
      RelayedPush(
        app: app, token: token, provider: provider, fault: fault,
        expirationSeconds: expirationSeconds, sentTime: timeline.now, generation: generation,
        clock: now...now))
    return pushes.count - 1
  }

  func resent(_ serial: Int) {
    pushes[serial].resends += 1
    open.insert(serial)
  }

  func accepted(_ serial: Int) { pushes[serial].standing = .accepted }

  /// Its connection ended without a word about it.
  ///
  /// - Parameter isWordLost: Whether the service may have said something.
  func lost(_ serial: Int, isWordLost: Bool) {
    if pushes[serial].standing == .waiting { pushes[serial].standing = .unknown }
    if isWordLost { pushes[serial].isWordLost = true }
  }

  /// The provider was told that it is rejected.
  func told(_ serial: Int, _ status: BinaryStatus) {
    pushes[serial].standing = .refused
    pushes[serial].isTold = true
    if status == .invalidToken, !declared.contains(pushes[serial].token) {
      violated(.reasons, "a sender was told that the good token of \(serial) is bad")
    }
  }

  // MARK: Upstream

  /// The relay asks upstream.
  func sends(_ id: NotificationID, _ serial: Int) {
    guard pushes.indices.contains(serial) else {
      return violated(.addressee, "something went upstream that nobody sent")
    }
    var passage = passages[id] ?? Passage(serial: serial)
    if passage.openIn == generation || passage.finalIn == generation {
      violated(.relayUniqueness, "\(serial) was sent upstream again, without need")
    } else if passage.openIn != nil || passage.finalIn != nil {
      if !rowsAtEnd.contains(id) {
        violated(.relayUniqueness, "\(serial) was sent again, although its end was on disk")
      }
      repeatedCount += 1
      passage.excused += 1
    }
    // The first attempt of a request is its provider's.
    if pushes[serial].provider != .request || passage.sends > 0 { checkMaySend(serial) }
    passage.sends += 1
    pushes[serial].sends += 1
    (passage.openIn, passage.finalIn) = (generation, nil)
    passages[id] = passage
  }

  private func checkMaySend(_ serial: Int) {
    let push = pushes[serial]
    if let death = dead[push.token], death.time < timeline.now {
      violated(.relayDeadTokens, "\(serial) was sent upstream although its token is dead")
    }
    if let paused = pausedTimes[push.app], paused < timeline.now {
      violated(.relayPause, "\(serial) was sent upstream although its app is paused")
    }
  }

  func received(_ id: NotificationID, _ serial: Int) {
    guard pushes.indices.contains(serial), passages[id] != nil else {
      return violated(.addressee, "upstream got a notification that was not sent")
    }
    passages[id]?.receipts += 1
    if let passage = passages[id], passage.receipts > 1 + passage.excused {
      violated(.relayUniqueness, "upstream got \(serial) \(passage.receipts) times")
    }
    let push = pushes[serial]
    guard !push.ids.contains(id) else { return }
    pushes[serial].ids.append(id)
    if push.ids.count > 0, isUntroubled(push.sentTime, push.generation) {
      violated(
        .relayResends, "upstream got \(serial) twice, since its resend was taken for a new one")
    }
  }

  /// The relay gets an answer; requests without one are still open, or their process has ended.
  func answered(_ id: NotificationID, _ serial: Int, _ answer: UpstreamAnswer) {
    guard pushes.indices.contains(serial), passages[id] != nil else { return }
    let verdict = UpstreamVerdict(answer)
    passages[id]?.openIn = nil
    switch verdict {
    case .accepted, .refused:
      noteFinal(id, serial, verdict)
      open.remove(serial)
    case .dead:
      declared.insert(pushes[serial].token)
      noteFinal(id, serial, verdict)
      open.remove(serial)
      // The answer to an HTTP/2 request goes to the provider.
      guard pushes[serial].provider != .request || passages[id]?.sends != 1 else { return }
      let death = Death(time: timeline.now, notedMilliseconds: wallMilliseconds())
      if dead[pushes[serial].token] == nil { dead[pushes[serial].token] = death }
    case .badToken:
      declared.insert(pushes[serial].token)
      noteFinal(id, serial, verdict)
      // While the configuration is in doubt, it is held, and sent again.
      passages[id]?.finalIn = nil
      passages[id]?.excused += 1
    case .again(mayDuplicate: false): break
    case .misconfigured, .later, .again: passages[id]?.excused += 1
    }
  }

  private func noteFinal(_ id: NotificationID, _ serial: Int, _ verdict: UpstreamVerdict) {
    passages[id]?.finalIn = generation
    passages[id]?.hasFinalAnswer = true
    pushes[serial].verdict = verdict
  }

  // MARK: The service's disk

  /// The operator pauses an app, or lets it go on.
  func paused(_ app: Int, _ isPaused: Bool) {
    guard isPaused else { return pausedTimes[app] = nil }
    if pausedTimes[app] == nil { pausedTimes[app] = timeline.now }
  }

  /// The process has ended, and left these rows and dead tokens, with the Unix time at which they were noted.
  func processEnded(_ rows: Set<NotificationID>, deadTokens: [Int: Int64]) {
    rowsAtEnd = rows
    pausedTimes = [:]
    for id in rows {
      // What followed from the answer is lost with it.
      guard let passage = passages[id], passage.finalIn != nil || passage.hasFinalAnswer else {
        continue
      }
      pushes[passage.serial].verdict = nil
      open.insert(passage.serial)
    }
    for (token, death) in dead {
      dead[token] = deadTokens[token].map { Death(time: death.time, notedMilliseconds: $0 * 1000) }
    }
    clockMoved()
  }

  /// The rows of the spool: what is gone was answered, or its time is over.
  ///
  /// - Parameter isDoubtful: Whether rows may go because a write failed.
  func stored(_ present: [NotificationID: Int], isDoubtful: Bool) {
    for (id, serial) in rows where present[id] == nil && !isDoubtful {
      if passages[id]?.hasFinalAnswer != true, !mayEnd(serial) {
        violated(.relayArrival, "the spool lost \(serial)")
      }
    }
    rows = present
  }

  /// The sums of the rows, and what the totals beside them say.
  func compare(_ sums: [Place: Sum], totals: [Place: Sum]) {
    for place in Set(sums.keys).union(totals.keys) where sums[place] != totals[place] {
      let (sum, total) = (sums[place] ?? Sum(), totals[place] ?? Sum())
      violated(
        .relayTotals,
        "app \(place.app.rawValue) has \(sum.count) rows of \(sum.byteCount) bytes in the spool, "
          + "and \(total.count) of \(total.byteCount) in its totals")
    }
  }

  /// The token is in its feedback list.
  func list(_ token: Int) {
    guard listed.insert(token).inserted else { return }
    if !declared.contains(token) {
      violated(.relayFeedback, "token \(token) is in the feedback list, and upstream knows it")
    }
  }

  // MARK: Time

  /// The service's clock advanced, was set, or is about to be set.
  func clockMoved() {
    let now = wallMilliseconds()
    for serial in open {
      let clock = pushes[serial].clock
      pushes[serial].clock = min(clock.lowerBound, now)...max(clock.upperBound, now)
    }
    // A minute is more than the time for a notification's answer to arrive.
    let day = (Limits.deadUpstreamSeconds - 60) * 1000
    dead = dead.filter { abs(now - $0.value.notedMilliseconds) < day }
  }

  /// Whether the notification may end without an answer.
  private func mayEnd(_ serial: Int) -> Bool {
    declared.contains(pushes[serial].token) || isOver(serial)
  }

  /// Whether its time may be over.
  private func isOver(_ serial: Int) -> Bool {
    clockMoved()
    let push = pushes[serial]
    if push.clock.upperBound - push.clock.lowerBound >= ageSeconds * 1000 { return true }
    guard let seconds = push.expirationSeconds else { return false }
    return seconds == 0 ? push.sends > 0 : seconds <= push.clock.upperBound / 1000
  }

  // MARK: The end

  /// Everything works again, and had enough time: `waiting` are left in the spool.
  func finish(waiting: [Int]) {
    if !waiting.isEmpty {
      violated(.relayRest, "\(waiting) stay in the spool without a reason")
    }
    for (serial, push) in pushes.enumerated() where !waiting.contains(serial) {
      if push.standing == .accepted, push.verdict == nil, !mayEnd(serial) {
        violated(
          push.resends > 0 ? .relayResends : .relayArrival,
          "\(serial) was accepted, and upstream never got it")
      }
      checkToken(serial, push)
    }
  }

  private func checkToken(_ serial: Int, _ push: RelayedPush) {
    guard !listed.contains(push.token) else { return }
    let mustBeListed =
      switch push.verdict {
      case .dead: push.provider != .request || push.standing == .accepted
      // It may have been held while the configuration was in doubt, and have ended then.
      case .badToken: !isReported(push) && !isOver(serial)
      default: false
      }
    if mustBeListed {
      violated(.relayFeedback, "nobody was told of the bad token of \(serial)")
    }
  }

  private func isReported(_ push: RelayedPush) -> Bool {
    switch push.provider {
    case .careful: push.isTold || push.isWordLost
    // Its sender has the packet, and does not look at it.
    case .deaf: true
    case .simple: false
    case .request: push.standing != .accepted
    }
  }
}
