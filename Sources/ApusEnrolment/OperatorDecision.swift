import ApusDirectory
package import ApusModel
package import ApusTrust
import ApusWire

extension DataDirectory {
  /// Approves a request: issues the certificate, or takes one that an external authority has issued.
  ///
  /// - Parameters:
  ///   - prefix: The first digits of the SHA-256 of the request's key.
  ///   - certificatePEM: A certificate from the device authority for the request's key and device id; nil issues one
  ///     here.
  ///   - name: Replaces the name that the device sent; nil keeps it, with a number behind it if another device has it.
  ///   - tags: Added to those of the request, in place of other values of their keys.
  package func approveEnrolment(
    _ prefix: String, certificatePEM: String? = nil, name: String? = nil, tags: [DeviceTag] = [],
    nowSeconds: Int64, days: Int = ValidityDays.device
  ) throws -> (request: PendingEnrolments.Request, certificate: Certificate) {
    try changing {
      try requireProvisioned()
      let list = pendingEnrolments
      let request = try list.request(prefix)
      let asked = try list.certificateRequest(request.key)
      guard asked.keyFingerprint.hex == request.key else {
        throw DirectoryProblem("\(list.requestFile(request.key)) is for another key")
      }
      let labels = try LabelRegister(reading: self)
      let retired = Set(
        try records().sections.filter { $0.kind == "retired" }
          .compactMap { DeviceID(text: $0.name) })
      func isRetired(_ device: DeviceID) -> Bool { retired.contains(device) }
      if let name { try requireFree(name, for: request.device, labels, isRetired) }
      let certificate: Certificate
      if let certificatePEM {
        certificate = try check(Certificate(pem: certificatePEM), for: request, asked, nowSeconds)
      } else {
        guard Files.exists(authorityKey(.devices)) else { throw keyIsElsewhere(request) }
        certificate = try issueDevice(
          request.device, name: name ?? request.name, to: asked.publicKey, nowSeconds: nowSeconds,
          days: days)
      }
      if request.isRenewal { try countRenewal(request, certificate, nowSeconds) }
      try list.approve(request, certificate)
      let label = name.flatMap { DeviceName($0) }
      // A device that renews has its labels already.
      try labels.enrol(
        request.device, name: label ?? (request.isRenewal ? nil : Enroller.label(request.name)),
        tags: request.tags + tags, isRetired: isRetired)
      return (request, certificate)
    }
  }

  private func requireFree(
    _ name: String, for device: DeviceID, _ labels: LabelRegister, _ isRetired: (DeviceID) -> Bool
  ) throws {
    guard let label = DeviceName(name) else {
      throw DirectoryProblem("\"\(name)\" is not a name: \(DeviceName.form)")
    }
    guard let holder = labels.index.holder(of: label, besides: device), !isRetired(holder)
    else { return }
    throw DirectoryProblem("the device \(holder.text) has the name \"\(name)\"")
  }

  /// Counts the certificate before the device can get it: it may have two that are good.
  private func countRenewal(
    _ request: PendingEnrolments.Request, _ certificate: Certificate, _ nowSeconds: Int64
  ) throws {
    // Otherwise one would be counted that is not handed out.
    try pendingEnrolments.requireNotApproved(request)
    let trust = try trust(generation: 1, allowsES512: false)
    guard
      try !renewals.add(certificate, of: request.device, trust: trust, nowSeconds: nowSeconds)
    else { return }
    let good = try renewals.known(of: request.device).good(trust, nowSeconds: nowSeconds)
    throw DirectoryProblem(
      "the device \(request.device.text) has \(good.count) valid certificates already, with the SHA-256 "
        + good.all.map(\.fingerprint.hex).joined(separator: " and ")
        + ": revoke one of them (`apus cert --revoke`) and approve again, or reject the request")
  }

  /// Rejects a request.
  ///
  /// - Parameter prefix: The first digits of the SHA-256 of the request's key.
  package func rejectEnrolment(_ prefix: String) throws -> PendingEnrolments.Request {
    try changing {
      try requireProvisioned()
      let request = try pendingEnrolments.request(prefix)
      try pendingEnrolments.reject(request)
      return request
    }
  }

  private func check(
    _ certificate: Certificate, for request: PendingEnrolments.Request,
    _ asked: CertificateRequest, _ nowSeconds: Int64
  ) throws -> Certificate {
    guard certificate.spkiDER == asked.publicKey.spkiDER else {
      throw DirectoryProblem(
        "the certificate is for another key than the request \(requestName(request))")
    }
    let authorities = try certificates(of: .devices)
    let device: DeviceCertificate
    do {
      device = try DeviceCertificate.verify(
        der: certificate.der.span, authorities: authorities, now: nowSeconds)
    } catch {
      throw DirectoryProblem(
        "the certificate is not valid for a device (\(error)); it must be signed by "
          + "\(authorityCertificate(.devices)), \(Self.form(request.device))")
    }
    guard device.deviceID == request.device else {
      throw DirectoryProblem(
        "the certificate is for the device \(device.deviceID.text), but the request's id is "
          + request.device.text)
    }
    return certificate
  }

  private func keyIsElsewhere(_ request: PendingEnrolments.Request) -> DirectoryProblem {
    DirectoryProblem(
      """
      \(authorityKey(.devices)) does not exist: have the authority sign \
      \(pendingEnrolments.requestFile(request.key)), \(Self.form(request.device)), and give the \
      certificate with --certificate FILE
      """)
  }

  private func requestName(_ request: PendingEnrolments.Request) -> String {
    pendingEnrolments.requestFile(request.key)
  }

  /// What a device's certificate must contain, for messages.
  private static func form(_ device: DeviceID) -> String {
    "with the subject UID=\(device.text), O=\(CertificateAuthority.deviceOrganization), and the "
      + "extended key usage clientAuth"
  }
}
