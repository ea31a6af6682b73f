/// The base64url alphabet without padding: RFC 4648, section 5, as RFC 7515 uses it.
enum Base64URLText {
  static func encode(_ bytes: [UInt8]) -> String {
    var text: [UInt8] = []
    text.reserveCapacity((bytes.count * 4 + 2) / 3)
    var bits: UInt32 = 0
    var count = 0
    for byte in bytes {
      bits = bits << 8 | UInt32(byte)
      count += 8
      while count >= 6 {
        count -= 6
        text.append(digit(UInt8(bits >> count & 0x3f)))
      }
    }
    if count > 0 { text.append(digit(UInt8(bits << (6 - count) & 0x3f))) }
    return String(decoding: text, as: UTF8.self)
  }

  /// Reads the text, with or without its padding; nil for anything that an encoder would not write.
  static func decode(_ text: Span<UInt8>) -> [UInt8]? {
    var end = text.count
    while end > 0, text[end - 1] == UInt8(ascii: "="), text.count - end < 2 { end -= 1 }
    guard end == text.count || text.count % 4 == 0, end % 4 != 1 else { return nil }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(end * 3 / 4)
    var bits: UInt32 = 0
    var count = 0
    for index in 0..<end {
      guard let value = value(text[index]) else { return nil }
      bits = bits << 6 | UInt32(value)
      count += 6
      if count >= 8 {
        count -= 8
        bytes.append(UInt8(truncatingIfNeeded: bits >> count))
      }
    }
    // Bits that no byte takes up must be zero, or several texts would mean the same bytes.
    guard bits & (1 << count - 1) == 0 else { return nil }
    return bytes
  }

  private static func digit(_ value: UInt8) -> UInt8 {
    switch value {
    case 0..<26: value + UInt8(ascii: "A")
    case 26..<52: value - 26 + UInt8(ascii: "a")
    case 52..<62: value - 52 + UInt8(ascii: "0")
    case 62: UInt8(ascii: "-")
    default: UInt8(ascii: "_")
    }
  }

  private static func value(_ digit: UInt8) -> UInt8? {
    switch digit {
    case UInt8(ascii: "A")...UInt8(ascii: "Z"): digit - UInt8(ascii: "A")
    case UInt8(ascii: "a")...UInt8(ascii: "z"): digit - UInt8(ascii: "a") + 26
    case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0") + 52
    case UInt8(ascii: "-"): 62
    case UInt8(ascii: "_"): 63
    default: nil
    }
  }
}
