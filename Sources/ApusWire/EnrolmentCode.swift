internal import ApusModel

/// A one-time code with which a device requests its first certificate: 128 random bits in a form that people can read
/// out and type.
///
/// 28 letters and digits in seven groups: the 128 bits, then a 12-bit checksum, which detects typing errors before a
/// request is sent. The alphabet is Crockford's base32, without I, L, O and U; the first three are read as the digits
/// that they resemble. Case, hyphens and spaces are ignored.
package struct EnrolmentCode: Sendable, Hashable {
  package static let byteCount = 16

  package let bytes: [UInt8]

  /// - Parameter bytes: 16, from a cryptographically secure generator.
  package init(bytes: [UInt8]) {
    precondition(bytes.count == Self.byteCount, "a code has 128 bits")
    self.bytes = bytes
  }

  private static let alphabet = Array("0123456789ABCDEFGHJKMNPQRSTVWXYZ".utf8)
  private static let groupLength = 4
  private static let length = 28

  /// Seven groups separated by hyphens.
  package var text: String {
    let check = Self.checksum(bytes)
    // 12 bits fill the last byte and a half, so the digits end on a bit boundary.
    let padded = bytes + [UInt8(check >> 4), UInt8(check & 15) << 4]
    var text: [UInt8] = []
    for index in 0..<Self.length {
      if index > 0, index.isMultiple(of: Self.groupLength) { text.append(0x2d) }
      let bit = index * 5
      let pair =
        UInt16(padded[bit / 8]) << 8 | UInt16(bit / 8 + 1 < padded.count ? padded[bit / 8 + 1] : 0)
      text.append(Self.alphabet[Int(pair >> UInt16(11 - bit % 8)) & 31])
    }
    return String(decoding: text, as: UTF8.self)
  }

  /// Reads a typed code; nil if it cannot be one.
  package init?(text: Span<UInt8>) {
    guard text.count <= Limits.enrolmentCodeBytes else { return nil }
    var bits: [UInt8] = []
    var buffer: UInt32 = 0
    var held = 0
    var count = 0
    for index in text.indices {
      if text[index] == 0x2d || text[index] == 0x20 { continue }
      guard let value = Self.value(text[index]), count < Self.length else { return nil }
      count += 1
      buffer = buffer << 5 | UInt32(value)
      held += 5
      if held >= 8 {
        held -= 8
        bits.append(UInt8(truncatingIfNeeded: buffer >> UInt32(held)))
        buffer &= (1 << UInt32(held)) - 1
      }
    }
    // 140 bits: 17 bytes, and four bits left.
    guard count == Self.length else { return nil }
    let bytes = Array(bits[..<Self.byteCount])
    guard UInt16(bits[Self.byteCount]) << 4 | UInt16(buffer) == Self.checksum(bytes) else {
      return nil
    }
    self.init(bytes: bytes)
  }

  private static func value(_ character: UInt8) -> UInt8? {
    let upper = character &- 0x61 < 26 ? character & 0xdf : character
    switch upper {
    case UInt8(ascii: "O"): return 0
    case UInt8(ascii: "I"), UInt8(ascii: "L"): return 1
    default: return alphabet.firstIndex(of: upper).map { UInt8($0) }
    }
  }

  /// CRC-12 with the polynomial x^12 + x^11 + x^3 + x^2 + x + 1 (3GPP TS 25.212, section 4.2.1.1): it detects every
  /// error in one character and every swap of two neighbours.
  private static func checksum(_ bytes: [UInt8]) -> UInt16 {
    var rest: UInt16 = 0
    for byte in bytes {
      for bit in stride(from: 7, through: 0, by: -1) {
        let top = rest >> 11 & 1 ^ UInt16(byte >> UInt8(bit) & 1)
        rest = rest << 1 & 0xfff
        if top == 1 { rest ^= 0x80f }
      }
    }
    return rest
  }
}
