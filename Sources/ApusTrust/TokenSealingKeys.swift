/// The keys that seal device tokens. All of them unseal tokens; the last one seals.
///
/// To replace a key, append another: tokens of the old one stay valid, and each is reissued when its device next
/// connects. Once no token of the old key is in use, it can be removed.
package struct TokenSealingKeys: Sendable {
  package enum Fault: Error, Sendable, Hashable {
    case noKeys
    /// Two keys have this id.
    case duplicateID(UInt8)
    /// A key that is not 32 bytes long.
    case length(id: UInt8, bytes: Int)
  }

  /// A key and the id that its tokens begin with.
  package struct Key: Sendable, CustomStringConvertible {
    package static let byteCount = 32

    package let id: UInt8
    /// 16 bytes for the tag, 16 for the ciphertext: RFC 5297, section 2.2, K1 and K2.
    package let bytes: [UInt8]

    package init(id: UInt8, bytes: [UInt8]) {
      self.id = id
      self.bytes = bytes
    }

    /// A new key from OpenSSL's generator.
    package static func random(id: UInt8) -> Key {
      Key(id: id, bytes: randomBytes(byteCount))
    }

    /// Without the secret.
    package var description: String { "token-sealing key \(id)" }
  }

  /// Oldest first.
  package let keys: [Key]

  package init(_ keys: [Key]) throws(Fault) {
    guard !keys.isEmpty else { throw .noKeys }
    var seen: Set<UInt8> = []
    for key in keys {
      guard key.bytes.count == Key.byteCount else {
        throw .length(id: key.id, bytes: key.bytes.count)
      }
      guard seen.insert(key.id).inserted else { throw .duplicateID(key.id) }
    }
    self.keys = keys
  }
}
