import ApusCore
import ApusDirectory
import ApusLoop
package import ApusModel
package import ApusTrust
import ApusWire

/// The result of a query: the response to the device, and the event for the operator.
struct EnrolmentDecision: Sendable {
  var issuance: CourierIssuance
  var event: EnrolmentEvent
}

/// Decides on certificate requests. It reads and writes files and signs, so call it on a thread of its own.
struct Enroller: Sendable {
  let directory: DataDirectory
  let mode: EnrolmentMode
  /// Days for which issued certificates are valid.
  let days: Int
  let labels: LabelRegister

  func decide(_ query: EnrolmentQuery) -> EnrolmentDecision {
    let request: CertificateRequest
    do {
      request = try CertificateRequest(der: query.certificateRequest.span)
    } catch {
      return refuse(.request, "\(error)", .request, "\(error)")
    }
    do {
      switch query.kind {
      case .enrolment(let code, let name, let tags):
        guard let name = Self.name(name) else {
          return refuse(.request, "the name is not valid in a certificate", .name)
        }
        guard let own = Self.tags(tags) else {
          return refuse(.request, "a tag is not \(DeviceTag.form)", .request, "malformed tag")
        }
        if code.isEmpty { return try askOperator(request, name: name, tags: own, query) }
        return try useCode(code, request, name: name, tags: own, query)
      case .renewal(let renewal): return try renew(renewal, request, query)
      }
    } catch {
      return unavailable("\(error)")
    }
  }

  /// Removes expired codes, old requests and renewals, and leftover temporary files.
  func prune(nowSeconds: Int64) throws {
    for folder in [directory.enrolmentCodes.path, directory.pendingEnrolments.path] {
      try DurableFile.removeLeftovers(in: folder, nowSeconds: nowSeconds)
    }
    try directory.enrolmentCodes.prune(nowSeconds: nowSeconds)
    try directory.pendingEnrolments.prune(nowSeconds: nowSeconds)
    try directory.renewals.prune(nowSeconds: nowSeconds, days: days)
  }

  // MARK: Enrolment by code

  private func useCode(
    _ text: [UInt8], _ request: CertificateRequest, name: String, tags own: [DeviceTag],
    _ query: EnrolmentQuery
  ) throws -> EnrolmentDecision {
    guard let code = EnrolmentCode(text: text.span) else { return refuseCode(.codeMalformed) }
    let codes = directory.enrolmentCodes
    let key = request.keyFingerprint.hex
    switch try codes.standing(code, key: key, nowSeconds: query.nowSeconds) {
    case .unknown: return refuseCode(.codeUnknown)
    case .expired: return refuseCode(.codeExpired)
    case .usedUp: return refuseCode(.codeUsedUp)
    case .used(let record, let use):
      let tags = record.tags(with: own)
      guard let der = use.certificateDER else {
        return try useList(
          request, device: use.device, name: record.name ?? name, tags: tags, hasCode: true, query)
      }
      try directory.pendingEnrolments.remove(key)
      // A crash may have come between the certificate and the labels.
      if labels.currentIndex().labels(of: use.device).isEmpty {
        try label(use.device, record.name ?? name, tags, query.trust)
      }
      return sendAgain(der, of: use.device, .repeated(use.device), query)
        ?? refuseCode(.codeDeviceRemoved)
    case .free(let record, let number):
      let device = DeviceID(randomID().high)
      let name = record.name ?? name
      let tags = record.tags(with: own)
      var use = EnrolmentCodes.Use(
        key: key, device: device, seconds: query.nowSeconds, certificateDER: nil)
      guard
        let certificate = try issue(request, device, name: name, nowSeconds: query.nowSeconds)
      else {
        // Queue the request before using the code: if queueing fails, the code must stay valid.
        let decision = try useList(
          request, device: device, name: name, tags: tags, hasCode: true, query)
        guard decision.issuance.status == .pending else { return decision }
        return try codes.take(code, use: number, use) ? decision : refuseCode(.codeUsedUp)
      }
      use.certificateDER = certificate.der
      // Must be durable before the certificate is sent.
      guard try codes.take(code, use: number, use) else { return refuseCode(.codeUsedUp) }
      // The device may have a pending request from before it had the code; approving that would create a second device.
      try directory.pendingEnrolments.remove(key)
      try label(device, name, tags, query.trust)
      return accept(
        certificate.der, .codeUsed(device, CertificateNote(certificate), codeName: record.name))
    }
  }

  /// All refusals have the same text, so that guessing reveals nothing. The operator sees the reason.
  private func refuseCode(_ refusal: EnrolmentEvent.Refusal) -> EnrolmentDecision {
    refuse(.code, "the code is not accepted", refusal)
  }

  // MARK: Enrolment by the operator

  private func askOperator(
    _ request: CertificateRequest, name: String, tags: [DeviceTag], _ query: EnrolmentQuery
  ) throws -> EnrolmentDecision {
    guard mode == .all || directory.hasPendingRequest(request) else {
      return refuse(
        .notOffered, "this service enrols devices only with a code", .notOffered)
    }
    return try useList(
      request, device: DeviceID(randomID().high), name: name, tags: tags, hasCode: false, query)
  }

