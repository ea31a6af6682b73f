import ApusModel

/// An ECDSA signature over P-256: the numbers r and s, 32 bytes each, big-endian.
struct ECDSASignature: Hashable {
  static let scalarBytes = 32

  let r: [UInt8]
  let s: [UInt8]

  /// Reads r followed by s, each in `width` bytes. RFC 7518, section 3.4: 32 bytes each.
  init?(raw: Span<UInt8>, width: Int = scalarBytes) {
    guard raw.count == 2 * width else { return nil }
    func scalar(_ start: Int) -> [UInt8]? {
      let padding = width - Self.scalarBytes
      for index in start..<start + padding where raw[index] != 0 { return nil }
      return raw.extracting(start + padding..<start + width).copied()
    }
    guard let r = scalar(0), let s = scalar(width) else { return nil }
    self.r = r
    self.s = s
  }

  /// Reads `SEQUENCE { r INTEGER, s INTEGER }` (RFC 3279, section 2.2.3), strictly.
  init?(der: Span<UInt8>) {
    do {
      var outer = DERReader(der)
      let content = try outer.element(DER.Tag.sequence)
      try outer.expectEnd()
      var reader = DERReader(der, within: content)
      let r = try reader.element(DER.Tag.integer)
      let s = try reader.element(DER.Tag.integer)
      try reader.expectEnd()
      guard let r = Self.scalar(der.extracting(r)), let s = Self.scalar(der.extracting(s)) else {
        return nil
      }
      self.r = r
      self.s = s
    } catch {
      return nil
    }
  }

  var raw: [UInt8] { r + s }

  var der: [UInt8] { DER.sequence(DER.integer(r), DER.integer(s)) }

  /// A positive INTEGER in its shortest form as 32 bytes. X.690, section 8.3.2.
  private static func scalar(_ content: Span<UInt8>) -> [UInt8]? {
    guard content.count >= 1, content[0] < 0x80 else { return nil }
    var start = 0
    if content[0] == 0, content.count > 1 {
      guard content[1] >= 0x80 else { return nil }
      start = 1
    }
    let count = content.count - start
    guard count <= scalarBytes else { return nil }
    return [UInt8](repeating: 0, count: scalarBytes - count)
      + content.extracting(start..<content.count).copied()
  }
}
