import ApusCore
import ApusDirectory
import ApusHTTP2
import ApusLoop
import ApusModel
import ApusTLS
import ApusTrust

// The development service in lenient mode: it accepts any well-formed credential, topic and device token, and notes
// what the strict service would have rejected.

/// The interceptor's answer to which device an unknown token stands for.
enum Adoption {
  case notAsked
  case device(DeviceToken)
  case refused
}

extension HTTP2Provider {
  /// Replaces `decide`.
  func decideLeniently(
    _ request: HTTP2Request, _ intercepted: InterceptedRequest, _ adoption: Adoption
  ) {
    do throws(Refusal) {
      try judgeLeniently(request, request.content, intercepted, adoption)
    } catch {
      refuse(request, error)
    }
  }

  private func judgeLeniently(
    _ request: HTTP2Request, _ content: borrowing RequestRecord, _ intercepted: InterceptedRequest,
    _ adoption: Adoption
  ) throws(Refusal) {
    try Admission.examineHead(content.fields, headerListTooLarge: request.headerListTooLarge)
    let grant = try authenticateLeniently(request, content, intercepted)
    if try relays(request, content, nil, context.trust.directory) { return }
    let head: AdmittedHead
    do throws(Refusal) {
      head = try examine(request, content, adoption)
    } catch {
      guard case .notAsked = adoption, case .deviceTokenLength = error.explanation,
        Self.isWellFormed(token: intercepted.request.token)
      else { throw error }
      report(error.explanation, content, intercepted)
      return adopt(request, intercepted)
    }
    let claims = context.sealer.open(head.token)
    if case .notAsked = adoption, claims == nil || head.topic == nil {
      if head.topic == nil { report(.topicUnknown, content, intercepted) }
      if claims == nil { report(.deviceTokenForeign, content, intercepted) }
      return adopt(request, intercepted)
    }
    let admitted = try admit(head, claims, grant, content, intercepted)
    accept(request, head, admitted)
  }

  private func examine(
    _ request: HTTP2Request, _ content: borrowing RequestRecord, _ adoption: Adoption
  ) throws(Refusal) -> AdmittedHead {
    let directory = context.trust.directory
    guard case .device(let token) = adoption else {
      return try Admission.examine(
        content.fields, connection: sender, directory: directory,
        bodyByteCount: request.bodyByteCount, body: request.bodyBytes)
    }
    return try Admission.examine(
      content.fields, connection: sender, directory: directory,
      bodyByteCount: request.bodyByteCount, body: request.bodyBytes, substitute: token)
  }

  // MARK: Credentials

  /// What a credential grants. Nil if the strict service would reject it: lenient mode then grants everything.
  func authenticateLeniently(
    _ request: HTTP2Request, _ content: borrowing RequestRecord, _ intercepted: InterceptedRequest
  ) throws(Refusal) -> Grant? {
    do throws(Refusal) {
      return try authenticate(request, content, context.trust.directory)
    } catch {
      try forgive(error, request, content, intercepted)
      try raiseStreamLimit()
      return nil
    }
  }

  private func forgive(
    _ refusal: Refusal, _ request: HTTP2Request, _ content: borrowing RequestRecord,
    _ intercepted: InterceptedRequest
  ) throws(Refusal) {
    guard let interception = intercepting else { throw refusal }
    // With a certificate that names no topic a provider token may be missing; lenient mode requires none.
    if case .authorizationMissing = refusal.explanation, interception.connection.credential != nil {
      return
    }
    guard !sender.hasCertificate else { return report(refusal.explanation, content, intercepted) }
    guard let token = providerToken(of: request, interception),
      let issuedAtSeconds = token.issuedAtSeconds
    else { throw refusal }
    if let explanation = VerifiedToken.ageExplanation(
      issuedAtSeconds: issuedAtSeconds, nowSeconds: context.wallSeconds)
    {
      throw Refusal(explanation)
    }
    report(refusal.explanation, content, intercepted)
  }

  // MARK: Topics and tokens

  private func admit(
    _ head: borrowing AdmittedHead, _ claims: TokenClaims?, _ grant: Grant?,
    _ content: borrowing RequestRecord, _ intercepted: InterceptedRequest
  ) throws(Refusal) -> TokenClaims {
    let directory = context.trust.directory
    guard let topic = head.topic else {
      throw Refusal(claims == nil ? .deviceTokenForeign : .topicUnknown)
    }
    let everything = Grant(team: topic.team, scope: .team)
    do throws(Refusal) {
      return try Admission.admit(
        head, claims: claims, grant: grant ?? everything, connection: sender, directory: directory)
    } catch {
      guard error.explanation.isForgivable else { throw error }
      report(error.explanation, content, intercepted)
      return try Admission.admit(
        head, claims: claims, grant: everything, connection: sender, directory: directory)
    }
  }

  /// Length in bytes of the longest device token that Apple announces.
  private static let tokenBytes = 100

  static func isWellFormed(token: String) -> Bool {
    let digits = token.utf8
    return digits.count.isMultiple(of: 2) && (2...2 * tokenBytes).contains(digits.count)
      && digits.allSatisfy { hexValue($0) != nil }
  }

  func report(
    _ explanation: Explanation, _ content: borrowing RequestRecord,
    _ intercepted: InterceptedRequest
  ) {
    intercepted.addExplanation(
      explanation.text(fields: content.fields, directory: context.trust.directory))
  }

  // MARK: Adoption

  /// Asks the interceptor for the device; the request waits for the answer.
  func adopt(_ request: HTTP2Request, _ intercepted: InterceptedRequest) {
    intercepted.held = request
    intercepting?.adopt(intercepted.request, Self.key(request))
  }

  func adopted(_ token: DeviceToken?, _ key: UInt32) {
    guard let interception = intercepting, let intercepted = interception.requests[key],
      let request = release(intercepted)
    else { return }
    connection.markDirty()
    if answerDead(request, intercepted, interception, adopted: token) { return }
    decideLeniently(request, intercepted, token.map { .device($0) } ?? .refused)
  }
}

extension Interception {
  func forgive(_ refusal: Refusal, of connection: Connection) -> ProviderConnection {
    let environment = connection.listener.environment
    connectionNote = refusal.explanation.text(
      fields: RequestFields(byteCapacity: 0), directory: connection.context.trust.directory)
    guard let der = connection.tls.peerCertificateDER,
      let certificate = try? CertificateCredential(
        der: der.span, authorities: connection.listener.authorities)
    else { return ProviderConnection(environment: environment) }
    return ProviderConnection(environment: environment, refused: certificate)
  }
}
