import ApusModel
package import ApusWire
import COpenSSL

/// A SHA-256 digest, usable as a key of tables: fingerprints of certificates and keys.
package struct SHA256Digest: Sendable, Hashable {
  /// The bytes in order, eight per word, most significant first.
  package let words: (UInt64, UInt64, UInt64, UInt64)

  package static let byteCount = 32

  package init(of bytes: Span<UInt8>) {
    var output = [UInt8](repeating: 0, count: Self.byteCount)
    unsafe bytes.withUnsafeBufferPointer { bytes in
      _ = unsafe SHA256(bytes.baseAddress, bytes.count, &output)
    }
    self.init(output)
  }

  /// Takes exactly 32 bytes.
  fileprivate init(_ bytes: [UInt8]) {
    func word(_ start: Int) -> UInt64 {
      bytes[start..<start + 8].reduce(0) { $0 << 8 | UInt64($1) }
    }
    words = (word(0), word(8), word(16), word(24))
  }

  package var bytes: [UInt8] {
    [words.0, words.1, words.2, words.3].flatMap { word in
      stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: word >> $0) }
    }
  }

  /// Takes exactly 64 hexadecimal digits.
  package init?(hex: String) {
    guard let bytes = Hex.decode(Array(hex.utf8).span), bytes.count == Self.byteCount else {
      return nil
    }
    self.init(bytes)
  }

  /// 64 lower-case digits.
  package var hex: String {
    String(decoding: bytes.flatMap { [hexDigit($0 >> 4), hexDigit($0 & 15)] }, as: UTF8.self)
  }

  package static func == (left: SHA256Digest, right: SHA256Digest) -> Bool {
    left.words == right.words
  }

  package func hash(into hasher: inout Hasher) { hasher.combine(words.0) }
}

/// A SHA-256 digest of bytes that come in parts.
@safe package struct SHA256Hasher: ~Copyable {
  private let context: OpaquePointer

  package init() {
    guard let context = unsafe EVP_MD_CTX_new() else { preconditionFailure("out of memory") }
    unsafe EVP_DigestInit_ex(context, EVP_sha256(), nil)
    unsafe self.context = context
  }

  deinit { unsafe EVP_MD_CTX_free(context) }

  package mutating func add(_ bytes: Span<UInt8>) {
    unsafe bytes.withUnsafeBufferPointer { bytes in
      _ = unsafe EVP_DigestUpdate(context, bytes.baseAddress, bytes.count)
    }
  }

  /// The digest of all parts. Call it once, at the end.
  package mutating func finish() -> SHA256Digest {
    var output = [UInt8](repeating: 0, count: SHA256Digest.byteCount)
    unsafe EVP_DigestFinal_ex(context, &output, nil)
    return SHA256Digest(output)
  }
}

/// HMAC with SHA-256. RFC 2104.
package enum HMACSHA256 {
  package static func digest(of bytes: Span<UInt8>, key: Span<UInt8>) -> SHA256Digest {
    var output = [UInt8](repeating: 0, count: SHA256Digest.byteCount)
    unsafe bytes.withUnsafeBufferPointer { bytes in
      unsafe key.withUnsafeBufferPointer { key in
        _ = unsafe HMAC(
          EVP_sha256(), key.baseAddress, Int32(key.count), bytes.baseAddress, bytes.count, &output,
          nil)
      }
    }
    return SHA256Digest(output)
  }
}

package enum SHA1Digest {
  package static let byteCount = 20

  /// The 20 bytes. Identifies topics in the device protocol and keys in certificates; not used for security.
  package static func of(_ bytes: Span<UInt8>) -> [UInt8] {
    var output = [UInt8](repeating: 0, count: byteCount)
    unsafe bytes.withUnsafeBufferPointer { bytes in
      _ = unsafe SHA1(bytes.baseAddress, bytes.count, &output)
    }
    return output
  }
}

extension TopicHash {
  /// The hash of a topic's text (UTF-8).
  package init(of topic: Span<UInt8>) {
    let digest = SHA1Digest.of(topic)
    guard let hash = TopicHash(digest.span) else { preconditionFailure("SHA-1 has 20 bytes") }
    self = hash
  }
}

/// Whether both spans have the same bytes, in a time that depends only on their lengths.
package func constantTimeEquals(_ left: Span<UInt8>, _ right: Span<UInt8>) -> Bool {
  guard left.count == right.count else { return false }
  return unsafe left.withUnsafeBufferPointer { left in
    unsafe right.withUnsafeBufferPointer { right in
      unsafe left.isEmpty || CRYPTO_memcmp(left.baseAddress, right.baseAddress, left.count) == 0
    }
  }
}

extension RelayDigest {
  package init(sha256Of bytes: Span<UInt8>) {
    let words = SHA256Digest(of: bytes).words
    self.init(high: words.0, low: words.1)
  }
}
