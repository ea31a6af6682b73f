import ApusHTTP2
import ApusModel
import ApusWire

extension SendOutcome {
  /// Reads a service's answer to a push: 200, or another status with `reason` in a JSON object, and with status 410
  /// also `timestamp` in milliseconds.
  ///
  /// Source: Handling notification responses from APNs.
  init(answer: HTTP2Response, toPush id: NotificationID, _ purpose: EncodedPush.Purpose) {
    // Channels are created with 201 and deleted with 204 (Sending channel management requests to APNs).
    if answer.status == 200 || purpose != .push && (200..<300).contains(answer.status) {
      self = .accepted(apnsID: id, uniqueID: answer.text(.apnsUniqueID))
      return
    }
    let body = answer.body
    let json = try? JSONValue(parsing: body.span)
    let reason = json?["reason"]?.string
    // A client error without a reason is still a rejection. A proxy's 504 is not: the request may have reached the
    // service.
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
  /// The reason in the debug data; nil if absent or unknown.
  ///
  /// The GOAWAY frame contains JSON data with a `reason` key (Communicating with APNs).
  var reason: Reason? {
    guard let word = try? JSONValue(parsing: debugData.span)["reason"]?.string else { return nil }
    return RejectionReason(rawValue: word).known
  }

  /// The reason, if it means that the service rejects the client's credential. A retry would get the same answer.
  var credentialFault: Reason? { reason.flatMap { $0.status == 403 ? $0 : nil } }

  var text: String {
    reason.map { "the service closed the connection: \($0.text)" }
      ?? "the service closed the connection (HTTP/2 code \(code.rawValue))"
  }
}
