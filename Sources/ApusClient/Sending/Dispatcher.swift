import ApusHTTP2
import ApusModel

/// Assigns pushes to connections, requests connections, and delivers outcomes to callers. No I/O and no clock.
///
/// The driver opens a connection when ``wantsConnection(nowMilliseconds:)`` is true, moves bytes between each
/// connection and its `ProviderSession`, and then calls ``progress(_:nowMilliseconds:)``.
final class Dispatcher {
  /// Most requests for one push, if each is rejected.
  static let attemptLimit = 4

  let settings: DispatcherSettings
  var queue: SendQueue
  /// Rejected pushes that wait to be sent again.
  var delayed: [(dueMilliseconds: UInt64, send: PendingSend)] = []
  var bulkJobs: [BulkJob] = []
  /// The index of the next bulk send.
  var bulkTurn = 0
  /// Whether ``nextPush()`` last returned a push of a bulk send.
  var isBulkNext = false
  var plan = ConnectPlan()
  /// The connections that take pushes, oldest first. The first with room gets the next push, so unneeded connections
  /// become idle.
  var sessions: [ProviderSession] = []
  /// Connections that take no more pushes but still have some.
  var leaving: [ProviderSession] = []
  /// Since when pushes have waited although the connections are at their limits.
  var saturatedSinceMilliseconds: UInt64?
  /// Until when a busy service has asked for no requests.
  var heldUntilMilliseconds: UInt64 = 0
  /// Since when pushes of bulk sends have waited without any progress.
  var stalledSinceMilliseconds: UInt64?
  /// Why pushes were waiting when streams were last assigned.
  var hindrance: WaitingFor?
  var counters = ClientCounters()
  var tickedMilliseconds: UInt64?
  private let authorization: () -> [UInt8]?
  private let renewAuthorization: () -> Bool
  let entropy: () -> UInt64
  private var lastNumber: UInt64 = 0
  var lastFailure = ""
  private(set) var isClosing = false

  /// - Parameters:
  ///   - authorization: The field's current value; empty with a certificate, nil if no token can be created.
  ///   - renewAuthorization: Called when the service considers the token expired. False if no newer one can be created.
  ///   - entropy: Random bits.
  init(
    settings: DispatcherSettings, authorization: @escaping () -> [UInt8]?,
    renewAuthorization: @escaping () -> Bool = { false }, entropy: @escaping () -> UInt64
  ) {
    self.settings = settings
    queue = SendQueue(capacity: settings.queueCapacity)
    self.authorization = authorization
    self.renewAuthorization = renewAuthorization
    self.entropy = entropy
  }

  // MARK: Pushes

  func add(_ send: PendingSend, nowMilliseconds: UInt64) {
    lastNumber += 1
    send.number = lastNumber
    send.deadlineMilliseconds = nowMilliseconds + send.timeoutMilliseconds
    if isClosing {
      finish(send, UnknownCause(.clientClosed), retryMayDuplicate: false)
    } else if !queue.append(send) {
      finish(
        send, UnknownCause(.queueFull, "\(queue.capacity) pushes wait"), retryMayDuplicate: false)
    }
  }

  func cancel(_ send: PendingSend, nowMilliseconds: UInt64) {
    guard !send.isFinished else { return }
    for session in sessions + leaving {
      let count = session.cancel(nowMilliseconds: nowMilliseconds) { $0 === send }
      counters.unknown += UInt64(count)
      if count > 0 { return }
    }
    // It stays in its queue and is skipped.
    finish(send, UnknownCause(.cancelled), retryMayDuplicate: false)
  }

  /// Assigns waiting pushes to free streams.
  func fill(nowMilliseconds: UInt64) {
    hindrance = nil
    guard !isHeld(nowMilliseconds) else { return }
    var field: [UInt8]?
    var hindered = WaitingFor.connection
    for session in sessions {
      var isShared = false
      while let send = nextPush() {
        if let reason = session.hindrance(bodyBytes: send.push.payload.count) {
          hindered = max(hindered, WaitingFor(reason))
          break
        }
        if !isShared {
          field = field ?? authorization()
          guard let field else { return fail(UnknownCause(.signingFailed)) }
          session.share(authority: settings.authority, authorization: field)
          isShared = true
        }
        if send.number == 0 {
          lastNumber += 1
          send.number = lastNumber
        }
        if send.deadlineMilliseconds == .max {
          send.deadlineMilliseconds = nowMilliseconds + send.timeoutMilliseconds
        }
        guard session.put(send, nowMilliseconds: nowMilliseconds) else { break }
        dropNextPush()
      }
    }
    noteSaturation(hindered, nowMilliseconds)
  }

  private func isHeld(_ nowMilliseconds: UInt64) -> Bool {
    guard nowMilliseconds < heldUntilMilliseconds, nextPush() != nil else { return false }
    hindrance = .service
    saturatedSinceMilliseconds = nil
    return true
  }

