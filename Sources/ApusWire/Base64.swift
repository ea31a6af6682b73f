/// Base64 with the URL alphabet and without padding (RFC 4648, section 5), as in JSON Web Tokens.
package enum Base64URL {
  package static func encode(_ bytes: Span<UInt8>) -> [UInt8] { Base64Alphabet.url.encode(bytes) }

  /// Decodes `text`, with or without padding; nil unless it is a canonical encoding.
  package static func decode(_ text: Span<UInt8>) -> [UInt8]? { Base64Alphabet.url.decode(text) }
}

/// Base64 with the standard alphabet and padding (RFC 4648, section 4), as in channel ids.
package enum Base64 {
  package static func encode(_ bytes: Span<UInt8>) -> [UInt8] {
    var text = Base64Alphabet.standard.encode(bytes)
    while !text.count.isMultiple(of: 4) { text.append(Base64Alphabet.padding) }
    return text
  }

  /// Decodes `text`, with or without padding; nil unless it is a canonical encoding.
  package static func decode(_ text: Span<UInt8>) -> [UInt8]? {
    Base64Alphabet.standard.decode(text)
  }
}

private enum Base64Alphabet {
  case standard
  case url

  static let padding: UInt8 = 0x3d

  func digit(_ value: UInt8) -> UInt8 {
    switch value {
    case 0..<26: 0x41 + value
    case 26..<52: 0x61 + value - 26
    case 52..<62: 0x30 + value - 52
    case 62: self == .url ? 0x2d : 0x2b
    default: self == .url ? 0x5f : 0x2f
    }
  }

  func value(_ digit: UInt8) -> UInt8? {
    switch digit {
    case 0x41...0x5a: digit - 0x41
    case 0x61...0x7a: digit - 0x61 + 26
    case 0x30...0x39: digit - 0x30 + 52
    case self == .url ? 0x2d : 0x2b: 62
    case self == .url ? 0x5f : 0x2f: 63
    default: nil
    }
  }

  func encode(_ bytes: Span<UInt8>) -> [UInt8] {
    var text: [UInt8] = []
    text.reserveCapacity((bytes.count + 2) / 3 * 4)
    var bits: UInt32 = 0
    var held = 0
    for index in bytes.indices {
      bits = bits &<< 8 | UInt32(bytes[index])
      held += 8
      while held >= 6 {
        held -= 6
        text.append(digit(UInt8(truncatingIfNeeded: bits &>> UInt32(held)) & 63))
      }
    }
    if held > 0 { text.append(digit(UInt8(truncatingIfNeeded: bits &<< UInt32(6 - held)) & 63)) }
    return text
  }

  func decode(_ text: Span<UInt8>) -> [UInt8]? {
    var digits = text.count
    while digits > 0, text[digits - 1] == Self.padding { digits -= 1 }
    let padded = text.count - digits
    guard padded == 0 || padded == (4 - digits % 4) % 4, digits % 4 != 1 else { return nil }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(digits / 4 * 3 + 2)
    var bits: UInt32 = 0
    var held = 0
    for index in 0..<digits {
      guard let value = value(text[index]) else { return nil }
      bits = bits &<< 6 | UInt32(value)
      held += 6
      if held >= 8 {
        held -= 8
        bytes.append(UInt8(truncatingIfNeeded: bits &>> UInt32(held)))
      }
    }
    // RFC 4648, section 3.5: bits after the last byte must be zero, or one value would have several spellings.
    guard bits & (1 &<< UInt32(held) - 1) == 0 else { return nil }
    return bytes
  }
}
