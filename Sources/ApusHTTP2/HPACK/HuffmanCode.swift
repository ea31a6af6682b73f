/// The Huffman code of RFC 7541, appendix B.
///
/// Codes of one length are consecutive in the order of their symbols, and longer ones follow shorter ones, so the
/// lengths define the whole code.
enum HuffmanCode {
  /// The symbol after the last byte: EOS, whose code is never sent, but pads the last byte.
  static let endOfString = 256
  static let longest = 30

  /// The length in bits of the code of each byte, and of EOS.
  static let lengths: [UInt8] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
  ]

  /// The code of each byte, in the low bits.
  private static let codes: [UInt32] = {
    var codes = [UInt32](repeating: 0, count: endOfString + 1)
    var next: UInt32 = 0
    for length in 1...longest {
      next <<= 1
      for symbol in 0...endOfString where lengths[symbol] == length {
        codes[symbol] = next
        next += 1
      }
    }
    return codes
  }()

  /// The text in code, padded with ones (section 5.2).
  static func encode(_ text: Span<UInt8>) -> [UInt8] {
    var bytes: [UInt8] = []
    var bits: UInt64 = 0
    var count: UInt64 = 0
    for index in text.indices {
      let symbol = Int(text[index])
      bits = bits << UInt64(lengths[symbol]) | UInt64(codes[symbol])
      count += UInt64(lengths[symbol])
      while count >= 8 {
        count -= 8
        bytes.append(UInt8(truncatingIfNeeded: bits >> count))
      }
    }
    if count > 0 { bytes.append(UInt8(truncatingIfNeeded: bits << (8 - count) | 0xff >> count)) }
    return bytes
  }
}
