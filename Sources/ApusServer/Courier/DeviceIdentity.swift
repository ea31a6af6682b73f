import ApusCore
import ApusDirectory
import ApusModel
import ApusTrust
import ApusWire

/// A device that has proved who it is. "Identity = certificate, never the presented token."
struct DeviceIdentity: Sendable {
  var device: DeviceID
  /// SHA-256 of the public key.
  var keyFingerprint: [UInt8]
  /// From when on the certificate is valid, Unix seconds: which of two is the newer one.
  var issuedSeconds: Int64
  var certificate: CertificateNames
  /// The last second in which it is valid, Unix seconds.
  var notAfter: Int64
  /// The marks of the authorities that may have issued it.
  var issuers: [UInt64]
  /// What the certificate of the handshake says; nil where there was none.
  var presented: PresentedCertificate?

  /// By what the certificate is judged again.
  var standing: CertificateStanding {
    CertificateStanding(
      names: certificate, notAfter: notAfter, authority: issuers.count == 1 ? issuers[0] : nil)
  }

  /// Checks what the dialect demands: a certificate in the handshake, which TLS has verified, or one in the connect
  /// message with a signature over a fresh nonce.
  ///
  /// - Parameter verified: The authorities that the handshake verified its certificate against.
  init(
    _ connect: CourierConnect, dialect: CourierALPN, tlsCertificateDER: [UInt8]?,
    verified: Authorities, trust: Trust, replays: ReplayGuard, nowMilliseconds: Int64,
    allowsInBand: Bool
  ) throws(DeviceRefusal) {
    if dialect != .securityV3 {
      guard let der = tlsCertificateDER else { throw .noCertificate }
      let read = try Self.read(der)
      self.init(read, issuers: verified.issuers(of: read.certificate))
      presented = PresentedCertificate(read.certificate)
      try requireTrusted(trust)
      return
    }
    guard allowsInBand else { throw .inBandNotAllowed }
    guard !connect.certificate.isEmpty else { throw .noCertificate }
    let certificate: DeviceCertificate
    do {
      certificate = try DeviceCertificate.verify(
        der: connect.certificate.span, authorities: trust.deviceAuthorities.certificates,
        now: nowMilliseconds / 1000)
    } catch {
      throw .certificate(error)
    }
    // "A TLS client certificate, if given, must be the same key."
    let read = try tlsCertificateDER.map(Self.read)?.certificate
    if let read, read.spkiDER != certificate.certificate.spkiDER { throw .differentKeys }
    try Self.check(connect, replays: replays, nowMilliseconds: nowMilliseconds)
    self.init(
      certificate, issuers: trust.deviceAuthorities.issuers(of: certificate.certificate))
    if let read { presented = PresentedCertificate(read) }
    try requireTrusted(trust)
  }

  /// TLS has asked already, but of a snapshot that may be gone, and not about one inside the connect message.
  func requireTrusted(_ trust: Trust) throws(DeviceRefusal) {
    if certificate.areRevoked(in: trust.directory) { throw .revoked(device) }
    if !trust.deviceAuthorities.contain(issuers) { throw .authorityRemoved(device) }
  }

  private init(_ certificate: DeviceCertificate, issuers: [UInt64]) {
    device = certificate.deviceID
    keyFingerprint = certificate.certificate.spkiSHA256.bytes
    issuedSeconds = certificate.certificate.notBefore
    notAfter = certificate.certificate.notAfter
    self.issuers = issuers
    self.certificate = CertificateNames(certificate.certificate)
  }

  private static func read(_ der: [UInt8]) throws(DeviceRefusal) -> DeviceCertificate {
    let certificate: Certificate
    do { certificate = try Certificate(der: der.span) } catch { throw .unreadable(error) }
    do { return try DeviceCertificate(certificate) } catch { throw .certificate(error) }
  }

  private static func check(
    _ connect: CourierConnect, replays: ReplayGuard, nowMilliseconds: Int64
  ) throws(DeviceRefusal) {
    let nonce: CourierNonce
    do {
      nonce = try NonceProof.verify(
        nonce: connect.nonce.span, signature: connect.signature.span,
        certificateDER: connect.certificate.span)
    } catch {
      throw .signature(error)
    }
    let off = Int64(clamping: nonce.milliseconds).subtractingReportingOverflow(nowMilliseconds)
    let limit = Limits.courierNonceSeconds * 1000
    guard !off.overflow, abs(off.partialValue) <= limit else {
      throw .clock(offMilliseconds: off.partialValue)
    }
    guard replays.admit(connect.nonce, nowMilliseconds: nowMilliseconds) else { throw .replayed }
  }
}
