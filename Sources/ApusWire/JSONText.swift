/// Measures and shortens text for use inside JSON.
package enum JSONText {
  /// Bytes between the quotation marks, as `JSONWriter` writes the text.
  package static func quotedByteCount(_ text: some StringProtocol) -> Int {
    var count = 0
    for byte in text.utf8 {
      switch byte {
      case 0x22, 0x5c, 0x0a, 0x0d, 0x09: count += 2
      case 0..<0x20: count += 6
      default: count += 1
      }
    }
    return count
  }

  /// The longest prefix of `text` that fits into `quotedBytes` together with `ending`, which is omitted if all of the
  /// text fits. It ends between two grapheme clusters (Unicode, annex 29). Nil if not even `ending` fits.
  package static func prefix(of text: String, quotedBytes: Int, ending: String) -> String? {
    if quotedByteCount(text) <= quotedBytes { return text }
    var room = quotedBytes - quotedByteCount(ending)
    guard room >= 0 else { return nil }
    var end = text.startIndex
    while end < text.endIndex {
      let next = text.index(after: end)
      room -= quotedByteCount(text[end..<next])
      guard room >= 0 else { break }
      end = next
    }
    return text[..<end] + ending
  }
}
