package import ApusTrust

/// The trusted authorities: first the issuing one, then its predecessors.
///
/// A connection keeps a mark of eight bytes of the authority that issued its certificate, and ends when that authority
/// is no longer trusted. Verifying the certificate again would need its bytes, which dormant devices do not keep.
package struct Authorities: Sendable, Equatable {
  package let certificates: [Certificate]
  /// In the order of ``certificates``; see ``Certificate/authorityMark``.
  package let marks: [UInt64]

  package init(_ certificates: [Certificate]) {
    self.certificates = certificates
    marks = certificates.map(\.authorityMark)
  }

  /// The marks of the authorities that may have issued a certificate that was verified against all of them: the one
  /// that issued it directly, or all of them if an intermediate issued it, whose certificate is not kept.
  package func issuers(of certificate: Certificate) -> [UInt64] {
    guard certificates.count > 1 else { return marks }
    let issuer = certificates.indices.first {
      certificate.names(certificates[$0])
        && certificate.leads(to: [certificates[$0]], for: .client)
    }
    return issuer.map { [marks[$0]] } ?? marks
  }

  /// Whether all authorities with these marks are trusted.
  package func contain(_ others: [UInt64]) -> Bool { others.allSatisfy(contain) }

  package func contain(_ mark: UInt64) -> Bool { marks.contains(mark) }
}
