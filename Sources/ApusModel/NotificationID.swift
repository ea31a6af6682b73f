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
    guard text.count == Self.textLength else { return nil }
    var high: UInt64 = 0
    var low: UInt64 = 0
    var digits = 0
    for index in 0..<Self.textLength {
      let byte = text[index]
      if index == 8 || index == 13 || index == 18 || index == 23 {
        guard byte == 0x2d else { return nil }
        continue
      }
      guard let value = hexValue(byte) else { return nil }
      if digits < 16 {
        high = high &<< 4 | UInt64(value)
      } else {
        low = low &<< 4 | UInt64(value)
      }
      digits += 1
    }
    self.init(high: high, low: low)
  }

  /// Writes the 36 characters in upper case, as APNs spells the ids that it makes.
  public func write(to output: inout MutableSpan<UInt8>, at offset: Int) {
    var position = offset
    for digit in 0..<32 {
      if digit == 8 || digit == 12 || digit == 16 || digit == 20 {
        output[position] = 0x2d
        position += 1
      }
      let word = digit < 16 ? high : low
      let value = UInt8(truncatingIfNeeded: word &>> UInt64(60 - 4 * (digit & 15))) & 0xf
      output[position] = value < 10 ? 0x30 + value : 0x37 + value
      position += 1
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
