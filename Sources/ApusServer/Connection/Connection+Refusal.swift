import ApusCore
import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusTLS
import ApusTrust
import ApusWire

// Reports refused and ended connections and rejected requests to the operator: in the log and in the audit log.

extension Connection {
  /// A line that an untrusted peer can cause.
  func logLimited(_ level: Log.Level, _ kind: Log.Kind, _ fields: () -> [Log.Field]) {
    context.log.limited(level, kind, atMilliseconds: context.loop.nowMilliseconds, fields)
  }

  /// Has somebody told when the peer's certificate is near its end. Of providers, who are few, all are looked at.
  func lookAtExpiry() {
    let now = context.wallSeconds
    guard
      listener.kind != .courier
        || tls.peerCertificateEnds(before: now + ExpiryWatch.horizonSeconds),
      let der = tls.peerCertificateDER, context.expiries.isNews(der, nowSeconds: now),
      let certificate = try? Certificate(der: der.span)
    else { return }
    context.expiries.look(
      at: .init(
        kind: listener.kind == .courier ? .device : .provider,
        name: certificate.subject.userID ?? certificate.subject.commonName ?? certificate.serial,
        notAfter: certificate.notAfter, sha256: certificate.fingerprint), nowSeconds: now)
  }

  /// What an operator has to know of a legacy sender whose TLS is too old for this listener. Only the kinds of listener
  /// that legacy senders use can speak old versions.
  var refusedVersionFields: [Log.Field] {
    guard listener.kind == .gateway || listener.kind == .feedback, let version = tls.refusedVersion
    else { return [] }
    return [
      .text("offered", version == .v1_0 ? "TLS 1.0" : "TLS 1.1"),
      .text(
        "remedy", "give legacy senders a listener with +legacy-tls (apus dev: --legacy-tls)"),
    ]
  }

  /// A handshake failed because of the certificate that the peer has.
  func noteRefusedHandshake(_ error: TLSError, _ certificate: RejectedCertificate?) {
    guard let reason = Self.aboutCertificates(error) else { return }
    audit(.handshakeRefused, reason: reason) {
      guard let certificate else { return [] }
      return [
        .text("subject", certificate.subject), .text("issuer", certificate.issuer),
        .text("sha256", String(decoding: Hex.encode(certificate.sha256.span), as: UTF8.self)),
        .text("explanation", Self.remedy(reason)),
      ]
    }
  }

  /// Why no certificate was accepted, one of a closed list; nil where the handshake failed for something else.
  private static func aboutCertificates(_ error: TLSError) -> String? {
    switch error {
    case .certificateRejected(let reason): reason
    case .handshakeFailed(let reason, _) where reason.contains("did not return a certificate"):
      "no certificate"
    case .handshakeFailed(let reason, _) where reason.contains("excessive message size"):
      "certificates too long"
    case .handshakeFailed(let reason, _) where reason.contains("asn1"): "certificate malformed"
    default: nil
    }
  }

  /// What would be right, for the operator. The reasons are OpenSSL's.
  private static func remedy(_ reason: String) -> String {
    switch reason {
    case "certificate has expired": "issue another certificate, or let its owner renew it"
    case "certificate is not yet valid": "check the clocks of both machines"
    case "certificate revoked": "issue another certificate for a new key"
    case "unsupported certificate purpose", "unsuitable certificate purpose":
      "the certificate needs the extended key usage clientAuth"
    case "unhandled critical extension":
      "the certificate has an unknown critical extension: issue it without"
    default:
      "use a certificate of an authority that this listener trusts: authority/service.crt for "
        + "providers, authority/devices.crt for devices"
    }
  }

  /// Says why a provider's connection is refused.
  func noteRefusal(_ refusal: Refusal) { noteEnd(refusal, .providerRefused, .providerRefused) }

  /// Says why a provider's open connection ends.
  func noteRevocation(_ refusal: Refusal) { noteEnd(refusal, .connectionClosed, .providerClosed) }

