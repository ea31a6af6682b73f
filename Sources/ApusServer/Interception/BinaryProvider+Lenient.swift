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

extension BinaryProvider {
  func captured(
    _ frame: BinaryFrame, _ bytes: [UInt8], _ interception: Interception
  ) -> ProviderRequest {
    var captured = ProviderRequest(
      connection: interception.connection, receivedMilliseconds: context.wallMilliseconds)
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
        claims: context.sealer.open(token), directory: context.trust.directory, forgiving: sender)
    }
    let claims = context.sealer.open(token)
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
      intercepted.addExplanation(explanation(of: error))
    }
    guard claims != nil else {
      intercepted.addExplanation(explanation(of: Refusal(.deviceTokenForeign)))
      adopt(intercepted, interception)
      return nil
    }
    return try Admission.admit(
      frame.frame, payload: frame.frame.payload, of: &payloads, token: token, claims: claims,
      directory: context.trust.directory, forgiving: sender)
  }

  func adopt(_ intercepted: InterceptedRequest, _ interception: Interception) {
    guard let sequence = hold(intercepted, interception) else { return }
    interception.adopt(intercepted.request, sequence)
  }

  func adopted(_ token: DeviceToken?, _ sequence: UInt32) {
    guard let interception = intercepting, let intercepted = interception.requests[sequence] else {
      return
    }
    connection.markDirty()
    if throwAwayDead(intercepted, interception, adopted: token) { return }
    decide(intercepted, interception, token.map { .device($0) } ?? .refused)
  }
}

extension Interception {
  func forgive(_ refusal: Refusal, of connection: Connection) -> BinarySender? {
    guard isLenient else { return nil }
    connectionNote = refusal.explanation.text(
      fields: RequestFields(byteCapacity: 0), directory: connection.context.trust.directory)
    return BinarySender(
      unexamined: try? connection.certificateCredential(),
      environment: connection.listener.environment, rules: connection.listener.rules)
  }
}
