import ApusCore
import ApusWire

/// A connection's request for a certificate.
final class CertificateIssuing {
  /// Whether the enrolment queue has it.
  var isAsked = false
  /// A refusal that waits for its time.
  var held: CourierIssuance?
  var renewals = RateLimit.Bucket()
}
