import ApusModel

/// Reads a certificate: RFC 5280, section 4.1, in DER.
///
/// A device's certificate is read at each of its connections. OpenSSL's reader looks for a decoder of the public key
/// among all that are loaded, which takes longer than the rest of a resumed handshake; it reads the same bytes where a
/// chain is verified.
struct CertificateReader: ~Escapable {
  private let bytes: Span<UInt8>

  @_lifetime(copy bytes)
  init(_ bytes: Span<UInt8>) { self.bytes = bytes }

  func certificate() throws(DERFault) -> Certificate {
    var outer = DERReader(bytes)
    var parts = try outer.inside(DER.Tag.sequence)
    try outer.expectEnd()
    var fields = try parts.inside(DER.Tag.sequence)
    try skipAlgorithm(&parts)
    _ = try bitString(&parts)
    try parts.expectEnd()

    if fields.nextTag == DER.Tag.constructed(0) { try readVersion(&fields) }
    let serial = try serial(&fields)
    try skipAlgorithm(&fields)
    let issuer = try fields.whole(DER.Tag.sequence)
    var validity = try fields.inside(DER.Tag.sequence)
    let notBefore = try time(&validity)
    let notAfter = try time(&validity)
    try validity.expectEnd()
    let subject = try fields.whole(DER.Tag.sequence)
    let key = try fields.whole(DER.Tag.sequence)
    // The unique identifiers, which nobody uses.
    for number: UInt8 in 1...2 where fields.nextTag == DER.Tag.context(number) {
      _ = try bitString(&fields, DER.Tag.context(number))
    }
    let extensions = fields.isAtEnd ? [] : try extensions(&fields)
    try fields.expectEnd()
    let marks = try ExtensionMarks(extensions)
    _ = try name(issuer)
    return Certificate(
      der: bytes.copied(),
      subject: try name(subject),
      serial: Self.digits(of: serial),
      notBefore: notBefore,
      notAfter: notAfter,
      keyKind: try keyKind(key),
      spkiDER: bytes.extracting(key).copied(),
      isAuthority: marks.isAuthority,
      issuerDER: bytes.extracting(issuer).copied(),
      serialBytes: serial,
      subjectDER: bytes.extracting(subject).copied(),
      subjectKeyID: marks.subjectKeyID,
      namesClientAuth: marks.namesClientAuth,
      extensions: extensions)
  }

  // MARK: Numbers

  private func readVersion(_ fields: inout DERReader) throws(DERFault) {
    var version = try fields.inside(DER.Tag.constructed(0))
    let value = try integer(&version)
    guard value.count == 1, bytes[value.lowerBound] < 3 else {
      throw .value(at: value.lowerBound)
    }
    try version.expectEnd()
  }

  /// The content of a number in its shortest form.
  private func integer(_ reader: inout DERReader) throws(DERFault) -> Range<Int> {
    let content = try reader.element(DER.Tag.integer)
    guard let first = content.first else { throw .value(at: content.lowerBound) }
    if content.count > 1 {
      let isPadded =
        bytes[first] == 0 && bytes[first + 1] < 0x80
        || bytes[first] == 0xff && bytes[first + 1] >= 0x80
      guard !isPadded else { throw .value(at: first) }
    }
    return content
  }

  /// The magnitude. RFC 5280, section 4.1.2.2, asks readers to accept negative numbers.
  private func serial(_ fields: inout DERReader) throws(DERFault) -> [UInt8] {
    let content = try integer(&fields)
    var magnitude = bytes.extracting(content).copied()
    if magnitude[0] >= 0x80 {
      var carry = true
      for index in magnitude.indices.reversed() {
        magnitude[index] = ~magnitude[index] &+ (carry ? 1 : 0)
        carry = carry && magnitude[index] == 0
      }
    }
    if magnitude.count > 1, magnitude[0] == 0 { magnitude.removeFirst() }
    return magnitude
  }

  private static func digits(of bytes: [UInt8]) -> String {
    String(
      decoding: bytes.drop { $0 == 0 }.flatMap { [hexDigit($0 >> 4), hexDigit($0 & 15)] },
      as: UTF8.self)
  }

  /// The bits behind the count of those that are unused in the last byte.
  private func bitString(
    _ reader: inout DERReader, _ tag: UInt8 = DER.Tag.bitString
  ) throws(DERFault) -> Range<Int> {
    let content = try reader.element(tag)
    guard let first = content.first, bytes[first] < 8, bytes[first] == 0 || content.count > 1 else {
      throw .value(at: content.lowerBound)
    }
    return content.dropFirst()
  }

  /// X.690, section 8.19: each number begins with a byte other than 0x80, and ends.
  private func oid(_ reader: inout DERReader) throws(DERFault) -> Range<Int> {
    let content = try reader.element(DER.Tag.objectIdentifier)
    var isFirst = true
    for index in content {
      guard !isFirst || bytes[index] != 0x80 else { throw .value(at: index) }
      isFirst = bytes[index] < 0x80
    }
    guard isFirst, !content.isEmpty else { throw .value(at: content.lowerBound) }
    return content
  }

