import ApusModel
import ApusRandom
import Foundation
import Testing

@testable import ApusTrust

private typealias Element = [UInt8]

private func element(_ tag: UInt8, _ content: [UInt8]) -> Element {
  let count = content.count
  precondition(count < 0x1_0000)
  let length: [UInt8] =
    count < 0x80
    ? [UInt8(count)]
    : count < 0x100 ? [0x81, UInt8(count)] : [0x82, UInt8(count >> 8), UInt8(count & 0xff)]
  return [tag] + length + content
}

private func sequence(_ parts: Element...) -> Element { element(0x30, Array(parts.joined())) }
private func text(_ tag: UInt8, _ text: String) -> Element { element(tag, Array(text.utf8)) }
private func attribute(_ type: Element, _ value: Element) -> Element {
  element(0x31, sequence(type, value))
}

private let commonName: Element = [0x06, 0x03, 0x55, 0x04, 0x03]
private let unit: Element = [0x06, 0x03, 0x55, 0x04, 0x0b]
private let ecdsaWithSHA256 = sequence([0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2])
private let ecPublicKey: Element = [0x06, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1]
private let rsaEncryption: Element = [0x06, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1]

/// A certificate as its parts; the parts that a test is not about are right.
private struct Parts {
  var version: Element = [0xa0, 3, 2, 1, 2]
  var serial: Element = [2, 1, 5]
  var notBefore = text(0x17, "250101000000Z")
  var notAfter = text(0x17, "350101000000Z")
  var subject: [Element] = [attribute(commonName, text(0x0c, "kitchen"))]
  /// The base point of P-256: SEC 2, section 2.4.2.
  var key = sequence(
    sequence(ecPublicKey, [0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7]),
    [3, 0x42, 0, 4]
      + Fixtures.hex(
        "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
          + "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"))
  var identifiers: Element = []
  /// Nil: no list at all.
  var extensions: [Element]? = nil

  var der: Element {
    let list = extensions.map { element(0xa3, element(0x30, Array($0.joined()))) } ?? []
    let body = Array(
      [
        version, serial, ecdsaWithSHA256, sequence(attribute(commonName, text(0x0c, "issuer"))),
        sequence(notBefore, notAfter), element(0x30, Array(subject.joined())), key, identifiers,
        list,
      ].joined())
    return sequence(
      element(0x30, body), ecdsaWithSHA256, [3, 9, 0, 0x30, 6, 2, 1, 1, 2, 1, 1])
  }

  func read() throws -> Certificate {
    let der = der
    return try Certificate(der: der.span)
  }

  /// What is read of the changed parts; nil where they are rejected. OpenSSL must read the same.
  static func reading(_ change: (inout Parts) -> Void) -> Certificate? {
    var parts = Parts()
    change(&parts)
    let certificate = try? parts.read()
    if let certificate { expectAgreement(certificate) }
    return certificate
  }
}

/// That OpenSSL reads the same values, where it can read the key.
private func expectAgreement(
  _ certificate: Certificate, sourceLocation: SourceLocation = #_sourceLocation
) {
  let der = certificate.der
  guard let handle = try? X509Handle(der: der.span) else {
    Issue.record("OpenSSL rejects \(der)", sourceLocation: sourceLocation)
    return
  }
  guard let other = handle.read() else { return }
  #expect(certificate.subject == other.subject, sourceLocation: sourceLocation)
  #expect(certificate.serial == other.serial, sourceLocation: sourceLocation)
  #expect(certificate.notBefore == other.notBefore, sourceLocation: sourceLocation)
  #expect(certificate.notAfter == other.notAfter, sourceLocation: sourceLocation)
  #expect(certificate.keyKind == other.keyKind, sourceLocation: sourceLocation)
  #expect(certificate.spkiDER == other.spkiDER, sourceLocation: sourceLocation)
  #expect(certificate.isAuthority == other.isAuthority, sourceLocation: sourceLocation)
  #expect(certificate.issuerDER == other.issuerDER, sourceLocation: sourceLocation)
  #expect(certificate.serialBytes == other.serialBytes, sourceLocation: sourceLocation)
  #expect(certificate.subjectDER == other.subjectDER, sourceLocation: sourceLocation)
  #expect(certificate.subjectKeyID == other.subjectKeyID, sourceLocation: sourceLocation)
  #expect(certificate.namesClientAuth == other.namesClientAuth, sourceLocation: sourceLocation)
  #expect(certificate.extensions == other.extensions, sourceLocation: sourceLocation)
}

