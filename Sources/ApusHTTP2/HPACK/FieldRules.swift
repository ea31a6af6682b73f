import ApusModel

/// The requirements of RFC 9113, section 8.2, on single header fields. Sections here are its own.
enum FieldRules {
  /// Whether a single field may occur in a header section.
  static func isFine(_ listed: HeaderName?, name: Span<UInt8>, value: Span<UInt8>) -> Bool {
    guard isFieldValue(value) else { return false }
    return listed != nil || isFieldName(name) && !isConnectionSpecific(name, value: value)
  }

  /// Whether a field may occur in trailers, which have no pseudo-header fields.
  static func isTrailer(name: Span<UInt8>, value: Span<UInt8>) -> Bool {
    isFieldName(name) && isFieldValue(value)
  }

  /// Section 8.2.1: no upper case, no control character, space, colon or byte above 0x7e.
  private static func isFieldName(_ name: Span<UInt8>) -> Bool {
    guard !name.isEmpty else { return false }
    for index in name.indices {
      let byte = name[index]
      if byte <= 0x20 || byte >= 0x7f || byte == 0x3a || byte &- 0x41 < 26 { return false }
    }
    return true
  }

  /// Section 8.2.1: no NUL, LF or CR.
  private static func isFieldValue(_ value: Span<UInt8>) -> Bool {
    // The least byte decides for nearly every value, and finding it is a vector operation.
    var least = UInt8.max
    for index in value.indices { least = min(least, value[index]) }
    guard least < 0x0e else { return true }
    for index in value.indices {
      let byte = value[index]
      if byte == 0 || byte == 0x0a || byte == 0x0d { return false }
    }
    return true
  }

  /// Section 8.2.2.
  private static func isConnectionSpecific(_ name: Span<UInt8>, value: Span<UInt8>) -> Bool {
    switch name.count {
    case 2: name.equals("te") && !value.equalsIgnoringCase("trailers")
    case 7: name.equals("upgrade")
    case 10: name.equals("connection") || name.equals("keep-alive")
    case 16: name.equals("proxy-connection")
    case 17: name.equals("transfer-encoding")
    default: false
    }
  }

  /// The value of `content-length` (RFC 9110, section 8.6); nil if it is none.
  static func number(_ value: Span<UInt8>) -> Int? {
    guard !value.isEmpty, value.count <= 18 else { return nil }
    var number = 0
    for index in value.indices {
      let digit = value[index] &- 0x30
      guard digit < 10 else { return nil }
      number = number * 10 + Int(digit)
    }
    return number
  }
}