  /// `SEQUENCE { OBJECT IDENTIFIER, parameters OPTIONAL }`. Known signatures have none, NULL, or a sequence.
  private func skipAlgorithm(_ reader: inout DERReader) throws(DERFault) {
    var algorithm = try reader.inside(DER.Tag.sequence)
    _ = try oid(&algorithm)
    switch algorithm.nextTag {
    case DER.Tag.null:
      let content = try algorithm.element(DER.Tag.null)
      guard content.isEmpty else { throw .value(at: content.lowerBound) }
    case DER.Tag.sequence: _ = try algorithm.element(DER.Tag.sequence)
    default: break
    }
    try algorithm.expectEnd()
  }

  // MARK: Times

  /// Unix seconds. Only the forms of RFC 5280, section 4.1.2.5: whole seconds, in UTC.
  private func time(_ reader: inout DERReader) throws(DERFault) -> Int64 {
    let start = reader.position
    let (tag, content) = try reader.anyElement()
    let isShort = tag == DER.Tag.utcTime
    guard isShort || tag == DER.Tag.generalizedTime, content.count == (isShort ? 13 : 15),
      bytes[content.upperBound - 1] == UInt8(ascii: "Z")
    else { throw .value(at: start) }
    var index = content.lowerBound
    func number(_ digits: Int) throws(DERFault) -> Int {
      var value = 0
      for _ in 0..<digits {
        let digit = bytes[index] &- UInt8(ascii: "0")
        guard digit < 10 else { throw .value(at: index) }
        value = value * 10 + Int(digit)
        index += 1
      }
      return value
    }
    var year = try number(isShort ? 2 : 4)
    if isShort { year += year < 50 ? 2000 : 1900 }
    guard
      let seconds = CivilTime.unixSeconds(
        year: year, month: try number(2), day: try number(2), hour: try number(2),
        minute: try number(2), second: try number(2))
    else { throw .value(at: start) }
    return seconds
  }

  // MARK: Names

  /// The first of each attribute.
  private func name(_ name: Range<Int>) throws(DERFault) -> Certificate.Subject {
    var subject = Certificate.Subject()
    var names = DERReader(bytes, within: name)
    var sets = try names.inside(DER.Tag.sequence)
    var seen: Set<OID> = []
    while !sets.isAtEnd {
      var attributes = try sets.inside(DER.Tag.set)
      repeat {
        var attribute = try attributes.inside(DER.Tag.sequence)
        let type = try oid(&attribute)
        let text = try text(&attribute)
        try attribute.expectEnd()
        let oid = OID(content: bytes.extracting(type).copied())
        guard seen.insert(oid).inserted, let text else { continue }
        switch oid {
        case .userID: subject.userID = text
        case .commonName: subject.commonName = text
        case .organization: subject.organization = text
        case .organizationalUnit: subject.organizationalUnit = text
        case .country: subject.country = text
        default: break
        }
      } while !attributes.isAtEnd
    }
    return subject
  }

  /// The text of a string of any type; nil for what is no text.
  private func text(_ reader: inout DERReader) throws(DERFault) -> String? {
    // An identifier.
    if reader.nextTag == DER.Tag.bitString {
      _ = try bitString(&reader)
      return nil
    }
    let (tag, content) = try reader.anyElement()
    let text: String? =
      switch tag {
      case DER.Tag.utf8String:
        String(validating: bytes.extracting(content).copied(), as: UTF8.self)
      // NumericString, PrintableString, TeletexString (in practice Latin-1), IA5String.
      case 0x12, DER.Tag.printableString, 0x14, 0x16: scalars(content, width: 1)
      case 0x1c: scalars(content, width: 4)
      case 0x1e: scalars(content, width: 2)
      default: nil
      }
    guard let text else { throw .value(at: content.lowerBound) }
    // A zero byte in a name is an old attack on readers that stop there.
    return text.utf8.contains(0) ? nil : text
  }

  /// Text of fixed-width characters, big-endian.
  private func scalars(_ content: Range<Int>, width: Int) -> String? {
    guard content.count.isMultiple(of: width) else { return nil }
    var text = String.UnicodeScalarView()
    for start in stride(from: content.lowerBound, to: content.upperBound, by: width) {
      var value: UInt32 = 0
      for index in start..<start + width { value = value << 8 | UInt32(bytes[index]) }
      guard let scalar = Unicode.Scalar(value) else { return nil }
      text.append(scalar)
    }
    return String(text)
  }

  // MARK: The key

