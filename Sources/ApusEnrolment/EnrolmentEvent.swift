import ApusModel
import ApusTrust

/// The outcome of a certificate request, for the log and the audit log.
enum EnrolmentEvent: Sendable {
  /// Why no certificate was issued. The device is told less.
  enum Refusal: String, Sendable, CaseIterable {
    case codeMalformed = "code malformed"
    /// The code was guessed, or has been withdrawn.
    case codeUnknown = "code unknown"
    case codeExpired = "code expired"
    case codeUsedUp = "code used up"
    /// The key that used the code asks again, but its device is retired, or the certificate is revoked or expired.
    case codeDeviceRemoved = "device of the code was removed"
    case request
    case name
    case notOffered = "not offered"
    case rejected
    case listFull = "too many pending requests"
    case slowedDown = "too many requests"
    case early
    case tooManyCertificates = "two certificates are valid"
    case retired
    /// An internal error of the service.
    case failed
  }

  case codeUsed(DeviceID, CertificateNote, codeName: String?)
  /// The same key asked again and got the same certificate: the response may have been lost.
  case repeated(DeviceID)
  case pending(PendingEnrolments.Request, isNew: Bool)
  /// The device received the certificate that the operator approved.
  case collected(DeviceID)
  case renewed(DeviceID, CertificateNote, isNewKey: Bool)
  /// The reason, and details for the operator.
  case refused(Refusal, String)

  /// Whether it counts as a failure of the address that it came from.
  var isFailure: Bool {
    switch self {
    case .refused(.early, _), .refused(.tooManyCertificates, _), .refused(.retired, _),
      .refused(.failed, _):
      false
    case .refused: true
    case .pending(let request, let isNew): isNew && !request.hasCode && !request.isRenewal
    case .codeUsed, .repeated, .collected, .renewed: false
    }
  }
}

/// The values that identify an issued certificate.
struct CertificateNote: Sendable {
  var serial: String
  /// Of the whole certificate; revocations use it.
  var sha256: String

  init(_ certificate: Certificate) {
    serial = certificate.serial
    sha256 = certificate.fingerprint.hex
  }
}