  /// Returns the operator's decision on the request, or adds the request to the list.
  private func useList(
    _ request: CertificateRequest, device: DeviceID, name: String, tags: [DeviceTag] = [],
    hasCode: Bool, renewing presented: CertificateNames? = nil, _ query: EnrolmentQuery
  ) throws -> EnrolmentDecision {
    let list = directory.pendingEnrolments
    let key = request.keyFingerprint.hex
    let isRenewal = presented != nil
    if let known = try list.find(key), known.isRenewal == isRenewal,
      // Unless the device already presents that certificate: then the decision was about an earlier renewal.
      presented == nil || known.state.fingerprint != presented?.fingerprint
    {
      switch known.state {
      case .approved(let der):
        return sendAgain(der, of: known.device, .collected(known.device), query)
          ?? refuse(.retired, "the device is retired", .retired, known.device.text)
      case .rejected: return refuse(.rejected, "the operator has rejected the request", .rejected)
      case .waiting: return wait(known, isNew: false, query)
      }
    } else {
      // The old decision was about another request of the same key.
      try list.remove(key)
    }
    let new = PendingEnrolments.Request(
      key: key, name: name, address: query.site.hostText, seconds: query.nowSeconds,
      device: device, isRenewal: isRenewal, hasCode: hasCode, tags: tags)
    switch try list.add(new, request) {
    case .added: return wait(new, isNew: true, query)
    case .full:
      return refuse(
        .tooMany, "too many requests wait for approval", .listFull,
        retrySeconds: Limits.enrolmentRetrySeconds.upperBound)
    case .tooManyFromAddress:
      return refuse(
        .tooMany, "too many requests from this address wait for approval", .listFull,
        retrySeconds: Limits.enrolmentRetrySeconds.upperBound)
    }
  }

  /// Retries become less frequent the longer the request waits.
  private func wait(
    _ request: PendingEnrolments.Request, isNew: Bool, _ query: EnrolmentQuery
  ) -> EnrolmentDecision {
    let range = Limits.enrolmentRetrySeconds
    let age = max(0, query.nowSeconds - request.seconds)
    let retry = min(max(range.lowerBound, age / 4), range.upperBound)
    return EnrolmentDecision(
      issuance: CourierIssuance(
        status: .pending, text: Array("the request waits for the operator's approval".utf8),
        retrySeconds: UInt32(retry)),
      event: .pending(request, isNew: isNew))
  }

  // MARK: Renewal

  private func renew(
    _ renewal: EnrolmentQuery.Renewal, _ request: CertificateRequest, _ query: EnrolmentQuery
  ) throws -> EnrolmentDecision {
    let (device, old) = (renewal.device, renewal.certificate)
    guard isAdmitted(device, renewal.names, query.trust) else {
      return refuse(.retired, "the device is retired", .retired, device.text)
    }
    // Only in the last third of its lifetime, so that a device does not replace its certificate with each connection.
    let due = old.notAfter - (old.notAfter - old.notBefore) / 3
    // Or at once if its authority is being replaced: then the certificate becomes invalid before it expires.
    guard query.nowSeconds >= due || renewal.isOfOlderAuthority else {
      return refuse(
        .early, "the certificate is not in the last third of its lifetime", .early, device.text,
        retrySeconds: due - query.nowSeconds)
    }
    let presented = PresentedRecord(renewal, query.trust)
    var known = try directory.renewals.known(of: device).good(
      query.trust, nowSeconds: query.nowSeconds)
    known.remember(presented)
    if let approved = try approval(of: request), approved != renewal.names.fingerprint,
      known.include(approved)
    {
      // It counts already, so the device gets it before the others are counted.
      return try askOperator(toRenew: renewal, request, query)
    }
    if let next = known.issued.last, CertificateNames(next) != renewal.names,
      next.spkiDER == request.publicKey.spkiDER, query.trust.isOfNewestDeviceAuthority(next)
    {
      // The response was lost, or the device asks with each connection: send the same certificate again.
      return accept(next.der, .repeated(device))
    }
    guard known.count < Limits.certificatesPerDevice else {
      return refuseThird(device, known, presented: renewal.names, query)
    }
    guard
      let certificate = try issue(
        request, device, name: old.commonName ?? DeviceName.unnamed, nowSeconds: query.nowSeconds)
    else {
      // The operator's approval counts it as well.
      try directory.renewals.remember(
        presented, of: device, trust: query.trust, nowSeconds: query.nowSeconds)
      return try askOperator(toRenew: renewal, request, query)
    }
    // Must be durable before the certificate is sent.
    guard
      try directory.renewals.add(
        certificate, presented: presented, of: device, trust: query.trust,
        nowSeconds: query.nowSeconds)
    else { return refuseThird(device, known, presented: renewal.names, query) }
    return accept(
      certificate.der,
      .renewed(
        device, CertificateNote(certificate),
        isNewKey: request.keyFingerprint.bytes != renewal.keyFingerprint))
  }

