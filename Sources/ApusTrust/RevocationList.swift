import COpenSSL
import CShims

/// Why a revocation list is rejected.
package enum RevocationListFault: Error, Sendable, Hashable, CustomStringConvertible {
  case malformed
  /// It was not signed by an authority with its issuer's name.
  case unknownIssuer
  /// It has a critical extension that changes the meaning of the list.
  case unsupported

  package var description: String {
    switch self {
    case .malformed: "it is not an X.509 revocation list in PEM or DER"
    case .unknownIssuer: "no trusted authority signed it"
    case .unsupported:
      "it is not a complete list of one authority's own certificates: delta and indirect lists are "
        + "not supported"
    }
  }
}

/// The certificates revoked by an authority: RFC 5280, section 5.
package struct RevocationList: Sendable {
  /// For each certificate the SHA-256 of its issuer's name (DER) and serial number: ``Certificate/place``.
  package let places: [SHA256Digest]
  /// Unix seconds by which the authority will publish the next list.
  package let nextUpdate: Int64?

  /// Reads a list in PEM or DER, and verifies that one of `authorities` signed it.
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

  /// The issuer's name as encoded in the list, and as in the authority that signed it: certificates in use have either
  /// encoding.
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

  /// Whether this is a plain list. A critical extension might make it a delta (5.2.4) or assign entries to other
  /// issuers (5.2.5).
  private static func isUnderstood(_ list: OpaquePointer) -> Bool {
    unsafe X509_CRL_get_ext_by_critical(list, 1, -1) < 0
  }
}

extension Certificate {
  /// Identifies the certificate on revocation lists, as one value: the SHA-256 of its issuer's name (DER) and its
  /// serial number (magnitude, big-endian).
  package var place: SHA256Digest { Self.place(issuer: issuerDER, serial: serialBytes) }

  static func place(issuer: [UInt8], serial: [UInt8]) -> SHA256Digest {
    SHA256Digest(of: (issuer + serial).span)
  }
}
