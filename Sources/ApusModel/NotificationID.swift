/// A notification's identity: the 16 bytes behind an `apns-id` or an `apns-unique-id`.
public struct NotificationID: Sendable, Hashable {
  public var high: UInt64
  public var low: UInt64

  public init(high: UInt64, low: UInt64) {
    self.high = high
    self.low = low
  }

  /// Characters of the text form, 8-4-4-4-12 with hyphens.
  public static let textLength = 36

  /// Reads the form 8-4-4-4-12 in either case; nil for anything else.
  public init?(text: Span<UInt8>) {
    guard text.count == Self.textLength,
      text[8] == 0x2d, text[13] == 0x2d, text[18] == 0x2d, text[23] == 0x2d,
      let first = hexValue(ofEight: text.eightBytes(at: 0)),
      let second = hexValue(ofEight: text.fourBytes(at: 9) &<< 32 | text.fourBytes(at: 14)),
      let third = hexValue(ofEight: text.fourBytes(at: 19) &<< 32 | text.fourBytes(at: 24)),
      let fourth = hexValue(ofEight: text.eightBytes(at: 28))
    else { return nil }
    self.init(high: first &<< 32 | second, low: third &<< 32 | fourth)
  }

  /// Writes the 36 characters in upper case, as APNs spells the ids that it makes.
  public func write(to output: inout MutableSpan<UInt8>, at offset: Int) {
    // One check of bounds for all.
    precondition(offset >= 0 && Self.textLength <= output.count - offset, "no room")
    Self.write(upperHexDigits(high &>> 32), to: &output, at: offset, count: 8)
    output[offset + 8] = 0x2d
    let middle = upperHexDigits(high & 0xffff_ffff)
    Self.write(middle, to: &output, at: offset + 9, count: 4)
    output[offset + 13] = 0x2d
    Self.write(middle &<< 32, to: &output, at: offset + 14, count: 4)
    output[offset + 18] = 0x2d
    let last = upperHexDigits(low &>> 32)
    Self.write(last, to: &output, at: offset + 19, count: 4)
    output[offset + 23] = 0x2d
    Self.write(last &<< 32, to: &output, at: offset + 24, count: 4)
    Self.write(upperHexDigits(low & 0xffff_ffff), to: &output, at: offset + 28, count: 8)
  }

  /// Writes the first `count` of eight characters, the first the most significant.
  @inline(__always)
  private static func write(
    _ digits: UInt64, to output: inout MutableSpan<UInt8>, at offset: Int, count: Int
  ) {
    for index in 0..<count {
      output[offset + index] = UInt8(truncatingIfNeeded: digits &>> UInt64(56 - 8 * index))
    }
  }

  /// The 36 characters in upper case.
  public var text: String {
    var bytes = [UInt8](repeating: 0, count: Self.textLength)
    var output = bytes.mutableSpan
    write(to: &output, at: 0)
    return String(decoding: bytes, as: UTF8.self)
  }
}

/// The eight upper-case digits of a 32-bit number, the first the most significant.
///
/// All at once: the digits are spread to a byte each, and 7 is added to those above 9 to get from `:` to `A`.
func upperHexDigits(_ number: UInt64) -> UInt64 {
  var spread = (number &<< 16 | number) & 0x0000_ffff_0000_ffff
  spread = (spread &<< 8 | spread) & 0x00ff_00ff_00ff_00ff
  spread = (spread &<< 4 | spread) & 0x0f0f_0f0f_0f0f_0f0f
  let letters = (spread &+ 0x0606_0606_0606_0606) &>> 4 & 0x0101_0101_0101_0101
  return spread &+ 0x3030_3030_3030_3030 &+ letters &* 7
}

/// The value of eight hexadecimal digits in either case, the first the most significant; nil where one is none.
///
/// All at once, a byte each, without a carry from one byte to the next: the top bit of each byte of `text` must be
/// clear, and each sum stays below 256.
func hexValue(ofEight text: UInt64) -> UInt64? {
  let tops: UInt64 = 0x8080_8080_8080_8080
  // The cases of a letter differ in this bit alone.
  let lower = text | 0x2020_2020_2020_2020
  // A top bit in each says: the byte is at least '0', above '9', at least 'a', above 'f'.
  let fromZero = text &+ 0x5050_5050_5050_5050
  let aboveNine = text &+ 0x4646_4646_4646_4646
  let fromA = lower &+ 0x1f1f_1f1f_1f1f_1f1f
  let aboveF = lower &+ 0x1919_1919_1919_1919
  let good = (fromZero & ~aboveNine | fromA & ~aboveF) & ~text & tops
  guard good == tops else { return nil }
  // The low half of a letter counts from 1 at 'a': 9 more make it the digit.
  let letters = text &>> 6 & 0x0101_0101_0101_0101
  var digits = text & 0x0f0f_0f0f_0f0f_0f0f
  digits = digits &+ letters &* 9
  digits = (digits | digits &>> 4) & 0x00ff_00ff_00ff_00ff
  digits = (digits | digits &>> 8) & 0x0000_ffff_0000_ffff
  return (digits | digits &>> 16) & 0xffff_ffff
}

/// The value of a hexadecimal digit in either case.
@inlinable
public func hexValue(_ byte: UInt8) -> UInt8? {
  switch byte {
  case 0x30...0x39: byte - 0x30
  case 0x61...0x66: byte - 0x57
  case 0x41...0x46: byte - 0x37
  default: nil
  }
}
