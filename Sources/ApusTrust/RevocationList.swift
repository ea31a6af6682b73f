import COpenSSL
import CShims

/// Why a revocation list cannot be believed.
package enum RevocationListFault: Error, Sendable, Hashable, CustomStringConvertible {
  case malformed
  /// None of the authorities has its issuer's name and signed it.
  case unknownIssuer
  /// It has a critical extension that changes what the list means.
  case unsupported

  package var description: String {
    switch self {
    case .malformed: "it is no X.509 revocation list, neither in PEM nor in DER"
    case .unknownIssuer: "no authority that is trusted here has signed it"
    case .unsupported:
      "it is no complete list of one authority's own certificates: delta and indirect lists are "
        + "not supported"
    }
  }
}

/// What an authority took back: RFC 5280, section 5.
package struct RevocationList: Sendable {
  /// For each certificate the SHA-256 of its issuer's name (DER) and serial number: ``Certificate/place``.
  package let places: [SHA256Digest]
  /// Unix seconds by which the authority promised the next list.
  package let nextUpdate: Int64?

  /// Reads a list in PEM or DER, and checks that one of `authorities` signed it.
  package init(
    _ bytes: [UInt8], authorities: [Certificate]
  ) throws(RevocationListFault) {
    let text = String(decoding: bytes, as: UTF8.self)
    let der = PEM.blocks(of: text).first { $0.label == "X509 CRL" }?.der ?? bytes
    let list = unsafe OpenSSL.decoded(der.span, free: { unsafe X509_CRL_free($0) }) {
      unsafe d2i_X509_CRL(nil, $0, $1)
    }
    guard let list = unsafe list else { throw .malformed }
    defer { unsafe X509_CRL_free(list) }
    let names = unsafe try Self.issuerNames(of: list, among: authorities)
    guard unsafe Self.isUnderstood(list) else { throw .unsupported }
    nextUpdate = unsafe X509Handle.unixSeconds(X509_CRL_get0_nextUpdate(list))
    var places: [SHA256Digest] = []
    for index in unsafe 0..<apus_crl_count(list) {
      guard let serial = unsafe X509Handle.bytes(apus_crl_serial(list, index)) else {
        throw .unsupported
      }
      for name in names { places.append(Certificate.place(issuer: name, serial: serial)) }
    }
    self.places = places
  }

  /// The issuer's name as the list spells it, and as the authority that signed it does: the bytes of certificates have
  /// been seen to follow either.
  private static func issuerNames(
    of list: OpaquePointer, among authorities: [Certificate]
  ) throws(RevocationListFault) -> Set<[UInt8]> {
    defer { OpenSSL.clearErrors() }
    guard let issuer = unsafe X509_CRL_get_issuer(list) else { throw .malformed }
    for authority in authorities {
      guard let handle = try? X509Handle(der: authority.der.span),
        unsafe X509_NAME_cmp(issuer, X509_get_subject_name(handle.handle)) == 0,
        let key = unsafe X509_get0_pubkey(handle.handle),
        unsafe X509_CRL_verify(list, key) == 1
      else { continue }
      return unsafe [authority.subjectDER, OpenSSL.encoded { unsafe i2d_X509_NAME(issuer, $0) }]
    }
    throw .unknownIssuer
  }

  /// Whether the list means what a plain one means. A critical extension might make it a delta (5.2.4) or say that
  /// entries are of other issuers (5.2.5).
  private static func isUnderstood(_ list: OpaquePointer) -> Bool {
    unsafe X509_CRL_get_ext_by_critical(list, 1, -1) < 0
  }
}

extension Certificate {
  /// What names the certificate on revocation lists, as one value: the SHA-256 of its issuer's name (DER) and its
  /// serial number (magnitude, big-endian).
  package var place: SHA256Digest { Self.place(issuer: issuerDER, serial: serialBytes) }

  static func place(issuer: [UInt8], serial: [UInt8]) -> SHA256Digest {
    SHA256Digest(of: (issuer + serial).span)
  }
}
