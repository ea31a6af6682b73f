import ApusModel

/// Why a certificate request cannot be used to issue a device's certificate.
package enum CertificateRequestFault: Error, Sendable, Hashable {
  /// More than `Limits.certificateRequestBytes`.
  case tooLong
  /// Not PKCS#10 in DER, or followed by other bytes.
  case malformed
  /// Neither ECDSA on P-256 nor RSA of 2,048 to `Limits.deviceRSABits` bits, or not in the usual encoding.
  case key
  /// Not signed with ECDSA or RSA (PKCS#1 v1.5) over SHA-256.
  case algorithm
  /// The key did not sign it: the requester may not have the private key.
  case signature
}

extension CertificateRequestFault: CustomStringConvertible {
  package var description: String {
    switch self {
    case .tooLong: "the certificate request is longer than \(Limits.certificateRequestBytes) bytes"
    case .malformed: "the certificate request cannot be read: it must be a single PKCS#10 structure"
    case .key:
      "the key is neither ECDSA on P-256 (named curve, uncompressed) nor RSA of 2048 to "
        + "\(Limits.deviceRSABits) bits"
    case .algorithm: "the certificate request is not signed with SHA-256 by ECDSA or RSA"
    case .signature: "the certificate request is not signed with its own key"
    }
  }
}

/// A certificate request (PKCS#10, RFC 2986), which only proves possession of its key: its names are ignored.
///
/// ```
/// SEQUENCE { SEQUENCE { INTEGER 0, Name, SubjectPublicKeyInfo, [0] attributes },
///            SEQUENCE algorithm, BIT STRING signature }
/// ```
package struct CertificateRequest: Sendable {
  package let der: [UInt8]
  package let publicKey: PublicKey

  /// SHA-256 of the public key, which identifies a device that asks again.
  package var keyFingerprint: SHA256Digest { publicKey.spkiSHA256 }

  package var pem: String { Self.pem(der) }

  private static let label = "CERTIFICATE REQUEST"

  /// Reads a request and verifies its signature.
  package init(der: Span<UInt8>) throws(CertificateRequestFault) {
    guard der.count <= Limits.certificateRequestBytes else { throw .tooLong }
    let parts: Parts
    do { parts = try Parts(der) } catch { throw .malformed }
    let spki = der.extracting(parts.publicKey)
    let key: PublicKey
    do { key = try PublicKey(spkiDER: spki) } catch { throw .key }
    // Only the encoding that OpenSSL writes is accepted: no explicit curve, no compressed point, no unusual form.
    let written = key.spkiDER
    guard written.span.equals(spki) else { throw .key }
    let isECDSA: Bool
    switch key.kind {
    case .p256 where spki.count == Self.p256Bytes: isECDSA = true
    case .rsa(2048...Limits.deviceRSABits): isECDSA = false
    default: throw .key
    }
    let algorithm = der.extracting(parts.algorithm)
    let expected =
      isECDSA
      ? DER.sequence(OID.ecdsaWithSHA256.der) : DER.sequence(OID.sha256WithRSA.der, DER.null)
    guard algorithm.equals(expected.span) else { throw .algorithm }
    guard
      key.verifies(
        der.extracting(parts.signature), over: der.extracting(parts.signed), digest: .sha256)
    else { throw .signature }
    self.der = der.copied()
    publicKey = key
  }

  /// Reads the first request in PEM.
  package init?(pem: String) {
    guard let request = try? CertificateRequest(file: Array(pem.utf8)) else { return nil }
    self = request
  }

  /// Reads a requester's file: PEM, of which the first request counts, or DER.
  package init(file: [UInt8]) throws(CertificateRequestFault) {
    let labels = [Self.label, "NEW CERTIFICATE REQUEST"]
    let blocks = PEM.blocks(of: String(decoding: file, as: UTF8.self))
    let der = blocks.first { labels.contains($0.label) }?.der ?? file
    try self.init(der: der.span)
  }

  /// A request in PEM.
  package static func pem(_ der: [UInt8]) -> String { PEM.text(label: label, der: der) }

  /// SubjectPublicKeyInfo of an uncompressed point on a named curve. RFC 5480, section 2.
  private static let p256Bytes = 91

  /// The ranges of the parts used.
  private struct Parts {
    /// The whole `CertificationRequestInfo`, which is signed.
    var signed: Range<Int>
    var publicKey: Range<Int>
    var algorithm: Range<Int>
    var signature: Range<Int>

    init(_ der: Span<UInt8>) throws(DERFault) {
      var outer = DERReader(der)
      var request = DERReader(der, within: try outer.element(DER.Tag.sequence))
      try outer.expectEnd()
      let start = request.position
      var info = DERReader(der, within: try request.element(DER.Tag.sequence))
      signed = start..<request.position
      let version = try info.element(DER.Tag.integer)
      guard version.count == 1, der[version.lowerBound] == 0 else {
        throw .trailing(at: version.lowerBound)
      }
      _ = try info.element(DER.Tag.sequence)
      let keyStart = info.position
      _ = try info.element(DER.Tag.sequence)
      publicKey = keyStart..<info.position
      _ = try info.element(DER.Tag.constructed(0))
      try info.expectEnd()
      let algorithmStart = request.position
      _ = try request.element(DER.Tag.sequence)
      algorithm = algorithmStart..<request.position
      let bits = try request.element(DER.Tag.bitString)
      // Whole bytes: the leading count of unused bits must be 0.
      guard bits.count > 1, der[bits.lowerBound] == 0 else {
        throw .truncated(at: bits.lowerBound)
      }
      signature = bits.dropFirst()
      try request.expectEnd()
    }
  }
}
