import ApusModel

/// The requirements of RFC 9113, section 8, on the form of a response. One that violates them is malformed, and its
/// stream is reset.
struct ResponseShape {
  /// `:status`; 0 before it.
  private(set) var status: UInt16 = 0
  private var sawRegularField = false
  /// The announced length of the body; -1 if absent.
  private var contentLength = -1

  /// Adds a field of the header section; false if it makes the response malformed.
  mutating func add(_ field: borrowing HeaderField) -> Bool {
    guard field.isFine else { return false }
    switch field.listed {
    case .status: return setStatus(field.value)
    case .method, .scheme, .path, .authority: return false
    case .contentLength:
      guard contentLength < 0, let length = FieldRules.number(field.value) else { return false }
      contentLength = length
    default: break
    }
    sawRegularField = true
    return true
  }

  /// Section 8.3: pseudo-header fields come first, and each once. RFC 9110, section 15: three digits.
  private mutating func setStatus(_ value: Span<UInt8>) -> Bool {
    guard !sawRegularField, status == 0, value.count == 3,
      let number = FieldRules.number(value), number >= 100
    else { return false }
    status = UInt16(number)
    return true
  }

  /// Whether the final response is still to come (section 8.1).
  var isInterim: Bool { status < 200 }

  /// Section 8.6: HTTP/2 has no 101.
  var mayContinue: Bool { status != 101 }

  /// Section 8.1.1: the body has the length in `content-length`, if present; 304 has none (RFC 9110, section 15.4.5).
  func fits(bodyByteCount: Int) -> Bool {
    contentLength < 0 || contentLength == bodyByteCount || status == 304
  }
}
