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

  /// Reads the same form.
  package init?(string: String) {
    let bytes = Array(string.utf8)
    self.init(text: bytes.span)
  }

  /// Writes the 36 characters in upper case, as APNs spells the ids that it assigns.
  public func write(to output: inout MutableSpan<UInt8>, at offset: Int) {
    write(to: &output, at: offset, letters: 7)
  }

  /// The same in lower case, as an `apns-id` in a request is spelled.
  public func writeLowercase(to output: inout MutableSpan<UInt8>, at offset: Int) {
    write(to: &output, at: offset, letters: 39)
  }

  /// - Parameter letters: The distance from `:`, the character after `9`, to the letter for ten.
  @inline(__always)
  private func write(to output: inout MutableSpan<UInt8>, at offset: Int, letters: UInt64) {
    let first = hexDigits(high &>> 32, letters: letters)
    let second = hexDigits(high & 0xffff_ffff, letters: letters)
    let third = hexDigits(low &>> 32, letters: letters)
    let fourth = hexDigits(low & 0xffff_ffff, letters: letters)
    let hyphen: UInt64 = 0x2d
    output.setEightBytes(first, at: offset)
    // `-89ab-cd`, `ef-0123-`
    let middle = (second &>> 32) &<< 24 | hyphen &<< 16 | (second &>> 16) & 0xffff
    output.setEightBytes(hyphen &<< 56 | middle, at: offset + 8)
    let next = second &<< 48 | hyphen &<< 40 | (third &>> 32) &<< 8 | hyphen
    output.setEightBytes(next, at: offset + 16)
    output.setFourBytes(third, at: offset + 24)
    output.setEightBytes(fourth, at: offset + 28)
  }

  /// The 36 characters in upper case.
  public var text: String {
    var bytes = [UInt8](repeating: 0, count: Self.textLength)
    var output = bytes.mutableSpan
    write(to: &output, at: 0)
    return String(decoding: bytes, as: UTF8.self)
  }
}

extension NotificationID: CustomStringConvertible {
  /// `text`.
  public var description: String { text }
}

/// The eight digits of a 32-bit number, the first the most significant.
///
/// Computed in parallel: each digit is spread to a byte, and `letters` is added to those above 9 to get from `:` to
/// `A` (7) or `a` (39).
@inline(__always)
private func hexDigits(_ number: UInt64, letters: UInt64) -> UInt64 {
  var spread = (number &<< 16 | number) & 0x0000_ffff_0000_ffff
  spread = (spread &<< 8 | spread) & 0x00ff_00ff_00ff_00ff
  spread = (spread &<< 4 | spread) & 0x0f0f_0f0f_0f0f_0f0f
  let isLetter = (spread &+ 0x0606_0606_0606_0606) &>> 4 & 0x0101_0101_0101_0101
  return spread &+ 0x3030_3030_3030_3030 &+ isLetter &* letters
}

extension Span<UInt8> {
  /// Writes two lower-case digits for each byte, from `offset` on.
  public func writeHexadecimal(to output: inout MutableSpan<UInt8>, at offset: Int) {
    var index = 0
    while index + 4 <= count {
      output.setEightBytes(
        hexDigits(fourBytes(at: index), letters: 39), at: offset + 2 * index)
      index += 4
    }
    while index < count {
      output[offset + 2 * index] = hexDigit(self[index] &>> 4)
      output[offset + 2 * index + 1] = hexDigit(self[index] & 15)
      index += 1
    }
  }
}

/// The value of eight hexadecimal digits in either case, the first the most significant; nil if one is not a digit.
///
/// Computed in parallel, one byte each, without a carry between bytes: the top bit of each byte of `text` must be
/// clear, and each sum stays below 256.
func hexValue(ofEight text: UInt64) -> UInt64? {
  let tops: UInt64 = 0x8080_8080_8080_8080
  // The cases of a letter differ only in this bit.
  let lower = text | 0x2020_2020_2020_2020
  // The top bit of each byte then means: at least '0', above '9', at least 'a', above 'f'.
  let fromZero = text &+ 0x5050_5050_5050_5050
  let aboveNine = text &+ 0x4646_4646_4646_4646
  let fromA = lower &+ 0x1f1f_1f1f_1f1f_1f1f
  let aboveF = lower &+ 0x1919_1919_1919_1919
  let good = (fromZero & ~aboveNine | fromA & ~aboveF) & ~text & tops
  guard good == tops else { return nil }
  // The low half of a letter counts from 1 at 'a': adding 9 makes it the digit.
  let letters = text &>> 6 & 0x0101_0101_0101_0101
  var digits = text & 0x0f0f_0f0f_0f0f_0f0f
  digits = digits &+ letters &* 9
  digits = (digits | digits &>> 4) & 0x00ff_00ff_00ff_00ff
  digits = (digits | digits &>> 8) & 0x0000_ffff_0000_ffff
  return (digits | digits &>> 16) & 0xffff_ffff
}

/// Reads hexadecimal digits, in either case, into the first bytes of `output`, which must have room. False if their
/// number is odd, or one is not a digit.
public func readHexadecimal(_ text: Span<UInt8>, into output: inout MutableSpan<UInt8>) -> Bool {
  guard text.count.isMultiple(of: 2) else { return false }
  var place = 0
  while text.count - place >= 8 {
    guard let value = hexValue(ofEight: text.eightBytes(at: place)) else { return false }
    output.setFourBytes(value, at: place / 2)
    place += 8
  }
  while place < text.count {
    guard let high = hexValue(text[place]), let low = hexValue(text[place + 1]) else {
      return false
    }
    output[place / 2] = high &<< 4 | low
    place += 2
  }
  return true
}

/// Whether all bytes are hexadecimal digits, in either case.
public func areHexadecimal(_ text: Span<UInt8>) -> Bool {
  var place = 0
  while text.count - place >= 8 {
    guard hexValue(ofEight: text.eightBytes(at: place)) != nil else { return false }
    place += 8
  }
  while place < text.count {
    guard hexValue(text[place]) != nil else { return false }
    place += 1
  }
  return true
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
