/// A topic in the courier protocol: the 20 bytes of the SHA-1 of its text.
package struct TopicHash: Sendable, Hashable {
  /// The bytes in order, the first the most significant.
  package var words: (UInt64, UInt64, UInt32)

  package static let byteCount = 20

  /// Takes exactly 20 bytes.
  package init?(_ bytes: Span<UInt8>) {
    guard bytes.count == Self.byteCount else { return nil }
    words = (
      bytes.bigEndianUInt64(at: 0), bytes.bigEndianUInt64(at: 8), bytes.bigEndianUInt32(at: 16)
    )
  }

  package subscript(index: Int) -> UInt8 {
    let word = index < 8 ? words.0 : index < 16 ? words.1 : UInt64(words.2) &<< 32
    return UInt8(truncatingIfNeeded: word &>> UInt64(56 - 8 * (index & 7)))
  }

  package static func == (left: TopicHash, right: TopicHash) -> Bool { left.words == right.words }

  package func hash(into hasher: inout Hasher) {
    // All words: a device may list 20 bytes that are not a SHA-1, chosen to collide.
    hasher.combine(words.0)
    hasher.combine(words.1)
    hasher.combine(words.2)
  }
}
