import ApusCore
import ApusModel
import ApusTrust
import ApusWire
import Synchronization

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
  case superseded(DeviceID)

  var description: String {
    switch self {
    case .inBandNotAllowed: "certificates inside the connect message are switched off"
    case .noCertificate: "no certificate"
    case .certificate(let fault): "certificate: \(fault)"
    case .unreadable(let fault): "certificate: \(fault)"
    case .signature(let fault): "signature: \(fault)"
    case .clock(let off): "the nonce's time is off by \(off) ms"
    case .replayed: "the nonce was used before"
    case .differentKeys: "the certificates of the handshake and of the connect message differ"
    case .retired(let device): "the device \(device.text) is retired"
    case .revoked(let device): "the certificate of the device \(device.text) is revoked"
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
    case .superseded: "superseded"
    }
  }

  /// Whether the answer is to carry the service's time.
  var isAboutTime: Bool {
    if case .clock = self { true } else { false }
  }
}

/// What a certificate can be revoked by.
struct CertificateNames: Sendable {
  var fingerprint: CertificateFingerprint
  var place: CertificateFingerprint

  init(_ certificate: Certificate) {
    fingerprint = CertificateFingerprint(certificate.fingerprint)
    place = CertificateFingerprint(certificate.place)
  }

  func areRevoked(in directory: Directory) -> Bool {
    directory.isRevoked(fingerprint) || directory.isRevoked(place)
  }
}

/// What is asked later of the certificate by which a device was let in. Its bytes, which are some 500, are not kept for
/// as long as the device is connected.
struct PresentedCertificate: Sendable {
  /// Unix seconds.
  var notBefore: Int64
  var notAfter: Int64
  var commonName: String?
  /// Of which authority it is; see `Worker.authorityMark`. 0: of an older one.
  var authorityMark: UInt64 = 0

  init(notBefore: Int64, notAfter: Int64, commonName: String?, authorityMark: UInt64) {
    self.notBefore = notBefore
    self.notAfter = notAfter
    self.commonName = commonName
    self.authorityMark = authorityMark
  }

  init(_ certificate: Certificate) {
    notBefore = certificate.notBefore
    notAfter = certificate.notAfter
    commonName = certificate.subject.commonName
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
  /// What the certificate of the handshake says; nil where there was none.
  var presented: PresentedCertificate?
  /// Whether that is of the first of the authorities; with one only there is no question.
  var isOfNewestAuthority = true

  /// Checks what the dialect demands: a certificate in the handshake, which TLS has verified, or one in the connect
  /// message with a signature over a fresh nonce.
  init(
    _ connect: CourierConnect, dialect: CourierALPN, tlsCertificateDER: [UInt8]?,
    authorities: [Certificate], directory: Directory, replays: ReplayGuard, nowMilliseconds: Int64,
    allowsInBand: Bool
  ) throws(DeviceRefusal) {
    if dialect != .securityV3 {
      guard let der = tlsCertificateDER else { throw .noCertificate }
      let read = try Self.read(der)
      self.init(read)
      present(read.certificate, authorities)
      try requireUnrevoked(directory)
      return
    }
    guard allowsInBand else { throw .inBandNotAllowed }
    guard !connect.certificate.isEmpty else { throw .noCertificate }
    let certificate: DeviceCertificate
    do {
      certificate = try DeviceCertificate.verify(
        der: connect.certificate.span, authorities: authorities, now: nowMilliseconds / 1000)
    } catch {
      throw .certificate(error)
    }
    // "A TLS client certificate, if given, must be the same key."
    let read = try tlsCertificateDER.map(Self.read)?.certificate
    if let read, read.spkiDER != certificate.certificate.spkiDER { throw .differentKeys }
    try Self.check(connect, replays: replays, nowMilliseconds: nowMilliseconds)
    self.init(certificate)
    if let read { present(read, authorities) }
    try requireUnrevoked(directory)
  }

  /// TLS has asked already, but of a snapshot that may be gone, and not about one inside the connect message.
  func requireUnrevoked(_ directory: Directory) throws(DeviceRefusal) {
    if certificate.areRevoked(in: directory) { throw .revoked(device) }
  }

  private init(_ certificate: DeviceCertificate) {
    device = certificate.deviceID
    keyFingerprint = certificate.certificate.spkiSHA256.bytes
    issuedSeconds = certificate.certificate.notBefore
    self.certificate = CertificateNames(certificate.certificate)
  }

  private mutating func present(_ certificate: Certificate, _ authorities: [Certificate]) {
    presented = PresentedCertificate(certificate)
    guard authorities.count > 1 else { return }
    isOfNewestAuthority = certificate.leads(to: [authorities[0]], for: .client)
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

/// Remembers the nonces of signed connect messages for as long as their times would be believed.
///
/// Shared by all workers: a replay may come in anywhere.
final class ReplayGuard: Sendable {
  private struct State {
    var recent: Set<[UInt8]> = []
    var older: Set<[UInt8]> = []
    var turnedMilliseconds: Int64 = 0
  }

  private let state = Mutex(State())

  /// Nonces in each half. At the limit nobody is believed until the halves turn: a flood of signed messages needs a
  /// certificate, so it has a sender that can be told.
  private static let capacity = 1_000_000

  /// True for a nonce that was not seen; it is remembered.
  func admit(_ nonce: [UInt8], nowMilliseconds: Int64) -> Bool {
    state.withLock { state in
      // A nonce is believed from 300 s before its time to 300 s after, so for 600 s.
      if abs(nowMilliseconds - state.turnedMilliseconds) >= 2 * Limits.courierNonceSeconds * 1000 {
        state.older = state.recent
        state.recent = []
        state.turnedMilliseconds = nowMilliseconds
      }
      guard state.recent.count < Self.capacity, !state.older.contains(nonce) else { return false }
      return state.recent.insert(nonce).inserted
    }
  }
}
