import ApusModel

/// Dates of HTTP (RFC 9110, section 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`, the only form still sent.
package enum HTTPDate {
  private static let length = 29
  private static let months: [[UInt8]] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
  ].map { Array($0.utf8) }

  /// Seconds since 1970; nil for anything else.
  package static func seconds(_ text: Span<UInt8>) -> Int64? {
    guard text.count == length, text.endsWith(" GMT"), text[3] == 0x2c,
      let day = number(text, 5..<7), let year = number(text, 12..<16),
      let hour = number(text, 17..<19), let minute = number(text, 20..<22),
      let second = number(text, 23..<25), hour < 24, minute < 60, second <= 60, day >= 1
    else { return nil }
    for (index, name) in months.enumerated() where text.extracting(8..<11).equals(name.span) {
      guard day <= 31 else { return nil }
      let date = CivilDate(year: year, month: Int64(index + 1), day: day)
      return date.daysSince1970 * 86_400 + hour * 3600 + minute * 60 + second
    }
    return nil
  }

  /// The value of `retry-after`: seconds, or a date, which needs the server's clock.
  static func retryAfter(_ text: Span<UInt8>, nowSeconds: Int64?) -> Int? {
    if (1...9).contains(text.count), let seconds = number(text, 0..<text.count) {
      return Int(seconds)
    }
    guard let nowSeconds, let date = seconds(text) else { return nil }
    return Int(max(0, date - nowSeconds))
  }

  private static func number(_ text: Span<UInt8>, _ range: Range<Int>) -> Int64? {
    var value: Int64 = 0
    for index in range {
      guard text[index] &- 0x30 < 10 else { return nil }
      value = value * 10 + Int64(text[index] &- 0x30)
    }
    return value
  }
}
