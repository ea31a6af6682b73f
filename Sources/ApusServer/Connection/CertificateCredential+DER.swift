import ApusCore
import ApusDirectory
import ApusModel
import ApusTrust

extension CertificateCredential {
  /// Reads what a provider's certificate, which the handshake found valid, lets it do.
  ///
  /// A certificate that is no push certificate, or whose extension is broken, is refused as BadCertificate.
  ///
  /// - Parameter authorities: Those that the handshake verified it against.
  init(der: Span<UInt8>, authorities: Authorities) throws(Refusal) {
    let certificate: ProviderCertificate
    do {
      certificate = try ProviderCertificate(Certificate(der: der))
    } catch ProviderCertificateFault.noTopic {
      throw Refusal(.certificateTopicMissing)
    } catch {
      throw Refusal(.certificateUnusable)
    }
    guard let team = certificate.teamID.flatMap({ ShortID($0) }) else {
      throw Refusal(.certificateTopicMissing)
    }
    self.init(
      defaultTopic: Array(certificate.defaultTopic.utf8),
      listedTopics: certificate.topics.map { Array($0.utf8) },
      listsSeveralTopics: certificate.listsSeveralTopics, environments: certificate.environments,
      team: team, fingerprint: CertificateFingerprint(certificate.certificate.fingerprint),
      place: CertificateFingerprint(certificate.certificate.place),
      authorities: authorities.issuers(of: certificate.certificate),
      notAfterSeconds: certificate.certificate.notAfter)
  }
}
