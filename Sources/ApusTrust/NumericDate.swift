/// Unix seconds in the form of `iat`. RFC 7519, section 2: a JSON number, fractions allowed.
///
/// Java writes a `double` as `1.7000000005E9`, so exponents are read too; the value is rounded down, without
/// floating-point arithmetic.
enum NumericDate {
  /// Digits before the decimal point: enough for milliseconds, without a risk of overflow.
  static let digitLimit = 15

  /// Reads a JSON number; nil if negative, too long, or not a number.
  static func seconds(_ text: String) -> Int64? {
    var digits: [UInt8] = []
    var point: Int?
    var bytes = text.utf8[...]
    while let byte = bytes.first, byte != UInt8(ascii: "e"), byte != UInt8(ascii: "E") {
      bytes.removeFirst()
      if byte == UInt8(ascii: "."), point == nil, !digits.isEmpty {
        point = digits.count
      } else if byte &- 0x30 < 10 {
        digits.append(byte - 0x30)
      } else {
        return nil
      }
    }
    guard !digits.isEmpty, point != digits.count else { return nil }
    var wholeDigits = point ?? digits.count
    if !bytes.isEmpty {
      // By range and not by `abs`: the least Int has no positive counterpart.
      guard let exponent = Int(String(bytes.dropFirst()) ?? ""),
        (-digitLimit...digitLimit).contains(exponent)
      else { return nil }
      wholeDigits += exponent
    }
    guard wholeDigits <= digitLimit else { return nil }
    var value: Int64 = 0
    for index in 0..<max(wholeDigits, 0) {
      value = value * 10 + Int64(index < digits.count ? digits[index] : 0)
    }
    return value
  }
}