@Suite("Certificates, byte by byte")
struct CertificateReaderTests {
  @Test("Versions 1 to 3 are read, with and without what later ones have")
  func versions() {
    #expect(Parts.reading { $0.version = [] }?.extensions == [])
    #expect(Parts.reading { $0.version = [0xa0, 3, 2, 1, 1] } != nil)
    #expect(Parts.reading { $0.version = [0xa0, 3, 2, 1, 3] } == nil)
    #expect(Parts.reading { $0.version = [0xa0, 4, 2, 2, 0, 2] } == nil)
    #expect(Parts.reading { $0.identifiers = [0x81, 2, 0, 1, 0x82, 2, 0, 1] } != nil)
    #expect(Parts.reading { $0.identifiers = [0x83, 2, 0, 1] } == nil)
  }

  @Test("A serial number is its magnitude, in the shortest form")
  func serials() {
    func serial(_ content: [UInt8]) -> [UInt8]? {
      Parts.reading { $0.serial = element(2, content) }?.serialBytes
    }
    #expect(serial([0]) == [0])
    #expect(serial([0x7f]) == [0x7f])
    #expect(serial([0, 0x80]) == [0x80])
    #expect(serial([0xff]) == [1])
    #expect(serial([0x80]) == [0x80])
    #expect(serial([0xff, 0]) == [1, 0])
    #expect(serial([]) == nil)
    #expect(serial([0, 1]) == nil)
    #expect(serial([0xff, 0x80]) == nil)
    #expect(Parts.reading { $0.serial = [2, 3, 0x01, 0, 0x0a] }?.serial == "01000a")
    #expect(Parts.reading { $0.serial = [2, 1, 0] }?.serial == "")
  }

  @Test("Times are read in both forms, and only as whole seconds in UTC")
  func times() {
    func seconds(_ tag: UInt8, _ time: String) -> Int64? {
      Parts.reading { $0.notAfter = text(tag, time) }?.notAfter
    }
    #expect(seconds(0x17, "700101000000Z") == 0)
    #expect(seconds(0x17, "500101000000Z") == -631_152_000)
    #expect(seconds(0x17, "491231235959Z") == 2_524_607_999)
    #expect(seconds(0x18, "20500101000000Z") == 2_524_608_000)
    #expect(seconds(0x18, "99991231235959Z") == 253_402_300_799)
    #expect(seconds(0x18, "20000229120000Z") == 951_825_600)
    #expect(seconds(0x17, "240229000000Z") == 1_709_164_800)
    for wrong in [
      "250229000000Z", "250431000000Z", "251301000000Z", "250001000000Z", "250100000000Z",
      "250101240000Z", "250101006000Z", "250101000060Z", "2501010000Z", "250101000000",
      "250101000000+0100", "25010100000 Z", "250101000000z", "",
    ] {
      #expect(seconds(0x17, wrong) == nil, "\(wrong)")
    }
    #expect(seconds(0x18, "21000229000000Z") == nil)
    #expect(seconds(0x18, "20250101000000.5Z") == nil)
    #expect(seconds(0x0c, "250101000000Z") == nil)
  }

