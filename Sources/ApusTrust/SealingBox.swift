import COpenSSL

/// Encrypts whole messages with one key, and tells altered ones: AES-256-GCM with a random nonce for each message (NIST
/// SP 800-38D, section 8.2.2: up to 2^32 messages).
///
/// A sealed message is the nonce (12 bytes), the ciphertext, and the tag (16).
package struct SealingBox: Sendable {
  package static let keyByteCount = 32
  /// Bytes by which a message grows.
  package static let overhead = nonceByteCount + tagByteCount

  private static let nonceByteCount = 12
  private static let tagByteCount = 16

  private let key: [UInt8]

  /// - Parameter key: 32 secret bytes.
  package init(key: [UInt8]) {
    precondition(key.count == Self.keyByteCount, "a key of AES-256 has 32 bytes")
    self.key = key
  }

  /// - Parameter context: What the message is; it opens only with the same.
  package func seal(_ message: [UInt8], context: [UInt8]) -> [UInt8] {
    let nonce = randomBytes(Self.nonceByteCount)
    var output = [UInt8](repeating: 0, count: message.count)
    var tag = [UInt8](repeating: 0, count: Self.tagByteCount)
    let isDone = run(encrypts: true, nonce, message, context, into: &output, tag: &tag)
    precondition(isDone, "OpenSSL has AES-256-GCM")
    return nonce + output + tag
  }

  /// Nil if the message was altered, or sealed with another key or context.
  package func open(_ sealed: [UInt8], context: [UInt8]) -> [UInt8]? {
    guard sealed.count >= Self.overhead else { return nil }
    let nonce = Array(sealed.prefix(Self.nonceByteCount))
    var tag = Array(sealed.suffix(Self.tagByteCount))
    let message = Array(sealed[Self.nonceByteCount..<sealed.count - Self.tagByteCount])
    var output = [UInt8](repeating: 0, count: message.count)
    return run(encrypts: false, nonce, message, context, into: &output, tag: &tag) ? output : nil
  }

  private func run(
    encrypts: Bool, _ nonce: [UInt8], _ input: [UInt8], _ context: [UInt8],
    into output: inout [UInt8], tag: inout [UInt8]
  ) -> Bool {
    guard let cipher = unsafe EVP_CIPHER_CTX_new() else { return false }
    defer { unsafe EVP_CIPHER_CTX_free(cipher) }
    let direction: Int32 = encrypts ? 1 : 0
    var count: Int32 = 0
    guard unsafe EVP_CipherInit_ex(cipher, EVP_aes_256_gcm(), nil, key, nonce, direction) == 1,
      unsafe context.isEmpty
        || EVP_CipherUpdate(cipher, nil, &count, context, Int32(context.count)) == 1,
      unsafe input.isEmpty
        || EVP_CipherUpdate(cipher, &output, &count, input, Int32(input.count)) == 1
    else { return false }
    let tagCount = Int32(Self.tagByteCount)
    if !encrypts {
      guard unsafe EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_SET_TAG, tagCount, &tag) == 1 else {
        return false
      }
    }
    var none = [UInt8](repeating: 0, count: 16)
    guard unsafe EVP_CipherFinal_ex(cipher, &none, &count) == 1 else { return false }
    return unsafe !encrypts
      || EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_GET_TAG, tagCount, &tag) == 1
  }
}
