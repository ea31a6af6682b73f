import ApusModel
import ApusTrust

/// What became of a request for a certificate, for log and audit.
enum EnrolmentEvent: Sendable {
  /// Why nothing was issued. The device is told less.
  enum Refusal: String, Sendable, CaseIterable {
    case codeMalformed = "code malformed"
    /// Guessed, or withdrawn.
    case codeUnknown = "code unknown"
    case codeExpired = "code expired"
    case codeUsedUp = "code used up"
    /// The right key asked again, but its device is retired, or the certificate is revoked or expired.
    case codeWorthless = "device of the code is gone"
    case request
    case name
    case notOffered = "not offered"
    case rejected
    case listFull = "too many wait"
    case slowedDown = "asked too often"
    case early
    case tooManyCertificates = "two certificates are valid"
    case retired
    /// The service's own trouble.
    case failed
  }

  case codeUsed(DeviceID, CertificateNote, codeName: String?)
  /// The same key asked again: the answer may have been lost.
  case repeated(DeviceID)
  case pending(PendingEnrolments.Request, isNew: Bool)
  /// The device has what the operator approved.
  case collected(DeviceID)
  case renewed(DeviceID, CertificateNote, isNewKey: Bool)
  /// With what there is to add for people.
  case refused(Refusal, String)

  /// Whether it counts against the address that it came from.
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

/// What an issued certificate is known by.
struct CertificateNote: Sendable {
  var serial: String
  /// Of the whole certificate: what a revocation names.
  var sha256: String

  init(_ certificate: Certificate) {
    serial = certificate.serial
    sha256 = certificate.fingerprint.hex
  }
}
