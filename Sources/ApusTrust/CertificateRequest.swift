import ApusModel

/// Why a certificate request is not one that a device's certificate can be made from.
package enum CertificateRequestFault: Error, Sendable, Hashable {
  /// More than `Limits.certificateRequestBytes`.
  case tooLong
  /// Not the DER of PKCS#10, or something stands behind it.
  case malformed
  /// Neither ECDSA on P-256 nor RSA of 2,048 to `Limits.deviceRSABits` bits, or in another form than the usual one.
  case key
  /// Signed by other means than ECDSA or RSA (PKCS#1 v1.5) over SHA-256.
  case algorithm
  /// The signature is not one of the key: whoever asks does not have it.
  case signature
}

extension CertificateRequestFault: CustomStringConvertible {
  package var description: String {
    switch self {
    case .tooLong: "the certificate request is longer than \(Limits.certificateRequestBytes) bytes"
    case .malformed: "the certificate request cannot be read: it must be PKCS#10, alone"
    case .key:
      "the key is neither ECDSA on P-256 (named curve, uncompressed) nor RSA of 2048 to "
        + "\(Limits.deviceRSABits) bits"
    case .algorithm: "the certificate request is not signed with SHA-256 by ECDSA or RSA"
    case .signature: "the certificate request is not signed with its own key"
    }
  }
}

/// A certificate request (PKCS#10, RFC 2986), of which nothing is believed but that whoever made it holds the key.
///
/// ```
/// SEQUENCE { SEQUENCE { INTEGER 0, Name, SubjectPublicKeyInfo, [0] attributes },
///            SEQUENCE algorithm, BIT STRING signature }
/// ```
package struct CertificateRequest: Sendable {
  package let der: [UInt8]
  package let publicKey: PublicKey

  /// SHA-256 of the public key: by it the same device is known again.
  package var keyFingerprint: SHA256Digest { publicKey.spkiSHA256 }

  package var pem: String { Self.pem(der) }

  private static let label = "CERTIFICATE REQUEST"

  /// Reads a request and checks its signature.
  package init(der: Span<UInt8>) throws(CertificateRequestFault) {
    guard der.count <= Limits.certificateRequestBytes else { throw .tooLong }
    let parts: Parts
    do { parts = try Parts(der) } catch { throw .malformed }
    let spki = der.extracting(parts.publicKey)
    let key: PublicKey
    do { key = try PublicKey(spkiDER: spki) } catch { throw .key }
    // What OpenSSL would write is what stands there: no explicit curve, no compressed point, no odd encoding.
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

  /// Reads the first block of PEM that is a request.
  package init?(pem: String) {
    guard let request = try? CertificateRequest(file: Array(pem.utf8)) else { return nil }
    self = request
  }

  /// Reads a file as whoever asks has made it: PEM, of which the first request counts, or DER.
  package init(file: [UInt8]) throws(CertificateRequestFault) {
    let labels = [Self.label, "NEW CERTIFICATE REQUEST"]
    let blocks = PEM.blocks(of: String(decoding: file, as: UTF8.self))
    let der = blocks.first { labels.contains($0.label) }?.der ?? file
    try self.init(der: der.span)
  }

  /// A request as the text of a file.
  package static func pem(_ der: [UInt8]) -> String { PEM.text(label: label, der: der) }

  /// SubjectPublicKeyInfo of an uncompressed point on a named curve. RFC 5480, section 2.
  private static let p256Bytes = 91

  /// Where what matters lies.
  private struct Parts {
    /// The whole `CertificationRequestInfo`, which is what the signature is over.
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
      // Whole bytes: the count of unused bits in front is 0.
      guard bits.count > 1, der[bits.lowerBound] == 0 else {
        throw .truncated(at: bits.lowerBound)
      }
      signature = bits.dropFirst()
      try request.expectEnd()
    }
  }
}
