import ApusCore
import ApusLoop
import ApusModel
import ApusTLS
import ApusWire

/// A connection's request for a certificate.
struct CertificateIssuing {
  /// Whether the desk has it.
  var isAsked = false
  /// A refusal that waits for its time.
  var held: CourierIssuance?
  var renewals = RateLimit.Bucket()
}

extension CourierConnection {
  private static let renewalLimit = RateLimit(
    capacity: Limits.renewalsPerConnection, refill: 1, perSeconds: 3600)

  // MARK: A first certificate

  /// A device without a certificate asks for one; the connection ends with the answer.
  func enrol(_ request: CourierEnrolmentRequest) {
    stage = .enrolling
    issuing.isAsked = true
    connection.deadlineSeconds = worker.nowSeconds + UInt64(Limits.enrolmentSeconds)
    worker.watch(connection)
    ask(.enrolment(code: request.code, name: request.name), request.certificateRequest)
  }

  private func enrolled(_ issuance: CourierIssuance) {
    guard stage == .enrolling, issuing.isAsked else { return }
    issuing.isAsked = false
    guard issuance.status == .refused else { return answer(issuance) }
    // A refusal leaves with a tick of the clock, a second later at the least: then nobody can tell by its time what it
    // was that did not fit, and who guesses waits.
    issuing.held = issuance
    connection.deadlineSeconds = worker.nowSeconds + 2
    worker.watch(connection)
  }

  private func answer(_ issuance: CourierIssuance) {
    CourierEnrolmentAnswer(issuance).encode(to: &output)
    end(reason: "the request for a certificate is answered")
    worker.markDirty(connection)
  }

  func enrolmentDeadlineReached() {
    if let held = issuing.held {
      issuing.held = nil
      return answer(held)
    }
    end(reason: isStopping ? Self.stopReason : "the request for a certificate took too long")
  }

  // MARK: The next one

  /// A connected device asks for a certificate to follow its own.
  func renew(_ request: CourierRenewalRequest, _ device: Device) {
    let now = Int64(worker.loop.nowMilliseconds)
    guard !issuing.isAsked, let certificate = connection.tls.peerCertificateDER,
      Self.renewalLimit.take(from: &issuing.renewals, atMilliseconds: now)
    else {
      let wait = Self.renewalLimit.waitMilliseconds(for: issuing.renewals, atMilliseconds: now)
      return renewed(
        CourierIssuance(
          status: .refused, reason: .tooMany, text: Array("asked too often".utf8),
          retrySeconds: UInt32(clamping: max(wait / 1000, 60))))
    }
    issuing.isAsked = true
    ask(.renewal(device.key.id, certificateDER: certificate), request.certificateRequest)
  }

  private func renewed(_ issuance: CourierIssuance) {
    issuing.isAsked = false
    guard device != nil else { return }
    CourierRenewalAnswer(issuance).encode(to: &output)
    worker.markDirty(connection)
  }

  // MARK: The desk

  private func ask(_ kind: EnrolmentQuery.Kind, _ request: [UInt8]) {
    let query = EnrolmentQuery(
      kind: kind, certificateRequest: request, site: connection.peer.site, trust: worker.trust,
      nowSeconds: worker.wallSeconds)
    guard let desk = worker.enrolment else {
      return take(EnrolmentDesk.notOffered)
    }
    let (worker, slot, generation) = (worker, connection.slot, connection.generation)
    desk.submit(query, atMilliseconds: Int64(worker.loop.nowMilliseconds)) { issuance in
      worker.loop.perform {
        worker.connection(slot: slot, generation: generation)?.issued(issuance)
      }
    }
  }

  /// Takes the desk's answer up.
  func take(_ issuance: CourierIssuance) {
    if stage == .enrolling { enrolled(issuance) } else { renewed(issuance) }
  }
}

extension Connection {
  /// The request for a certificate on this connection was decided.
  fileprivate func issued(_ issuance: CourierIssuance) {
    guard case .courier(let courier) = driver else { return }
    courier.take(issuance)
  }
}