  @Test("An attribute is read in every type of text; the first one counts")
  func texts() {
    func name(_ tag: UInt8, _ content: [UInt8]) -> String? {
      Parts.reading { $0.subject = [attribute(commonName, element(tag, content))] }?
        .subject.commonName
    }
    #expect(name(0x0c, Array("Küche".utf8)) == "Küche")
    #expect(name(0x0c, [0x4b, 0xff]) == nil)
    #expect(name(0x13, Array("Kitchen".utf8)) == "Kitchen")
    #expect(name(0x14, [0x4b, 0xfc]) == "Kü")
    #expect(name(0x16, Array("a@b".utf8)) == "a@b")
    #expect(name(0x1e, [0, 0x4b, 0x26, 0x3a]) == "K☺")
    #expect(name(0x1e, [0, 0x4b, 0x26]) == nil)
    #expect(name(0x1e, [0xd8, 0]) == nil)
    #expect(name(0x1c, [0, 1, 0xf6, 0]) == "😀")
    #expect(name(0x04, [0x4b]) == nil)
    #expect(name(0x0c, [0x4b, 0, 0x4c]) == nil)
    #expect(name(0x13, [0x4b, 0]) == nil)
    #expect(name(0x0c, []) == "")
    let twice = Parts.reading {
      $0.subject = [
        attribute(commonName, text(0x0c, "first")), attribute(commonName, text(0x0c, "second")),
      ]
    }
    #expect(twice?.subject.commonName == "first")
    // One set of two attributes.
    let both = Parts.reading {
      $0.subject = [
        element(
          0x31, sequence(commonName, text(0x0c, "name")) + sequence(unit, text(0x0c, "unit")))
      ]
    }
    #expect(both?.subject == .init(commonName: "name", organizationalUnit: "unit"))
    #expect(Parts.reading { $0.subject = [] }?.subject == .init())
    #expect(Parts.reading { $0.subject = [element(0x31, [])] } == nil)
    #expect(Parts.reading { $0.subject = [attribute(commonName, [])] } == nil)
  }

  @Test("A key is P-256, RSA of so many bits, or another")
  func keys() {
    func kind(_ key: Element) -> KeyKind? { Parts.reading { $0.key = key }?.keyKind }
    func rsa(_ modulus: [UInt8]) -> Element {
      sequence(
        sequence(rsaEncryption, [5, 0]),
        element(3, [0] + sequence(element(2, modulus), [2, 3, 1, 0, 1])))
    }
    #expect(Parts.reading { _ in }?.keyKind == .p256)
    #expect(kind(rsa([0, 0x80] + [UInt8](repeating: 1, count: 255))) == .rsa(bits: 2048))
    #expect(kind(rsa([0x40] + [UInt8](repeating: 1, count: 127))) == .rsa(bits: 1023))
    #expect(kind(rsa([])) == nil)
    let secp384r1: Element = [0x06, 5, 0x2b, 0x81, 4, 0, 0x22]
    #expect(kind(sequence(sequence(ecPublicKey, secp384r1), [3, 2, 0, 4])) == .other)
    #expect(kind(sequence(sequence(ecPublicKey, [5, 0]), [3, 2, 0, 4])) == .other)
    let ed25519 = sequence(
      sequence([0x06, 3, 0x2b, 0x65, 0x70]), element(3, [0] + [UInt8](1...32)))
    #expect(kind(ed25519) == .other)
    // Bit strings of 7 and of no bits, and without their count of unused ones.
    #expect(kind(sequence(sequence(ecPublicKey), [3, 2, 1, 4])) == .other)
    #expect(kind(sequence(sequence(ecPublicKey), [3, 2, 8, 4])) == nil)
    #expect(kind(sequence(sequence(ecPublicKey), [3, 0])) == nil)
  }

  @Test("Authorities are those whose constraints and usage say so")
  func authorities() {
    let constraints: Element = [0x06, 3, 0x55, 0x1d, 0x13]
    let usage: Element = [0x06, 3, 0x55, 0x1d, 0x0f]
    func isAuthority(_ extensions: [(Element, Element)]) -> Bool? {
      Parts.reading {
        $0.extensions = extensions.map { sequence($0, [1, 1, 0xff], element(4, $1)) }
      }?.isAuthority
    }
    let yes = sequence([1, 1, 0xff])
    #expect(isAuthority([]) == false)
    #expect(isAuthority([(constraints, yes)]) == true)
    #expect(isAuthority([(constraints, sequence([1, 1, 0xff], [2, 1, 0]))]) == true)
    #expect(isAuthority([(constraints, sequence())]) == false)
    #expect(isAuthority([(constraints, sequence([1, 1, 0]))]) == false)
    #expect(isAuthority([(constraints, yes), (usage, [3, 2, 2, 0x04])]) == true)
    #expect(isAuthority([(constraints, yes), (usage, [3, 2, 7, 0x80])]) == false)
    #expect(isAuthority([(usage, [3, 2, 2, 0x04])]) == false)
    #expect(isAuthority([(constraints, yes), (usage, [3, 1, 0])]) == nil)
    #expect(isAuthority([(constraints, yes), (constraints, yes)]) == nil)
    #expect(isAuthority([(constraints, yes + [0])]) == nil)
  }

