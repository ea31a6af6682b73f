import ApusWire
import Testing

@testable import ApusTrust

@Suite("Signed nonces of the device protocol's third version")
struct NonceProofTests {
  private func verify(
    nonce: [UInt8] = Fixtures.nonce, signature: [UInt8] = [1, 1] + Fixtures.nonceSignature,
    certificate: [UInt8]? = nil
  ) throws(NonceProofFault) -> CourierNonce {
    let der = certificate ?? PEM.blocks(of: Fixtures.rsaCertificatePEM)[0].der
    return try NonceProof.verify(
      nonce: nonce.span, signature: signature.span, certificateDER: der.span)
  }

  @Test("A nonce that another program signed verifies and has its time")
  func verifies() throws {
    #expect(try verify().milliseconds == 1_700_000_000_000)
    #expect(try verify().bytes == Fixtures.nonce)
  }

  @Test("A device's signature equals another program's")
  func signs() throws {
    let signed = try NonceProof.sign(
      milliseconds: 1_700_000_000_000, random: Array(1...8),
      key: PrivateKey(pem: Fixtures.rsaPEM))
    #expect(signed.nonce == Fixtures.nonce)
    #expect(signed.signature == [1, 1] + Fixtures.nonceSignature)
  }

  @Test("Each fault is reported")
  func faults() throws {
    var other = Fixtures.nonce
    other[0] = 1
    #expect(throws: NonceProofFault.form) { try verify(nonce: other) }
    #expect(throws: NonceProofFault.form) { try verify(nonce: Fixtures.nonce + [0]) }
    #expect(throws: NonceProofFault.form) { try verify(nonce: []) }
    other = Fixtures.nonce
    other[16] ^= 1
    #expect(throws: NonceProofFault.signature) { try verify(nonce: other) }
    #expect(throws: NonceProofFault.algorithm) {
      try verify(signature: [1, 2] + Fixtures.nonceSignature)
    }
    #expect(throws: NonceProofFault.algorithm) { try verify(signature: [1, 1]) }
    #expect(throws: NonceProofFault.signature) { try verify(signature: [1, 1, 0]) }
    #expect(throws: NonceProofFault.malformedCertificate) { try verify(certificate: [0x30]) }
    #expect(throws: NonceProofFault.key) {
      try verify(certificate: Certificate(pem: Fixtures.providerPEM).der)
    }
    #expect(throws: NonceProofFault.key) {
      try verify(certificate: Certificate(pem: Fixtures.weakDevicePEM).der)
    }
  }

  @Test("Only an RSA key signs a nonce")
  func key() throws {
    let key = try PrivateKey(pem: Fixtures.p8)
    #expect(throws: TrustFault.unsupportedKey) {
      try NonceProof.sign(milliseconds: 1, random: Array(1...8), key: key)
    }
  }
}