  /// Whether the key itself is one, such as a point on its curve, is seen where it is used.
  private func keyKind(_ key: Range<Int>) throws(DERFault) -> KeyKind {
    var outer = DERReader(bytes, within: key)
    var info = try outer.inside(DER.Tag.sequence)
    var algorithm = try info.inside(DER.Tag.sequence)
    let type = try oid(&algorithm)
    let bits = try bitString(&info)
    try info.expectEnd()
    if names(type, .rsaEncryption) { return .rsa(bits: try modulusBits(bits)) }
    guard names(type, .ecPublicKey), algorithm.nextTag == DER.Tag.objectIdentifier else {
      return .other
    }
    return names(try oid(&algorithm), .p256) ? .p256 : .other
  }

  private func names(_ type: Range<Int>, _ oid: OID) -> Bool {
    bytes.extracting(type).equals(oid.content.span)
  }

  /// RFC 8017, appendix A.1.1: `SEQUENCE { INTEGER modulus, INTEGER exponent }`.
  private func modulusBits(_ key: Range<Int>) throws(DERFault) -> Int {
    var outer = DERReader(bytes, within: key)
    var numbers = try outer.inside(DER.Tag.sequence)
    try outer.expectEnd()
    let modulus = try integer(&numbers)
    _ = try integer(&numbers)
    try numbers.expectEnd()
    let significant = modulus.drop { bytes[$0] == 0 }
    guard let first = significant.first else { return 0 }
    return 8 * significant.count - bytes[first].leadingZeroBitCount
  }

  // MARK: Extensions

  private func extensions(
    _ fields: inout DERReader
  ) throws(DERFault) -> [Certificate.Extension] {
    var outer = try fields.inside(DER.Tag.constructed(3))
    var list = try outer.inside(DER.Tag.sequence)
    try outer.expectEnd()
    var extensions: [Certificate.Extension] = []
    while !list.isAtEnd {
      var entry = try list.inside(DER.Tag.sequence)
      let type = try oid(&entry)
      let isCritical = entry.nextTag == DER.Tag.boolean ? try entry.boolean() : false
      let value = try entry.element(DER.Tag.octetString)
      try entry.expectEnd()
      extensions.append(
        Certificate.Extension(
          oid: OID(content: bytes.extracting(type).copied()), isCritical: isCritical,
          value: bytes.extracting(value).copied()))
    }
    return extensions
  }
}

/// What the extensions say of a certificate's use. Each counts only once: a repeated one makes a certificate
/// unreadable, because readers would disagree about it.
private struct ExtensionMarks {
  private(set) var subjectKeyID: [UInt8]?
  private(set) var namesClientAuth = false
  private var isCA = false
  private var maySignCertificates: Bool?
  private var seen: Set<OID> = []

  /// RFC 5280, section 4.2.1.3: an authority whose key usage is limited must be allowed to sign certificates.
  var isAuthority: Bool { isCA && maySignCertificates ?? true }

  init(_ extensions: [Certificate.Extension]) throws(DERFault) {
    for entry in extensions {
      let known: [OID] = [.subjectKeyID, .basicConstraints, .keyUsage, .extendedKeyUsage]
      guard known.contains(entry.oid) else { continue }
      guard seen.insert(entry.oid).inserted else { throw .value(at: 0) }
      var reader = DERReader(entry.value.span)
      switch entry.oid {
      case .subjectKeyID: subjectKeyID = Array(entry.value[try reader.element(DER.Tag.octetString)])
      case .basicConstraints: try readConstraints(&reader)
      case .keyUsage: try readUsage(&reader, entry.value)
      default: try readPurposes(&reader, entry.value)
      }
      try reader.expectEnd()
    }
  }

  /// RFC 5280, section 4.2.1.9.
  private mutating func readConstraints(_ reader: inout DERReader) throws(DERFault) {
    var constraints = try reader.inside(DER.Tag.sequence)
    if constraints.nextTag == DER.Tag.boolean { isCA = try constraints.boolean() }
    if !constraints.isAtEnd { _ = try constraints.element(DER.Tag.integer) }
    try constraints.expectEnd()
  }

  /// The bits after a count of those that are unused.
  private mutating func readUsage(
    _ reader: inout DERReader, _ value: [UInt8]
  ) throws(DERFault) {
    let bits = value[try reader.element(DER.Tag.bitString)]
    guard let unused = bits.first, unused < 8, bits.dropFirst().contains(where: { $0 != 0 }) else {
      throw .value(at: bits.startIndex)
    }
    let first = bits[bits.startIndex + 1]
    maySignCertificates = first & CertificateTemplate.KeyUsage.keyCertSign != 0
  }

  private mutating func readPurposes(
    _ reader: inout DERReader, _ value: [UInt8]
  ) throws(DERFault) {
    var purposes = try reader.inside(DER.Tag.sequence)
    repeat {
      let purpose = try purposes.element(DER.Tag.objectIdentifier)
      if value[purpose].elementsEqual(OID.clientAuth.content) { namesClientAuth = true }
    } while !purposes.isAtEnd
  }
}
