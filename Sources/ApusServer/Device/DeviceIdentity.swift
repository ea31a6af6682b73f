import ApusCore
import ApusDirectory
import ApusModel
import ApusTrust
import ApusWire

/// Why a device was not believed.
enum DeviceRefusal: Error, CustomStringConvertible {
  case inBandNotAllowed
  case noCertificate
  case certificate(DeviceCertificateFault)
  case unreadable(TrustFault)
  case signature(NonceProofFault)
  case clock(offMilliseconds: Int64)
  case replayed
  case differentKeys
  case retired(DeviceID)
  case revoked(DeviceID)
  case authorityRemoved(DeviceID)
  case superseded(DeviceID)

  var description: String {
    switch self {
    case .inBandNotAllowed: "certificates in the connect message are not allowed"
    case .noCertificate: "no certificate"
    case .certificate(let fault): "certificate: \(fault)"
    case .unreadable(let fault): "certificate: \(fault)"
    case .signature(let fault): "signature: \(fault)"
    case .clock(let off): "the nonce's time is off by \(off) ms"
    case .replayed: "the nonce was used before"
    case .differentKeys: "the certificates of the handshake and of the connect message differ"
    case .retired(let device): "the device \(device.text) is retired"
    case .revoked(let device): "the certificate of the device \(device.text) is revoked"
    case .authorityRemoved(let device):
      "the authority of the certificate of the device \(device.text) is no longer trusted"
    case .superseded(let device): "the device \(device.text) has a newer key"
    }
  }

  /// The kind of it, one of a closed list.
  var kind: String {
    switch self {
    case .inBandNotAllowed: "in-band not allowed"
    case .noCertificate: "no certificate"
    case .certificate(let fault): "certificate \(fault)"
    case .unreadable: "certificate unreadable"
    case .signature: "signature"
    case .clock: "clock"
    case .replayed: "replayed"
    case .differentKeys: "different keys"
    case .retired: "retired"
    case .revoked: "revoked"
    case .authorityRemoved: "authority removed"
    case .superseded: "superseded"
    }
  }

  /// For the device: what to do, where it can do something. It has proved who it is in these cases.
  var advice: String? {
    switch self {
    case .retired(let device):
      "the device \(device.text) is retired and cannot connect again: enrol it as a new device"
    case .revoked: CertificateStanding.Fault.revoked.text
    case .authorityRemoved: CertificateStanding.Fault.authorityRemoved.text
    case .superseded(let device):
      "the device \(device.text) has a newer key: this is an old copy of its identity"
    default: nil
    }
  }

  /// Whom it is about; nil where that was not proved.
  var device: DeviceID? {
    switch self {
    case .retired(let device), .revoked(let device), .authorityRemoved(let device),
      .superseded(let device):
      device
    default: nil
    }
  }

  /// Whether the answer is to carry the service's time.
  var isAboutTime: Bool {
    if case .clock = self { true } else { false }
  }
}

/// By what a connected device's certificate is judged again: when trust changes, and when its time is over. Its bytes,
/// which are some 500, are not kept for as long as the device is connected.
struct CertificateStanding: Sendable {
  var names: CertificateNames
  /// The last second in which it is valid, Unix seconds.
  var notAfter: Int64
  /// The mark of the authority that issued it; nil where it came by way of another one in between.
  var authority: UInt64?

  /// Why the certificate is good no longer.
  enum Fault: Equatable {
    case revoked
    case authorityRemoved
    case expired

    /// For the audit log: one of a closed list.
    var kind: String {
      switch self {
      case .revoked: "revoked"
      case .authorityRemoved: "authority removed"
      case .expired: "expired"
      }
    }

    /// For the device.
    var text: String {
      switch self {
      case .revoked: "the device's certificate is revoked: the device needs a new certificate"
      case .authorityRemoved:
        "the authority that issued the device's certificate is no longer trusted: "
          + "the device needs a new certificate"
      case .expired: "the device's certificate has expired: the device needs a new certificate"
      }
    }
  }

  /// - Parameters:
  ///   - hasLostAuthority: Whether an authority was removed since the last look. A device whose authority is not known
  ///     has to show its certificate again.
  ///   - nowSeconds: The time by which handshakes judge certificates.
  func fault(
    _ trust: Trust, hasLostAuthority: Bool = false, nowSeconds: Int64
  ) -> Fault? {
    if names.areRevoked(in: trust.directory) { return .revoked }
    if let authority {
      if !trust.deviceAuthorities.contain(authority) { return .authorityRemoved }
    } else if hasLostAuthority {
      return .authorityRemoved
    }
    return nowSeconds > notAfter ? .expired : nil
  }
}

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
