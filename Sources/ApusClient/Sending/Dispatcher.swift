import ApusHTTP2
import ApusModel

/// Brings pushes onto connections, connections into being, and outcomes to callers. No I/O and no clock.
///
/// The driver makes a connection when ``wantsConnection(nowMilliseconds:)`` says so, moves bytes between each
/// connection and its `ProviderSession`, and after that calls ``progress(_:nowMilliseconds:)``.
final class Dispatcher {
  /// Requests that are made of one push, when each was refused unread.
  static let attemptLimit = 4

  private var queue: SendQueue
  private var plan = ConnectPlan()
  /// The connection that pushes are put on.
  private var current: ProviderSession?
  /// Connections that pushes are still on.
  private var leaving: [ProviderSession] = []
  private var fields = RequestFields()
  private let authority: [UInt8]
  private let authorization: () -> [UInt8]?
  private let entropy: () -> UInt64
  private var lastFailure = ""
  private(set) var isClosing = false

  /// - Parameters:
  ///   - authorization: The field's value now; empty where a certificate speaks, nil when it cannot be made.
  ///   - entropy: Random bits.
  init(
    queueCapacity: Int, authority: [UInt8], authorization: @escaping () -> [UInt8]?,
    entropy: @escaping () -> UInt64
  ) {
    queue = SendQueue(capacity: queueCapacity)
    self.authority = authority
    self.authorization = authorization
    self.entropy = entropy
  }

  /// Pushes without an outcome.
  var openCount: Int {
    queue.count + (current?.openCount ?? 0) + leaving.reduce(0) { $0 + $1.openCount }
  }

  // MARK: Pushes

  func add(_ send: PendingSend) {
    if isClosing {
      send.finish(UnknownCause(.clientClosed), retryMayDuplicate: false)
    } else if !queue.append(send) {
      send.finish(
        UnknownCause(.queueFull, "\(queue.capacity) pushes wait"), retryMayDuplicate: false)
    }
  }

  func cancel(_ number: UInt64) {
    for send in queue.take(where: { $0.number == number }) {
      send.finish(UnknownCause(.cancelled), retryMayDuplicate: false)
    }
    current?.cancel(number)
    for session in leaving { session.cancel(number) }
  }

  /// Puts waiting pushes on free streams.
  func fill() {
    guard let current, !queue.isEmpty, current.hasFreeStream else { return }
    guard let authorization = authorization() else {
      return fail(UnknownCause(.signingFailed))
    }
    let authority = authority
    current.fill(
      from: &queue, fields: &fields, authority: authority.span,
      authorization: authorization.span)
  }

  private func fail(_ cause: UnknownCause) {
    for send in queue.takeAll() { send.finish(cause, retryMayDuplicate: false) }
  }

  // MARK: Connections

  /// Whether a connection is to be made now. Asked again after yes, it says no until that one has come to an end.
  func wantsConnection(nowMilliseconds: UInt64) -> Bool {
    guard current == nil, !queue.isEmpty else { return false }
    return plan.wantsConnection(nowMilliseconds: nowMilliseconds)
  }

  /// There is a connection; its bytes go through the session from now on.
  func connected() -> ProviderSession {
    let session = ProviderSession()
    current = session
    plan.connected()
    return session
  }

  /// No connection came into being. `isFinal`: another attempt would come to the same.
  func connectFailed(_ text: String, isFinal: Bool, nowMilliseconds: UInt64) {
    lastFailure = text
    let verdict = plan.failed(
      isFinal: isFinal, entropy: entropy(), nowMilliseconds: nowMilliseconds)
    if verdict == .giveUp { fail(UnknownCause(.connectionFailed, text)) }
  }

  /// Looks at what became of a session after bytes went through it.
  func progress(_ session: ProviderSession, nowMilliseconds: UInt64) {
    settle(session)
    if session.answerCount > 0 { plan.answered() }
    if !session.takesPushes {
      retire(session, session.goAway?.text ?? "the service takes no more requests", nowMilliseconds)
    }
    leaving.removeAll { $0.isDone }
    fill()
  }

  /// The connection under a session is gone.
  func lost(_ session: ProviderSession, _ text: String, isFinal: Bool, nowMilliseconds: UInt64) {
    session.connectionLost(text)
    settle(session)
    retire(session, session.goAway?.text ?? text, nowMilliseconds, isFinal: isFinal)
    leaving.removeAll { $0 === session }
  }

  /// Takes a session out of use.
  private func retire(
    _ session: ProviderSession, _ text: String, _ nowMilliseconds: UInt64, isFinal: Bool = false
  ) {
    guard current === session else { return }
    current = nil
    if !session.isDone { leaving.append(session) }
    if let reason = session.goAway?.credentialFault { refuseAll(reason) }
    if session.answerCount > 0 || isClosing {
      plan.ended()
    } else {
      connectFailed(text, isFinal: isFinal, nowMilliseconds: nowMilliseconds)
    }
  }

  /// The service does not take the credential that all pushes go by.
  private func refuseAll(_ reason: Reason) {
    for send in queue.takeAll() {
      send.finish(
        .rejected(
          PushRejection(
            reason: RejectionReason(reason), status: reason.status, apnsID: send.push.id)))
    }
  }

  private func settle(_ session: ProviderSession) {
    var again: [PendingSend] = []
    session.settle { send, settlement in
      switch settlement {
      case .outcome(let outcome): send.finish(outcome)
      case .sendAgain(let text):
        if send.isFinished { return }
        if send.attempts < Self.attemptLimit {
          again.append(send)
        } else {
          send.finish(UnknownCause(.requestRefused, text), retryMayDuplicate: false)
        }
      }
    }
    // Streams end in no particular order.
    again.sort { $0.number < $1.number }
    queue.putBack(again)
  }

  // MARK: Time and the end

  /// Ends what is overdue. To be called several times a second while there are open pushes.
  func tick(nowMilliseconds: UInt64) {
    let overdue = queue.take { $0.deadlineMilliseconds <= nowMilliseconds }
    for send in overdue {
      send.finish(UnknownCause(.timedOut, waitingText), retryMayDuplicate: false)
    }
    for session in leaving { session.expire(nowMilliseconds: nowMilliseconds) }
    leaving.removeAll { $0.isDone }
    if let current {
      current.expire(nowMilliseconds: nowMilliseconds)
      if !current.takesPushes { retire(current, "no answer came", nowMilliseconds) }
    }
  }

  private var waitingText: String {
    current == nil ? lastFailure : "no stream became free"
  }

  /// Takes no more pushes; those that are here go on.
  func close() { isClosing = true }

  /// Ends all pushes without waiting for anything.
  func abandon() {
    isClosing = true
    fail(UnknownCause(.clientClosed))
    for session in leaving + [current].compactMap(\.self) {
      session.connectionLost("the client was closed")
      settle(session)
    }
    fail(UnknownCause(.clientClosed))
    leaving = []
    current = nil
  }
}
