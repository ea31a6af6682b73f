import ApusCore
import ApusHTTP2
import ApusModel
import ApusTrust
import ApusWire

// The development service in front of an upstream: what goes there is recorded, too.

extension HTTP2Provider {
  func noteForwarded(
    _ request: HTTP2Request, _ answer: UpstreamAnswer, _ facts: NotificationFacts
  ) {
    report(request, status: answer.statusForProvider) { exchange in
      exchange.apnsID = answerID(of: request, facts.id)
      switch answer {
      case .accepted(let unique):
        exchange.uniqueID = unique
        exchange.notificationID = facts.id
      case .rejected(let rejection) where rejection.concernsCredential:
        exchange.reason = "\(Reason.serviceUnavailable.text)"
        exchange.explanation =
          "upstream rejects the credential for it: \(rejection.status) \(rejection.reason)"
      case .rejected(let rejection):
        exchange.reason = rejection.reason.isEmpty ? nil : rejection.reason
        exchange.explanation = "upstream rejects it"
        exchange.timestampMilliseconds = rejection.timestampMilliseconds
      case .unknown(mayHaveArrived: true):
        exchange.explanation = "upstream did not answer: the stream is reset"
      case .unknown(mayHaveArrived: false):
        exchange.reason = "\(Reason.serviceUnavailable.text)"
        exchange.explanation = "upstream cannot be reached"
      }
    }
  }
}

extension UpstreamAnswer {
  /// The status of the response to the provider; 0 if there is none.
  fileprivate var statusForProvider: Int {
    switch self {
    case .accepted: 200
    case .rejected(let rejection) where rejection.concernsCredential: 503
    case .rejected(let rejection): Int(rejection.status)
    case .unknown(let mayHaveArrived): mayHaveArrived ? 0 : 503
    }
  }
}

extension BinaryProvider {
  /// Keeps a frame for upstream, if its device token is of another service and its app has one. A rejection that comes
  /// late lists the token for the feedback service; there is no error packet.
  func keepForUpstream(
    _ frame: InterceptedFrame, _ token: DeviceToken, _ intercepted: InterceptedRequest,
    _ interception: Interception
  ) throws(Refusal) -> Bool {
    guard context.sealer.open(token) == nil, let relay = beginRelaying() else { return false }
    let bytes = frame.bytes.span
    var payloads = PayloadSeries(bytes)
    let notification = try Admission.relayed(
      frame.frame, payload: frame.frame.payload, of: &payloads,
      bytes: bytes.extracting(frame.frame.payload), token: token, sender: sender,
      id: context.ids.next())
    guard let sequence = hold(intercepted, interception) else { return false }
    intercepted.id = notification.id
    let kept = KeptNotification(
      notification: notification, acceptedMilliseconds: context.wallMilliseconds,
      waiter: .frame(answer(to: sequence)))
    if !relay.keep(kept) { finish(sequence, rejection: Rejection(.serviceUnavailable)) }
    return true
  }
}
