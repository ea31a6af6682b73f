import ApusModel

/// Writes DER (X.690): each function returns one whole element.
enum DER {
  enum Tag {
    static let boolean: UInt8 = 0x01
    static let integer: UInt8 = 0x02
    static let bitString: UInt8 = 0x03
    static let octetString: UInt8 = 0x04
    static let null: UInt8 = 0x05
    static let objectIdentifier: UInt8 = 0x06
    static let utf8String: UInt8 = 0x0c
    static let printableString: UInt8 = 0x13
    static let utcTime: UInt8 = 0x17
    static let generalizedTime: UInt8 = 0x18
    static let sequence: UInt8 = 0x30
    static let set: UInt8 = 0x31

    /// `[number]`, context-specific, primitive.
    static func context(_ number: UInt8) -> UInt8 { 0x80 | number }
    /// `[number]`, context-specific, containing other elements.
    static func constructed(_ number: UInt8) -> UInt8 { 0xa0 | number }
  }

  static let null: [UInt8] = [Tag.null, 0]

  static func element(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
    var bytes: [UInt8] = [tag]
    let count = content.count
    switch count {
    case ..<0x80: bytes.append(UInt8(count))
    case ..<0x100: bytes += [0x81, UInt8(count)]
    case ..<0x10000: bytes += [0x82, UInt8(count >> 8), UInt8(count & 0xff)]
    default:
      precondition(count < 0x100_0000, "an element of 16 MiB")
      bytes += [0x83, UInt8(count >> 16), UInt8(count >> 8 & 0xff), UInt8(count & 0xff)]
    }
    return bytes + content
  }

  static func sequence(_ parts: [UInt8]...) -> [UInt8] { sequence(parts) }

  static func sequence(_ parts: [[UInt8]]) -> [UInt8] {
    element(Tag.sequence, parts.reduce(into: []) { $0 += $1 })
  }

  static func utf8(_ text: String) -> [UInt8] { element(Tag.utf8String, Array(text.utf8)) }

  static func boolean(_ value: Bool) -> [UInt8] { [Tag.boolean, 1, value ? 0xff : 0] }

  /// A non-negative number from big-endian bytes of any length.
  static func integer(_ magnitude: [UInt8]) -> [UInt8] {
    var content = Array(magnitude.drop { $0 == 0 })
    if (content.first ?? 0x80) & 0x80 != 0 { content.insert(0, at: 0) }
    return element(Tag.integer, content)
  }

  /// A string of whole bytes.
  static func bitString(_ bytes: [UInt8]) -> [UInt8] { element(Tag.bitString, [0] + bytes) }

  /// A named bit list: bit 0 is the most significant bit of the first byte; trailing zero bits are omitted. X.690,
  /// section 11.2.2.
  static func namedBits(_ bits: UInt8) -> [UInt8] {
    bits == 0
      ? element(Tag.bitString, [0])
      : element(Tag.bitString, [UInt8(bits.trailingZeroBitCount), bits])
  }

  /// A time in Unix seconds: UTCTime in the years 1950 to 2049, otherwise GeneralizedTime. RFC 5280, section 4.1.2.5.
  static func time(_ unixSeconds: Int64) -> [UInt8] {
    let time = CivilTime(unixSeconds: unixSeconds)
    func digits(_ value: Int, _ count: Int) -> String {
      let text = String(value)
      return String(repeating: "0", count: count - text.count) + text
    }
    let rest =
      [time.month, time.day, time.hour, time.minute, time.second].map { digits($0, 2) }.joined()
      + "Z"
    return (1950..<2050).contains(time.year)
      ? element(Tag.utcTime, Array((digits(time.year % 100, 2) + rest).utf8))
      : element(Tag.generalizedTime, Array((digits(time.year, 4) + rest).utf8))
  }
}

/// An object identifier.
struct OID: Sendable, Hashable {
  /// The element's content, without tag and length.
  let content: [UInt8]

  init(_ first: UInt, _ second: UInt, _ rest: UInt...) {
    var content = [UInt8(first * 40 + second)]
    for arc in rest {
      var groups = [UInt8(arc & 0x7f)]
      var value = arc >> 7
      while value > 0 {
        groups.insert(UInt8(value & 0x7f) | 0x80, at: 0)
        value >>= 7
      }
      content += groups
    }
    self.content = content
  }

  init(content: [UInt8]) { self.content = content }

  var der: [UInt8] { DER.element(DER.Tag.objectIdentifier, content) }
}

/// A time in the proleptic Gregorian calendar, in UTC. Years 1 to 9999.
struct CivilTime: Hashable {
  let year, month, day, hour, minute, second: Int

  init(unixSeconds: Int64) {
    let limits: ClosedRange<Int64> = -62_135_596_800...253_402_300_799
    let seconds = Int(min(max(unixSeconds, limits.lowerBound), limits.upperBound))
    let secondOfDay = ((seconds % 86400) + 86400) % 86400
    let date = CivilDate(daysSince1970: Int64((seconds - secondOfDay) / 86400))
    (year, month, day) = (Int(date.year), Int(date.month), Int(date.day))
    hour = secondOfDay / 3600
    minute = secondOfDay / 60 % 60
    second = secondOfDay % 60
  }

  /// Unix seconds; nil where the calendar or the clock has no such time.
  static func unixSeconds(
    year: Int, month: Int, day: Int, hour: Int, minute: Int, second: Int
  ) -> Int64? {
    guard (1...9999).contains(year), (1...12).contains(month), (1...31).contains(day),
      (0..<24).contains(hour), (0..<60).contains(minute), (0..<60).contains(second)
    else { return nil }
    let date = CivilDate(year: Int64(year), month: Int64(month), day: Int64(day))
    let days = date.daysSince1970
    // The 31st of a shorter month would be a day of the next one.
    guard CivilDate(daysSince1970: days) == date else { return nil }
    return days * 86400 + Int64(hour * 3600 + minute * 60 + second)
  }
}
