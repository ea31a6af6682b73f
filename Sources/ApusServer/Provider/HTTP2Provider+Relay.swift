import ApusCore
import ApusDirectory
import ApusHTTP2
import ApusLog
import ApusLoop
import ApusModel
import ApusStore
import ApusTrust
import ApusWire

// Requests whose device token another service issued: forwarded to the app's upstream, and answered as upstream
// answers. The provider shows a credential of this service; that of upstream never leaves it.

extension HTTP2Provider {
  /// Forwards a request whose device token another service issued, if its app has an upstream. False for any other
  /// request, which is then judged as usual.
  ///
  /// - Parameter grant: What the credential allows; nil for everything.
  func relays(
    _ request: HTTP2Request, _ content: borrowing RequestRecord, _ grant: Grant?,
    _ directory: Directory
  ) throws(Refusal) -> Bool {
    let links = providers.requestLinks
    guard !context.trust.upstreams.isEmpty, links != nil || context.configuration.relay != nil,
      let token = Admission.tokenOfAnyService(content.fields), !isOwn(token)
    else { return false }
    let head = try Admission.examine(
      content.fields, connection: sender, directory: directory,
      bodyByteCount: request.bodyByteCount, body: request.bodyBytes,
      substitute: DeviceToken(words: (0, 0, 0, 0)))
    guard let topic = head.topic, let upstream = context.trust.upstreams[topic.key.app] else {
      return false
    }
    if let links {
      forward(request, links)
      return true
    }
    guard let relay = context.configuration.relay else { return false }
    let notification = try Admission.relayed(
      head, content.fields, token: token,
      grant: grant ?? Grant(team: topic.team, scope: .team), connection: sender,
      directory: directory, body: request.bodyBytes, id: context.ids.next())
    let seconds = relay.admit(topic.key.app)
    if seconds == 0 {
      forward(request, notification, relay, spools: upstream.spools)
    } else {
      answer(request, notification.id, .tooManyRequests, afterSeconds: seconds)
      interception?.rejected(
        request, Rejection(.tooManyRequests), notification.id, of: self)
      session.release(request)
    }
    return true
  }

  /// Whether this service issued the token, or a test of a credential uses it (``Explanation/deviceTokenOfProbe``).
  private func isOwn(_ token: [UInt8]) -> Bool {
    guard let token = DeviceToken(bytes: token.span) else { return false }
    return token.isZero || context.sealer.open(token) != nil
  }

  private func forward(
    _ request: HTTP2Request, _ notification: RelayedNotification, _ relay: any UpstreamRelay,
    spools: Bool
  ) {
    undecidedCount += 1
    let accepted = context.wallMilliseconds
    let facts = notification.facts(context.shared.order.next() ?? 0, .http2)
    let (loop, waiting) = (context.loop, WaitingRequest(provider: self, request: request))
    relay.forward(notification) { answer in
      let answered = { @Sendable (answer: UpstreamAnswer, isKept: Bool) in
        loop.perform { waiting.provider.relayed(waiting.request, facts, answer, isKept: isKept) }
      }
      guard spools, answer.mayBeRepeated else { return answered(answer, false) }
      let kept = KeptNotification(
        notification: notification, acceptedMilliseconds: accepted,
        waiter: .request { isKept in
          answered(isKept ? .accepted(uniqueID: nil) : answer, isKept)
        })
      if relay.isFull || !relay.keep(kept) { answered(answer, false) }
    }
  }

  /// Upstream has answered, or never will.
  ///
  /// - Parameter isKept: Whether the relay has the notification, and records its end.
  private func relayed(
    _ request: HTTP2Request, _ facts: NotificationFacts, _ answer: UpstreamAnswer, isKept: Bool
  ) {
    undecidedCount -= 1
    defer { session.release(request) }
    let id = facts.id
    if !isKept, let state = answer.stateOfForwarded {
      shard.noteForwarded(state, UpstreamCause(answer), facts)
    }
    guard !isClosed else { return }
    interception?.forwarded(request, answer, facts, of: self)
    switch answer {
    case .accepted(let unique):
      let unique = Array((unique ?? "").utf8)
      session.accept(request, id, unique: unique.span)
    case .rejected(let rejection): reject(request, id, rejection)
    case .unknown(let mayHaveArrived): answerUnknown(request, id, mayHaveArrived: mayHaveArrived)
    }
    connection.markDirty()
  }

  private func reject(
    _ request: HTTP2Request, _ id: NotificationID, _ rejection: UpstreamRejection
  ) {
    guard !rejection.concernsCredential else {
      return answer(request, id, .serviceUnavailable, afterSeconds: Limits.relayRetrySeconds)
    }
    session.respond(
      request, status: rejection.status, id, retryAfterSeconds: rejection.retryAfterSeconds,
      body: RejectionBody.bytes(of: rejection))
    if let known = rejection.known, rejection.status < 500 { count(known) }
  }

  /// There is no answer. If the notification may have arrived, no status would be true: the stream is reset, and the
  /// provider decides whether to risk a duplicate, as after a lost connection.
  private func answerUnknown(
    _ request: HTTP2Request, _ id: NotificationID, mayHaveArrived: Bool
  ) {
    guard mayHaveArrived else {
      return answer(request, id, .serviceUnavailable, afterSeconds: Limits.relayRetrySeconds)
    }
    session.reset(request, code: .internalError)
  }

  private func answer(
    _ request: HTTP2Request, _ id: NotificationID, _ reason: Reason, afterSeconds seconds: Int
  ) {
    session.respond(
      request, status: reason.status, id, retryAfterSeconds: seconds,
      body: RejectionBody.bytes(of: Rejection(reason)))
  }
}

extension HTTP2ServerSession {
  /// A rejection by upstream; with the id as the provider spelled it where it gave one, else `id`.
  fileprivate func respond(
    _ request: HTTP2Request, status: UInt16, _ id: NotificationID, retryAfterSeconds: Int?,
    body: [UInt8]
  ) {
    let given = request.value(.apnsID)
    let own = IDText(id)
    respond(
      request, status: status, .apnsID, id: given.isEmpty ? own.span : given,
      retryAfterSeconds: retryAfterSeconds, body: body.span)
  }
}

extension RejectionBody {
  /// As upstream sent it.
  fileprivate static func bytes(of rejection: UpstreamRejection) -> [UInt8] {
    if let known = rejection.known {
      return bytes(
        of: Rejection(known, timestampMilliseconds: rejection.timestampMilliseconds))
    }
    guard !rejection.reason.isEmpty else { return [] }
    return JSONValue.members([
      "reason": .string(rejection.reason),
      "timestamp": rejection.timestampMilliseconds.map { .integer($0) },
    ]).bytes
  }
}

extension UpstreamAnswer {
  /// How a notification ended whose provider waited; nil if it was not accepted anywhere, and the provider learns that.
  fileprivate var stateOfForwarded: DeliveryState? {
    switch self {
    case .accepted: .acceptedUpstream
    case .rejected(let rejection): rejection.concernsCredential ? nil : .rejectedUpstream
    case .unknown(let mayHaveArrived): mayHaveArrived ? .unansweredUpstream : nil
    }
  }

  /// Whether upstream has certainly not accepted the notification, and may accept it later.
  fileprivate var mayBeRepeated: Bool {
    switch UpstreamVerdict(self) {
    case .later, .misconfigured, .again(mayDuplicate: false): true
    case .accepted, .badToken, .dead, .refused, .again(mayDuplicate: true): false
    }
  }
}
