package import ApusCore
package import ApusTrust

/// The values by which a certificate can be revoked: its fingerprint, or its issuer and serial number.
package struct CertificateNames: Sendable, Hashable {
  package var fingerprint: CertificateFingerprint
  package var place: CertificateFingerprint

  package init(fingerprint: CertificateFingerprint, place: CertificateFingerprint) {
    self.fingerprint = fingerprint
    self.place = place
  }

  package init(_ certificate: Certificate) {
    fingerprint = CertificateFingerprint(certificate.fingerprint)
    place = CertificateFingerprint(certificate.place)
  }

  package func areRevoked(in directory: Directory) -> Bool {
    directory.isRevoked(fingerprint) || directory.isRevoked(place)
  }
}

/// What the renewal of a certificate needs to know later about the one presented in the handshake.
package struct PresentedCertificate: Sendable {
  /// Unix seconds.
  package var notBefore: Int64
  package var notAfter: Int64
  package var commonName: String?

  package init(notBefore: Int64, notAfter: Int64, commonName: String?) {
    self.notBefore = notBefore
    self.notAfter = notAfter
    self.commonName = commonName
  }

  package init(_ certificate: Certificate) {
    notBefore = certificate.notBefore
    notAfter = certificate.notAfter
    commonName = certificate.subject.commonName
  }
}

extension CertificateFingerprint {
  package init(_ digest: SHA256Digest) { self.init(words: digest.words) }
}
