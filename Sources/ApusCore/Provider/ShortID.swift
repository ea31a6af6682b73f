/// The identifier of a team or a key: ten ASCII letters and digits.
///
/// "Establishing a token-based connection to APNs": the key id and the team id are 10-character values. Stored in two
/// words, so that comparing and hashing need no String.
package struct ShortID: Sendable, Hashable {
  /// The first eight characters, the first the most significant.
  package var high: UInt64
  /// The last two.
  package var low: UInt16

  package static let characterCount = 10

  init(high: UInt64, low: UInt16) {
    self.high = high
    self.low = low
  }

  /// Takes exactly ten ASCII letters and digits in either case.
  package init?(_ text: Span<UInt8>) {
    guard text.count == Self.characterCount else { return nil }
    var high: UInt64 = 0
    var low: UInt16 = 0
    for index in 0..<Self.characterCount {
      let byte = text[index]
      guard isASCIILetterOrDigit(byte) else { return nil }
      if index < 8 { high = high &<< 8 | UInt64(byte) } else { low = low &<< 8 | UInt16(byte) }
    }
    self.high = high
    self.low = low
  }

  /// The same from a String: for configuration and tests.
  package init?(_ text: String) {
    let bytes = Array(text.utf8)
    self.init(bytes.span)
  }

  /// The ten characters.
  package var text: String {
    var bytes = [UInt8]()
    for shift in stride(from: UInt64(56), through: 0, by: -8) {
      bytes.append(UInt8(truncatingIfNeeded: high &>> shift))
    }
    bytes.append(UInt8(truncatingIfNeeded: low &>> 8))
    bytes.append(UInt8(truncatingIfNeeded: low))
    return String(decoding: bytes, as: UTF8.self)
  }
}

/// Whether the byte is one of `0-9`, `A-Z`, `a-z`.
@inline(__always)
func isASCIILetterOrDigit(_ byte: UInt8) -> Bool {
  byte &- 0x30 < 10 || (byte | 0x20) &- 0x61 < 26
}