  /// The certificate that the operator approved for the key; nil if there is none.
  private func approval(of request: CertificateRequest) throws -> CertificateFingerprint? {
    try directory.pendingEnrolments.find(request.keyFingerprint.hex)?.state.fingerprint
  }

  private func askOperator(
    toRenew renewal: EnrolmentQuery.Renewal, _ request: CertificateRequest, _ query: EnrolmentQuery
  ) throws -> EnrolmentDecision {
    try useList(
      request, device: renewal.device, name: renewal.certificate.commonName ?? DeviceName.unnamed,
      hasCode: false, renewing: renewal.names, query)
  }

  /// A device that lost the key of its newer certificate must wait until one of the two expires, or until the operator
  /// revokes the lost one.
  private func refuseThird(
    _ device: DeviceID, _ known: KnownCertificates, presented: CertificateNames,
    _ query: EnrolmentQuery
  ) -> EnrolmentDecision {
    let end = known.all.map(\.notAfter).min() ?? query.nowSeconds
    let other = known.all.last { $0.fingerprint != presented.fingerprint }
    return refuse(
      .tooMany, "the device has two valid certificates: use the newer one, or have one revoked",
      .tooManyCertificates,
      "device \(device.text)" + (other.map { ", besides its own \($0.fingerprint.hex)" } ?? ""),
      retrySeconds: max(60, end - query.nowSeconds))
  }

  // MARK: Certificates

  /// Issues a certificate; nil if the authority's key is kept elsewhere.
  private func issue(
    _ request: CertificateRequest, _ device: DeviceID, name: String, nowSeconds: Int64
  ) throws -> Certificate? {
    guard Files.exists(directory.authorityKey(.devices)) else { return nil }
    return try directory.issueDevice(
      device, name: name, to: request.publicKey, nowSeconds: nowSeconds, days: days)
  }

  /// Sends a certificate issued before; nil if it has expired or was revoked, or its device is retired.
  private func sendAgain(
    _ der: [UInt8], of device: DeviceID, _ event: EnrolmentEvent, _ query: EnrolmentQuery
  ) -> EnrolmentDecision? {
    guard let certificate = try? Certificate(der: der.span),
      certificate.notAfter > query.nowSeconds,
      isAdmitted(device, CertificateNames(certificate), query.trust)
    else { return nil }
    return accept(der, event)
  }

  private func isAdmitted(
    _ device: DeviceID, _ certificate: CertificateNames, _ trust: Trust
  ) -> Bool {
    guard trust.directory.retiredMilliseconds(of: device) == nil else { return false }
    return !certificate.areRevoked(in: trust.directory)
  }

  /// The device's name as valid UTF-8 without control and formatting characters, trimmed; nil if it is not valid.
  private static func name(_ bytes: [UInt8]) -> String? {
    if bytes.isEmpty { return DeviceName.unnamed }
    guard let text = String(validating: bytes, as: UTF8.self) else { return nil }
    let isGood = text.unicodeScalars.allSatisfy(DeviceName.mayContain)
    let trimmed = String(text.trimmed)
    return isGood && !trimmed.isEmpty ? trimmed : nil
  }

  // MARK: Responses

  private func accept(_ der: [UInt8], _ event: EnrolmentEvent) -> EnrolmentDecision {
    EnrolmentDecision(
      issuance: CourierIssuance(status: .accepted, certificates: [der]), event: event)
  }

  private func unavailable(_ problem: String) -> EnrolmentDecision {
    refuse(
      .unavailable, "the service cannot issue certificates now", .failed, problem,
      retrySeconds: Limits.enrolmentRetrySeconds.upperBound)
  }

  private func refuse(
    _ reason: CourierIssuance.Reason, _ text: String, _ refusal: EnrolmentEvent.Refusal,
    _ detail: String = "", retrySeconds: Int64? = nil
  ) -> EnrolmentDecision {
    EnrolmentDecision(
      issuance: CourierIssuance(
        status: .refused, reason: reason, text: Array(text.utf8),
        retrySeconds: retrySeconds.map { UInt32(clamping: $0) }),
      event: .refused(refusal, detail))
  }
}

extension DataDirectory {
  fileprivate func hasPendingRequest(_ request: CertificateRequest) -> Bool {
    (try? pendingEnrolments.find(request.keyFingerprint.hex)) ?? nil != nil
  }

  /// Issues a certificate for a key that a device made, valid no longer than the authority itself.
  package func issueDevice(
    _ device: DeviceID, name: String, to key: PublicKey, nowSeconds: Int64,
    days: Int = ValidityDays.device
  ) throws -> Certificate {
    let authority = try authority(.devices)
    var validity = Validity(now: nowSeconds, days: days)
    validity.notAfter = min(validity.notAfter, authority.certificate.notAfter)
    return try authority.issueDevice(
      deviceID: device, name: name, publicKey: key, validity: validity)
  }
}

extension PendingEnrolments.State {
  /// The fingerprint of the certificate that the operator approved; nil if there is none.
  fileprivate var fingerprint: CertificateFingerprint? {
    guard case .approved(let der) = self else { return nil }
    return CertificateFingerprint(SHA256Digest(of: der.span))
  }
}