  @Test("An extension may be critical in any way that readers take for true")
  func critical() {
    func flags(_ flag: Element) -> [Bool]? {
      Parts.reading { $0.extensions = [sequence([0x06, 2, 0x2a, 3], flag, [4, 1, 7])] }?
        .extensions.map(\.isCritical)
    }
    #expect(flags([]) == [false])
    #expect(flags([1, 1, 0xff]) == [true])
    #expect(flags([1, 1, 1]) == [true])
    #expect(flags([1, 1, 0]) == [false])
    #expect(flags([1, 0]) == nil)
    #expect(flags([2, 1, 1]) == nil)
  }

  @Test("Client authentication is among the purposes, or none is listed")
  func purposes() {
    let client: Element = [0x06, 8, 0x2b, 6, 1, 5, 5, 7, 3, 2]
    let server: Element = [0x06, 8, 0x2b, 6, 1, 5, 5, 7, 3, 1]
    func namesClient(_ value: Element) -> Bool? {
      Parts.reading { $0.extensions = [sequence([0x06, 3, 0x55, 0x1d, 0x25], element(4, value))] }?
        .namesClientAuth
    }
    #expect(namesClient(sequence(client)) == true)
    #expect(namesClient(sequence(server, client)) == true)
    #expect(namesClient(sequence(server)) == false)
    #expect(namesClient(sequence()) == nil)
    #expect(Parts.reading { $0.extensions = [] }?.namesClientAuth == false)
  }

  @Test("The authorities of the system are read as OpenSSL reads them")
  func systemAuthorities() throws {
    let text = try String(contentsOfFile: "/etc/ssl/certs/ca-certificates.crt", encoding: .utf8)
    let blocks = PEM.blocks(of: text)
    #expect(blocks.count > 50)
    for block in blocks {
      let certificate = try Certificate(der: block.der.span)
      expectAgreement(certificate)
      #expect(certificate.isAuthority || certificate.extensions.isEmpty)
    }
  }

  @Test("Whatever is changed in a certificate, OpenSSL reads the same or more")
  func agreement() throws {
    var random = SeededRandom(seed: .random(in: 0...UInt64.max))
    let authority = try CertificateAuthority.create(
      commonName: "Authority", validity: Validity(now: 1_800_000_000, days: 10))
    let pems = [
      Fixtures.providerPEM, Fixtures.weakDevicePEM, Fixtures.rsaCertificatePEM,
      authority.certificate.pem,
    ]
    for pem in pems {
      let certificate = try Certificate(pem: pem)
      expectAgreement(certificate)
      // OpenSSL also rejects a key that is none, such as a point beside the curve.
      let key = try #require(
        certificate.der.indices.first {
          certificate.der[$0...].starts(with: certificate.spkiDER)
        })
      let places = certificate.der.indices.filter {
        !(key..<key + certificate.spkiDER.count).contains($0)
      }
      for _ in 0..<2000 {
        var der = certificate.der
        let place = random.pick(places)
        switch random.below(4) {
        case 0: der[place] = UInt8(random.below(256))
        case 1: der[place] ^= 1 << UInt8(random.below(8))
        case 2: der.swapAt(place, random.pick(places))
        default: der[place] = random.pick([0, 1, 0x7f, 0x80, 0xff])
        }
        if let changed = try? Certificate(der: der.span) { expectAgreement(changed) }
      }
    }
  }
}
