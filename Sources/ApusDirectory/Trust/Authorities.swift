package import ApusTrust

/// The authorities whose certificates are accepted: first the one that issues now, then those that it took over from.
///
/// A connection remembers which of them vouched for its certificate, as a mark of eight bytes, and ends when that one
/// is no longer trusted. Verifying certificates again would need their bytes, which are not kept for quiet devices.
package struct Authorities: Sendable, Equatable {
  package let certificates: [Certificate]
  /// In the same order; see ``Certificate/authorityMark``.
  package let marks: [UInt64]

  package init(_ certificates: [Certificate]) {
    self.certificates = certificates
    marks = certificates.map(\.authorityMark)
  }

  /// Those that may have issued a certificate that was verified against all of them: the one that did, or all of them
  /// where it came by way of an authority in between, whose certificate nobody keeps.
  package func issuers(of certificate: Certificate) -> [UInt64] {
    guard certificates.count > 1 else { return marks }
    let issuer = certificates.indices.first {
      certificate.names(certificates[$0])
        && certificate.leads(to: [certificates[$0]], for: .client)
    }
    return issuer.map { [marks[$0]] } ?? marks
  }

  /// Whether all of them are trusted.
  package func contain(_ others: [UInt64]) -> Bool { others.allSatisfy(contain) }

  package func contain(_ mark: UInt64) -> Bool { marks.contains(mark) }
}
