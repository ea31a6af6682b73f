/// A SHA-256 that names a certificate, and by which it can be revoked: the one over its DER, or the one over its
/// issuer's name and its serial number, which is how revocation lists name it (RFC 5280, section 5.3).
package struct CertificateFingerprint: Sendable, Hashable {
  /// The bytes in order, the first the most significant.
  private var words: InlineArray<4, UInt64>

  package static let byteCount = 32

  /// Takes a digest's words, the first byte the most significant of the first.
  package init(words: (UInt64, UInt64, UInt64, UInt64)) {
    self.words = [words.0, words.1, words.2, words.3]
  }

  /// Takes exactly 32 bytes.
  package init?(_ bytes: Span<UInt8>) {
    guard bytes.count == Self.byteCount else { return nil }
    words = InlineArray { word in
      var value: UInt64 = 0
      for index in 8 * word..<8 * word + 8 { value = value &<< 8 | UInt64(bytes[index]) }
      return value
    }
  }

  package static func == (left: Self, right: Self) -> Bool {
    left.words[0] == right.words[0] && left.words[1] == right.words[1]
      && left.words[2] == right.words[2] && left.words[3] == right.words[3]
  }

  package func hash(into hasher: inout Hasher) {
    // SHA-256 spreads evenly: one word tells certificates apart as well as four.
    hasher.combine(words[0])
  }
}
