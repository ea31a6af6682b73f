import ApusCore
import ApusDirectory
import ApusLoop
import ApusModel
import ApusStore
import ApusTLS
import ApusTrust
import ApusWire

// The binary interface of the development service in lenient mode: it accepts any certificate, or none, and any device
// token.

extension FeedbackConnection {
  /// For a certificate that the strict service would refuse: the list of the topic that the certificate names, no
  /// matter which team has the app. Nil if no app has the topic.
  static func lenientReader(_ connection: Connection) -> (BinarySender, FeedbackTopic)? {
    let worker = connection.worker
    guard worker.interception?.interceptor.isLenient == true else { return nil }
    let sender = BinarySender(
      unexamined: try? BinaryProvider.credential(connection),
      environment: connection.listener.environment, rules: .standard)
    guard let topic = sender.namedTopic(in: worker.trust.directory) else { return nil }
    return (sender, FeedbackTopic(topic: topic, environment: sender.environment))
  }
}

extension BinaryProvider {
  func captured(
    _ frame: BinaryFrame, _ bytes: [UInt8], _ interception: Interception
  ) -> ProviderRequest {
    var captured = ProviderRequest(
      connection: interception.connection, receivedMilliseconds: worker.wallMilliseconds)
    captured.token = String(
      decoding: Hex.encode(bytes.span.extracting(frame.token)), as: UTF8.self)
    captured.topic = sender.topicText.map { String(decoding: $0, as: UTF8.self) }
    captured.priority = frame.priority.map { String($0) }
    captured.expirationSeconds = frame.expiration.map { Int64($0) }
    captured.command = frame.command.rawValue
    captured.identifier = frame.identifier
    captured.payload = bytes.span.extracting(frame.payload).copied()
    captured.credential = interception.connection.credential
    return captured
  }

  /// For a connection whose certificate the strict service would refuse.
  static func lenientSender(
    _ connection: Connection, _ refusal: Refusal, _ interception: Interception
  ) -> BinarySender {
    interception.connectionNote = refusal.explanation.text(
      fields: RequestFields(byteCapacity: 0), directory: connection.worker.trust.directory)
    return BinarySender(
      unexamined: try? credential(connection), environment: connection.listener.environment,
      rules: connection.listener.rules)
  }

  /// Nil if the frame waits for the interceptor to assign its unknown token to a device.
  func admitLeniently(
    _ frame: InterceptedFrame, _ token: DeviceToken, _ intercepted: InterceptedRequest,
    _ interception: Interception, _ sender: borrowing BinarySender, _ adoption: Adoption
  ) throws(Refusal) -> AdmittedFrame? {
    let bytes = frame.bytes.span
    var payloads = PayloadSeries(bytes)
    if case .device(let token) = adoption {
      return try Admission.admit(
        frame.frame, payload: frame.frame.payload, of: &payloads, token: token,
        claims: worker.sealer.open(token), directory: worker.trust.directory, forgiving: sender)
    }
    let claims = worker.sealer.open(token)
    if case .refused = adoption { throw Refusal(.deviceTokenForeign) }
    do throws(Refusal) {
      return try Admission.admit(
        frame.frame, payload: frame.frame.payload, of: &payloads, token: token, claims: claims,
        sender: sender)
    } catch {
      switch error.explanation {
      case .deviceTokenForeign, .topicUnknown, .certificateTopicMissing, .topicOfOtherTeam: break
      default: throw error
      }
      intercepted.note(explanation(of: error))
    }
    guard claims != nil else {
      intercepted.note(explanation(of: Refusal(.deviceTokenForeign)))
      adopt(intercepted, interception)
      return nil
    }
    return try Admission.admit(
      frame.frame, payload: frame.frame.payload, of: &payloads, token: token, claims: claims,
      directory: worker.trust.directory, forgiving: sender)
  }

  func adopt(_ intercepted: InterceptedRequest, _ interception: Interception) {
    guard let sequence = hold(intercepted, interception) else { return }
    interception.adopt(intercepted.request, sequence)
  }

  func adopted(_ token: DeviceToken?, _ sequence: UInt32) {
    guard let interception, let intercepted = interception.requests[sequence] else { return }
    worker.markDirty(connection)
    if throwAwayDead(intercepted, interception, adopted: token) { return }
    decide(intercepted, interception, token.map { .device($0) } ?? .refused)
  }
}
