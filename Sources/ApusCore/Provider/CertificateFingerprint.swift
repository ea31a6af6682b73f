/// A SHA-256 that identifies a certificate for revocation: of its DER, or of its issuer's name and serial number,
/// which is how revocation lists identify it (RFC 5280, section 5.3).
package struct CertificateFingerprint: Sendable, Hashable {
  /// The bytes in order, the first the most significant.
  private var words: InlineArray<4, UInt64>

  package static let byteCount = 32

  /// Takes the words of a digest, big-endian.
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

  package var bytes: [UInt8] {
    words.indices.flatMap { index in
      stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: words[index] &>> $0) }
    }
  }

  package static func == (left: Self, right: Self) -> Bool {
    left.words[0] == right.words[0] && left.words[1] == right.words[1]
      && left.words[2] == right.words[2] && left.words[3] == right.words[3]
  }

  package func hash(into hasher: inout Hasher) {
    // SHA-256 is evenly distributed: one word distinguishes certificates as well as four.
    hasher.combine(words[0])
  }
}
