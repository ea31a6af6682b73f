import ApusHTTP2
import ApusModel
import ApusWire

extension SendOutcome {
  /// Reads the answer of a service to a push.
  ///
  /// "Handling notification responses from APNs": 200, or another status with `reason` in a JSON object, and with
  /// status 410 `timestamp` in milliseconds.
  init(answer: HTTP2Response, to id: NotificationID) {
    if answer.status == 200 {
      self = .accepted(apnsID: id, uniqueID: answer.text(.apnsUniqueID))
      return
    }
    let body = answer.body
    let json = try? JSONValue(parsing: body.span)
    let reason = json?["reason"]?.string
    // A client error without a reason is still a refusal. A proxy's 504 is not: the request may have got through.
    guard reason != nil || (400..<500).contains(answer.status) else {
      self = .unknown(
        UnknownCause(.answerNotUnderstood, "status \(answer.status) without a reason"),
        retryMayDuplicate: true)
      return
    }
    self = .rejected(
      PushRejection(
        reason: RejectionReason(rawValue: reason ?? ""), status: answer.status,
        timestampMilliseconds: json?["timestamp"]?.integer, apnsID: id,
        retryAfterSeconds: answer.retryAfterSeconds))
  }
}

extension HTTP2GoAway {
  /// The reason in the debug data; nil: none, or one that is not known.
  ///
  /// "Communicating with APNs": the GOAWAY frame includes JSON data with a `reason` key.
  var reason: Reason? {
    guard let word = try? JSONValue(parsing: debugData.span)["reason"]?.string else { return nil }
    return RejectionReason(rawValue: word).known
  }

  /// The reason, if it means that the service does not take the client's credential: it would say so again.
  var credentialFault: Reason? { reason.flatMap { $0.status == 403 ? $0 : nil } }

  var text: String {
    reason.map { "the service closed the connection: \($0.text)" }
      ?? "the service closed the connection (HTTP/2 code \(code.rawValue))"
  }
}
