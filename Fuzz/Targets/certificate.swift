import ApusModel
import ApusTrust

// Untrusted certificates and requests. The first byte selects what the rest is: 0 the extensions of an otherwise valid
// certificate, 1 a whole certificate, 2 a certificate request, 3 the text of a file.

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  let bytes = input(start, count)
  guard let mode = bytes.first else { return 0 }
  let rest = Array(bytes.dropFirst())
  switch mode {
  case 0: check(certificate(extensions: rest))
  case 1: check(rest)
  case 2: checkRequest(try? CertificateRequest(der: rest.span))
  case 3:
    checkRequest(try? CertificateRequest(file: rest))
    if let all = try? Certificate.all(pem: String(decoding: rest, as: UTF8.self)) {
      precondition(!all.isEmpty, "a file without a certificate was read")
      for certificate in all { check(certificate.der) }
    }
  default: break
  }
  return 0
}

func check(_ der: [UInt8]) {
  _ = try? DeviceCertificate.verify(der: der.span, authorities: [], now: 1_800_000_000)
  guard let certificate = try? Certificate(der: der.span) else { return }
  let written = certificate.der
  guard let again = try? Certificate(der: written.span) else {
    preconditionFailure("a read certificate cannot be read again")
  }
  precondition(
    again == certificate && again.subject == certificate.subject,
    "a certificate changes in a round trip"
  )
  _ = certificate.serverNames
  _ = certificate.place
  _ = certificate.leads(to: [certificate], through: [certificate], for: .server)
  if let device = try? DeviceCertificate(certificate) {
    precondition(certificate.subject.userID == device.deviceID.text, "the device id differs")
  }
  guard let provider = try? ProviderCertificate(certificate) else { return }
  precondition(!provider.environments.isEmpty, "a provider has no environment")
  precondition(provider.topics.first == provider.defaultTopic, "the default topic is not the first")
  precondition(Set(provider.topics).count == provider.topics.count, "a topic occurs twice")
  precondition(
    provider.topics.allSatisfy { (1...Limits.topicBytes).contains($0.utf8.count) },
    "the length of a topic")
}

func checkRequest(_ request: CertificateRequest?) {
  guard let request else { return }
  let der = request.der
  guard let again = try? CertificateRequest(der: der.span) else {
    preconditionFailure("a read request cannot be read again")
  }
  precondition(again.keyFingerprint == request.keyFingerprint, "the key differs")
}

// MARK: A certificate around extensions

func element(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
  let count = content.count
  let length: [UInt8] =
    switch count {
    case ..<0x80: [UInt8(count)]
    case ..<0x100: [0x81, UInt8(count)]
    case ..<0x1_0000: [0x82, UInt8(count >> 8), UInt8(count & 0xff)]
    default: [0x83, UInt8(count >> 16), UInt8(count >> 8 & 0xff), UInt8(count & 0xff)]
    }
  return [tag] + length + content
}

func sequence(_ parts: [UInt8]...) -> [UInt8] { element(0x30, Array(parts.joined())) }

/// ecdsa-with-SHA256.
let algorithm: [UInt8] = sequence([0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02])
/// UID=com.example.app, OU=TEAM123456.
let name: [UInt8] = sequence(
  element(
    0x31,
    sequence(
      [0x06, 0x0a, 0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 0x01, 0x01],
      element(0x0c, Array("com.example.app".utf8)))),
  element(0x31, sequence([0x06, 0x03, 0x55, 0x04, 0x0b], element(0x0c, Array("TEAM123456".utf8)))))
/// The base point of P-256 (SEC 2, section 2.4.2).
let publicKey: [UInt8] = sequence(
  sequence(
    [0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01],
    [0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07]),
  [
    0x03, 0x42, 0x00, 0x04, 0x6b, 0x17, 0xd1, 0xf2, 0xe1, 0x2c, 0x42, 0x47, 0xf8, 0xbc, 0xe6, 0xe5,
    0x63, 0xa4, 0x40, 0xf2, 0x77, 0x03, 0x7d, 0x81, 0x2d, 0xeb, 0x33, 0xa0, 0xf4, 0xa1, 0x39, 0x45,
    0xd8, 0x98, 0xc2, 0x96, 0x4f, 0xe3, 0x42, 0xe2, 0xfe, 0x1a, 0x7f, 0x9b, 0x8e, 0xe7, 0xeb, 0x4a,
    0x7c, 0x0f, 0x9e, 0x16, 0x2b, 0xce, 0x33, 0x57, 0x6b, 0x31, 0x5e, 0xce, 0xcb, 0xb6, 0x40, 0x68,
    0x37, 0xbf, 0x51, 0xf5,
  ])

/// `extensions` is the content of the list of extensions.
func certificate(extensions: [UInt8]) -> [UInt8] {
  let validity = sequence(
    element(0x17, Array("250101000000Z".utf8)), element(0x17, Array("350101000000Z".utf8)))
  let body = sequence(
    element(0xa0, [0x02, 0x01, 0x02]), [0x02, 0x01, 0x01], algorithm, name, validity, name,
    publicKey,
    element(0xa3, element(0x30, extensions)))
  return sequence(
    body, algorithm, [0x03, 0x09, 0x00, 0x30, 0x06, 0x02, 0x01, 0x01, 0x02, 0x01, 0x01])
}
