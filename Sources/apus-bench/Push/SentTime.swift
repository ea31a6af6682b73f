import ApusModel

/// The member of a payload with its due time: nanoseconds of the monotonic clock, which all processes of a machine
/// share.
enum SentTime {
  private static let key: StaticString = "\"sent_ns\":"

  /// The time in a payload, if any. Searches from the end, where `TimedPayload` puts it.
  static func find(in payload: Span<UInt8>) -> UInt64? {
    let keyCount = key.utf8CodeUnitCount
    var start = payload.count - keyCount
    while start >= 0 {
      if payload[start] == UInt8(ascii: "\""),
        payload.extracting(start..<start + keyCount).equals(key)
      {
        return number(payload.extracting((start + keyCount)...))
      }
      start -= 1
    }
    return nil
  }

  /// Reads digits after any number of spaces.
  private static func number(_ text: Span<UInt8>) -> UInt64? {
    var index = 0
    while index < text.count, text[index] == 0x20 { index += 1 }
    let first = index
    var number: UInt64 = 0
    while index < text.count, text[index] &- 0x30 < 10, index - first < TimedPayload.digitCount {
      number = number * 10 + UInt64(text[index] &- 0x30)
      index += 1
    }
    return index > first ? number : nil
  }
}

/// A payload whose time is overwritten in place, without formatting the rest again.
struct TimedPayload: Sendable {
  /// The number of digits of the largest `Int64`.
  static let digitCount = 19

  private(set) var bytes: [UInt8]
  private let timeStart: Int

  /// `{"aps":{"alert":"xx…"},"sent_ns":               0}`
  init(byteCount: Int) {
    let head = Array(#"{"aps":{"alert":""#.utf8)
    let middle = Array(#""},"sent_ns":"#.utf8)
    let fillerCount = max(0, byteCount - head.count - middle.count - Self.digitCount - 1)
    bytes = head + [UInt8](repeating: UInt8(ascii: "x"), count: fillerCount) + middle
    timeStart = bytes.count
    bytes += [UInt8](repeating: 0x20, count: Self.digitCount) + [UInt8(ascii: "}")]
    set(0)
  }

  mutating func set(_ nanoseconds: UInt64) {
    Self.set(nanoseconds, in: &bytes, at: timeStart)
  }

  /// Writes the time into a copy of `bytes`.
  func set(_ nanoseconds: UInt64, in bytes: inout [UInt8]) {
    Self.set(nanoseconds, in: &bytes, at: timeStart)
  }

  /// Right-aligns the digits and pads with spaces, because JSON does not allow leading zeros.
  private static func set(_ nanoseconds: UInt64, in bytes: inout [UInt8], at start: Int) {
    var rest = nanoseconds
    for index in (start..<start + digitCount).reversed() {
      let isPast = rest == 0 && index < start + digitCount - 1
      bytes[index] = isPast ? 0x20 : 0x30 + UInt8(rest % 10)
      rest /= 10
    }
  }
}
