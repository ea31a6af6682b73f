internal import ApusModel

/// Bytes as hexadecimal digits.
package enum Hex {
  /// Two lower-case digits for each byte.
  package static func encode(_ bytes: Span<UInt8>) -> [UInt8] {
    var text: [UInt8] = []
    text.reserveCapacity(bytes.count * 2)
    for index in bytes.indices {
      text.append(hexDigit(bytes[index] &>> 4))
      text.append(hexDigit(bytes[index] & 15))
    }
    return text
  }

  /// Reads digits in either case; nil for an odd number of digits and for anything else.
  package static func decode(_ text: Span<UInt8>) -> [UInt8]? {
    guard text.count.isMultiple(of: 2) else { return nil }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.count / 2)
    for index in stride(from: 0, to: text.count, by: 2) {
      guard let high = hexValue(text[index]), let low = hexValue(text[index + 1]) else {
        return nil
      }
      bytes.append(high &<< 4 | low)
    }
    return bytes
  }
}

/// Whole numbers as decimal digits, in header fields and configuration.
package enum DecimalInteger {
  /// Reads digits with an optional leading minus: no plus, no white space. Nil if the number does not fit.
  package static func parse(_ text: Span<UInt8>) -> Int64? {
    guard text.count > 0 else { return nil }
    let negative = text[0] == 0x2d
    let first = negative ? 1 : 0
    guard first < text.count else { return nil }
    // Counts down, because the least number has no positive counterpart.
    var value: Int64 = 0
    for index in first..<text.count {
      let digit = text[index] &- 0x30
      guard digit < 10 else { return nil }
      let (shifted, overflow) = value.multipliedReportingOverflow(by: 10)
      let (next, underflow) = shifted.subtractingReportingOverflow(Int64(digit))
      guard !overflow, !underflow else { return nil }
      value = next
    }
    if negative { return value }
    return value == Int64.min ? nil : -value
  }
}

extension [UInt8] {
  /// Appends a number as decimal digits.
  package mutating func append(decimal number: Int64) {
    if number < 0 { append(0x2d) }
    let start = count
    var rest = number.magnitude
    repeat {
      append(0x30 + UInt8(truncatingIfNeeded: rest % 10))
      rest /= 10
    } while rest > 0
    self[start...].reverse()
  }
}
