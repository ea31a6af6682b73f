import ApusAdmin
import ApusCore
import ApusDirectory
import ApusEnrolment
import ApusLoop
import ApusModel
import ApusTLS
import ApusTrust
import ApusWire

extension CourierConnection {
  private static let renewalLimit = RateLimit(
    capacity: Limits.renewalsPerConnection, refill: 1, perSeconds: 3600)

  // MARK: A first certificate

  /// A device without a certificate asks for one; the connection ends with the answer.
  func enrol(_ request: CourierEnrolmentRequest) {
    stage = .enrolling
    let issuing = CertificateIssuing()
    issuing.isAsked = true
    self.issuing = issuing
    connection.schedule.deadlineSeconds = context.nowSeconds + UInt64(Limits.enrolmentSeconds)
    connection.watch()
    ask(
      .enrolment(code: request.code, name: request.name, tags: request.tags),
      request.certificateRequest)
  }

  private func enrolled(_ issuance: CourierIssuance) {
    guard stage == .enrolling, let issuing, issuing.isAsked else { return }
    issuing.isAsked = false
    guard issuance.status == .refused else { return answer(issuance) }
    // A refusal is sent with a tick of the clock, at least a second later: its time does not reveal which check failed,
    // and it slows down guessing.
    issuing.held = issuance
    connection.schedule.deadlineSeconds = context.nowSeconds + 2
    connection.watch()
  }

  private func answer(_ issuance: CourierIssuance) {
    CourierEnrolmentAnswer(issuance).encode(to: &output)
    end(reason: "the request for a certificate is answered")
    connection.markDirty()
  }

  func enrolmentDeadlineReached() {
    if let held = issuing?.held.take() { return answer(held) }
    if !isStopping { context.ended.count(.untrustedTime) }
    end(reason: stopReason?.rawValue ?? "the request for a certificate took too long")
  }

  // MARK: The next one

  /// A connected device asks for a certificate to follow its own.
  func renew(_ request: CourierRenewalRequest, _ device: Device) {
    let now = Int64(context.loop.nowMilliseconds)
    let issuing = issuing ?? CertificateIssuing()
    self.issuing = issuing
    guard !issuing.isAsked, let presented, let certificate,
      Self.renewalLimit.take(from: &issuing.renewals, atMilliseconds: now)
    else {
      context.enrolment?.noteAskedTooOften(
        at: connection.peer.site, nowSeconds: context.wallSeconds)
      let wait = Self.renewalLimit.waitMilliseconds(for: issuing.renewals, atMilliseconds: now)
      return renewed(
        CourierIssuance(
          status: .refused, reason: .tooMany, text: Array("too many requests".utf8),
          retrySeconds: UInt32(clamping: max(wait / 1000, 60))))
    }
    issuing.isAsked = true
    ask(
      .renewal(
        EnrolmentQuery.Renewal(
          device: device.key.id, keyFingerprint: device.keyFingerprint, names: certificate.names,
          certificate: presented, isOfOlderAuthority: isOfOlderAuthority)),
      request.certificateRequest)
  }

  private func renewed(_ issuance: CourierIssuance) {
    issuing?.isAsked = false
    guard device != nil else { return }
    CourierRenewalAnswer(issuance).encode(to: &output)
    connection.markDirty()
    guard issuance.status == .accepted, stage == .serving, isOfOlderAuthority else { return }
    // It comes back with the new one, while the old one would still do: then the service knows that it has it.
    stopReason = .renewed
    connection.schedule.deadlineSeconds = context.nowSeconds + Self.renewedSeconds
    connection.watch()
  }

  /// Seconds in which a device may put its certificate away.
  private static let renewedSeconds: UInt64 = 2

  // MARK: While one authority follows another

  /// Whether the certificate is of another authority than the one that issues now: worth nothing once the older ones
  /// are dropped.
  private var isOfOlderAuthority: Bool {
    let authorities = context.trust.deviceAuthorities.marks
    guard authorities.count > 1, presented != nil else { return false }
    return certificate?.authority != authorities[0]
  }

  /// Tells a device of an older authority to ask for a certificate of the new one. With its connect message, and with
  /// the next frame after a change: devices speak at moments of their own, and no second has to judge all of them.
  func adviseRenewal() {
    authorityGeneration = context.authorityGeneration
    guard dialect.allowsExtensions, context.enrolment != nil, isOfOlderAuthority else { return }
    // Twice as long as the queue needs for all that are connected.
    let connections = connection.table.count * context.workerCount
    CourierRenewalAdvice(
      withinSeconds: UInt32(clamping: 1 + 2 * connections / Limits.enrolmentsPerSecond)
    ).encode(to: &output)
  }

  // MARK: The queue

  private func ask(_ kind: EnrolmentQuery.Kind, _ request: [UInt8]) {
    let query = EnrolmentQuery(
      kind: kind, certificateRequest: request, site: connection.peer.site, trust: context.trust,
      nowSeconds: context.wallSeconds)
    guard let queue = context.enrolment else {
      return take(EnrolmentQueue.notOffered)
    }
    let (table, loop, entry) = (connection.table, context.loop, connection.entry)
    queue.submit(query, atMilliseconds: Int64(loop.nowMilliseconds)) { issuance in
      loop.perform { (table.connection(entry)?.driver as? CourierConnection)?.take(issuance) }
    }
  }

  /// Takes the queue's answer.
  private func take(_ issuance: CourierIssuance) {
    if stage == .enrolling { enrolled(issuance) } else { renewed(issuance) }
  }
}