  private func noteEnd(_ refusal: Refusal, _ event: AuditEvent, _ kind: Log.Kind) {
    let reason = refusal.reason.text.description
    let explanation = refusal.explanation.text(
      fields: RequestFields(), directory: context.trust.directory)
    logLimited(.notice, kind) {
      [
        .text("peer", peer.description), .text("listener", listener.name), .text("reason", reason),
        .text("explanation", explanation),
      ]
    }
    audit(event, reason: reason) {
      [.text("explanation", explanation)] + peerCertificateFields()
    }
  }

  /// What the peer's certificate says of itself: whose it is, for which topic, from which authority.
  private func peerCertificateFields() -> [Log.Field] {
    guard let der = tls.peerCertificateDER else { return [] }
    guard let certificate = try? Certificate(der: der.span) else { return [] }
    return [
      .text("topic", certificate.subject.userID ?? ""),
      .text("team", certificate.subject.organizationalUnit ?? ""),
      .text("sha256", certificate.fingerprint.hex),
    ]
  }

  /// Records a rejected request if the rejection concerns trust or the request is for a known device, so that an
  /// operator finds the explanation. Other rejections concern only the provider, who gets the reason.
  ///
  /// - Parameter id: The `apns-id` that the provider is told.
  func audit(_ refusal: Refusal, id: NotificationID, fields: RequestFields) {
    let device = Self.token(fields.value(.path)).flatMap(context.sealer.open)?.device
    guard refusal.explanation.concernsTrust || device != nil else { return }
    audit(.requestRefused, reason: refusal.reason.text.description) {
      // An untrusted peer chose the topic.
      let topic = fields.value(.apnsTopic).text.prefix(Limits.topicBytes)
      let token = Self.shortened(fields.value(.path))
      let explanation = refusal.explanation.text(fields: fields, directory: context.trust.directory)
      var known: [Log.Field] = [.text("explanation", explanation), .text("id", id.text)]
      if !topic.isEmpty { known.append(.text("topic", String(topic))) }
      if !token.isEmpty { known.append(.text("token", token)) }
      return known + (device.map { context.fields(of: $0) } ?? [])
    }
  }

  private static func token(_ path: Span<UInt8>) -> DeviceToken? {
    guard let last = path.text.split(separator: "/").last else { return nil }
    let digits = Array(last.utf8)
    return DeviceToken(hex: digits.span)
  }

  /// Records what the device's worker rejected, as far as it is about the device.
  func audit(_ rejection: Rejection, id: NotificationID, fields: RequestFields) {
    switch rejection.reason {
    case .unregistered:
      let since = rejection.timestampMilliseconds ?? 0
      audit(Refusal(.inactiveToken(sinceMilliseconds: since)), id: id, fields: fields)
    case .tooManyRequests: audit(Refusal(.tooManyToDevice), id: id, fields: fields)
    default: return
    }
  }

  /// The first digits of the device token in a path. As `DeviceToken.redacted`, for tokens of any kind.
  private static func shortened(_ path: Span<UInt8>) -> String {
    let text = path.text
    guard let slash = text.lastIndex(of: "/") else { return "" }
    let token = text[text.index(after: slash)...]
    return token.isEmpty ? "" : "\(token.prefix(8))…"
  }

  /// The same of a frame, which has no id but the provider's own number.
  func audit(_ refusal: Refusal, of frame: BinaryFrame, token: DeviceToken?) {
    let device = token.flatMap(context.sealer.open)?.device
    guard refusal.explanation.concernsTrust || device != nil else { return }
    audit(.requestRefused, reason: refusal.reason.text.description) {
      let explanation = refusal.explanation.text(
        fields: RequestFields(), directory: context.trust.directory)
      var known: [Log.Field] = [.text("explanation", explanation)]
      if let identifier = frame.identifier { known.append(.number("identifier", identifier)) }
      if let token { known.append(.text("token", token.redacted)) }
      return known + (device.map { context.fields(of: $0) } ?? [])
    }
  }

  /// Says why a device's connection was refused or ended.
  func audit(_ event: AuditEvent, device: DeviceID?, reason: String) {
    audit(event, reason: reason) { context.fields(of: device) }
  }

  private func audit(_ event: AuditEvent, reason: String, fields: () -> [Log.Field]) {
    context.audit.recordRefusal(
      event, actor: peer.description, reason: reason, nowMilliseconds: context.wallMilliseconds
    ) { [.text("listener", listener.name)] + fields() }
  }
}