  /// Records whether pushes wait although each connection has proved to work.
  private func noteSaturation(_ hindered: WaitingFor, _ nowMilliseconds: UInt64) {
    guard nextPush() != nil else {
      saturatedSinceMilliseconds = nil
      return
    }
    hindrance = hindered
    // Apple's service allows one request at a time until it has seen a token: no reason for a second connection.
    let isSaturated =
      !sessions.isEmpty
      && sessions.allSatisfy { $0.answerCount > 0 || $0.pingedMilliseconds != nil }
    if !isSaturated {
      saturatedSinceMilliseconds = nil
    } else if saturatedSinceMilliseconds == nil {
      saturatedSinceMilliseconds = nowMilliseconds
    }
  }

  // MARK: Outcomes

  func finish(_ send: PendingSend, _ outcome: SendOutcome) {
    guard !send.isFinished else { return }
    counters.count(outcome)
    send.finish(outcome)
  }

  func finish(_ send: PendingSend, _ cause: UnknownCause, retryMayDuplicate: Bool) {
    finish(send, .unknown(cause, retryMayDuplicate: retryMayDuplicate))
  }

  /// Gives all pushes without a stream their outcome.
  func fail(_ cause: UnknownCause) {
    for send in takeWaiting() { finish(send, cause, retryMayDuplicate: false) }
  }

  /// The service rejects the credential that all pushes share.
  func refuseAll(_ reason: Reason) {
    for send in takeWaiting() {
      finish(
        send,
        .rejected(
          PushRejection(
            reason: RejectionReason(reason), status: reason.status, apnsID: send.push.id)))
    }
  }

  /// Handles the results of a session after bytes passed through it.
  func progress(_ session: ProviderSession, nowMilliseconds: UInt64) {
    session.heard(nowMilliseconds: nowMilliseconds)
    let answers = session.answerCount
    settle(session, nowMilliseconds)
    if session.answerCount > answers { plan.answered() }
    if !session.takesPushes {
      retire(session, session.goAway?.text ?? "the service takes no more requests", nowMilliseconds)
    }
    leaving.removeAll { $0.isDone }
    fill(nowMilliseconds: nowMilliseconds)
  }

  func settle(_ session: ProviderSession, _ nowMilliseconds: UInt64) {
    var again: [PendingSend] = []
    session.settle(nowMilliseconds: nowMilliseconds) { send, settlement in
      switch settlement {
      case .outcome(let outcome):
        counters.latency.add(milliseconds: nowMilliseconds - send.sentMilliseconds)
        if case .rejected(let rejection) = outcome,
          resends(send, rejection, session, nowMilliseconds, &again)
        {
          return
        }
        finish(send, outcome)
      case .sendAgain(let text):
        resend(send, text, &again)
      }
    }
    guard !again.isEmpty else { return }
    // Streams end in no particular order.
    again.sort { $0.number < $1.number }
    queue.putBack(again)
  }

  private func resend(_ send: PendingSend, _ text: String, _ again: inout [PendingSend]) {
    if send.attempts < Self.attemptLimit {
      counters.resent += 1
      again.append(send)
    } else {
      finish(send, UnknownCause(.requestRefused, text), retryMayDuplicate: false)
    }
  }

  /// Whether a rejected push is sent again; if not, the rejection is its outcome.
  private func resends(
    _ send: PendingSend, _ rejection: PushRejection, _ session: ProviderSession,
    _ nowMilliseconds: UInt64, _ again: inout [PendingSend]
  ) -> Bool {
    guard send.attempts < Self.attemptLimit else { return false }
    if rejection.reason.known == .expiredProviderToken {
      guard !send.hasNewToken, renewAuthorization() else { return false }
      send.hasNewToken = true
      resend(send, "", &again)
      return true
    }
    // A service that failed may have changed a channel.
    if send.push.purpose == .changeChannels, rejection.reason.known == .internalServerError {
      return false
    }
    switch RetryRules.verdict(on: rejection, attempts: send.attempts, entropy: entropy()) {
    case .report: return false
    case .elsewhere:
      session.retire()
      resend(send, "", &again)
    case .again(let pause, let isForAll):
      let due = nowMilliseconds + pause
      guard settings.retriesRefusals, due < send.deadlineMilliseconds else { return false }
      if isForAll { heldUntilMilliseconds = max(heldUntilMilliseconds, due) }
      counters.resent += 1
      delayed.append((due, send))
    }
    return true
  }

  // MARK: The end

  /// Accepts no more pushes; existing ones continue.
  func close() { isClosing = true }

  /// Ends all pushes immediately.
  func abandon(nowMilliseconds: UInt64) {
    isClosing = true
    fail(UnknownCause(.clientClosed))
    for session in leaving + sessions {
      session.connectionLost("the client was closed")
      settle(session, nowMilliseconds)
    }
    fail(UnknownCause(.clientClosed))
    leaving = []
    sessions = []
    for job in bulkJobs { job.abandon() }
    bulkJobs = []
  }
}
