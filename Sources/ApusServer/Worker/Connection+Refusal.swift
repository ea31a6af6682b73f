import ApusCore
import ApusLoop
import ApusModel
import ApusTLS
import ApusTrust

// Who is not wanted, for those who look after the service: in its log, and in the audit log.

extension Connection {
  /// Has somebody told when the peer's certificate is near its end. Of providers, who are few, all are looked at.
  func lookAtExpiry() {
    let now = worker.wallSeconds
    guard
      door.kind != .courier
        || tls.peerCertificateEnds(before: now + ExpiryWatch.horizonSeconds),
      let der = tls.peerCertificateDER, let certificate = try? Certificate(der: der.span)
    else { return }
    worker.expiries.look(
      at: .init(
        kind: door.kind == .courier ? .device : .provider,
        name: certificate.subject.userID ?? certificate.subject.commonName ?? certificate.serial,
        notAfter: certificate.notAfter), nowSeconds: now)
  }

  /// A handshake failed because of the certificate that the peer has.
  func noteRefusedHandshake(_ error: TLSError) {
    guard case .certificateRejected(let reason) = error else { return }
    note(.handshakeRefused, reason: reason) { [] }
  }

  /// Says why a provider's connection is not wanted.
  func noteRefusal(_ refusal: Refusal) { noteEnd(refusal, .providerRefused, "provider refused") }

  /// Says why a provider's connection ends that was wanted before.
  func noteRevocation(_ refusal: Refusal) { noteEnd(refusal, .connectionClosed, "provider closed") }

  private func noteEnd(_ refusal: Refusal, _ event: AuditEvent, _ text: StaticString) {
    let reason = refusal.reason.text.description
    let explanation = refusal.explanation.text(
      fields: RequestFields(), directory: worker.trust.directory)
    worker.log(
      .notice, text, .text("peer", peer.description), .text("door", door.name),
      .text("reason", reason), .text("explanation", explanation))
    note(event, reason: reason) { [.text("explanation", explanation)] }
  }

  /// A request whose sender is not trusted was refused; one that is merely wrong concerns nobody else.
  func note(_ refusal: Refusal) {
    guard refusal.reason.status == 403 else { return }
    // None of these says anything of the other fields.
    let explanation = refusal.explanation.text(
      fields: RequestFields(), directory: worker.trust.directory)
    note(.requestRefused, reason: refusal.reason.text.description) {
      [.text("explanation", explanation)]
    }
  }

  /// Says why a device's connection is not wanted, or no more.
  func note(_ event: AuditEvent, device: DeviceID?, reason: String) {
    note(event, reason: reason) { [.text("device", device?.text ?? "unknown")] }
  }

  private func note(_ event: AuditEvent, reason: String, fields: () -> [Log.Field]) {
    worker.audit.note(
      event, actor: peer.description, reason: reason, nowMilliseconds: worker.wallMilliseconds
    ) { [.text("door", door.name)] + fields() }
  }
}
