package import ApusModel
import COpenSSL

/// Bytes from OpenSSL's generator, suitable for keys.
///
/// Without entropy the service must not create keys: a failure stops the process.
package func randomBytes(_ count: Int) -> [UInt8] {
  var bytes = [UInt8](repeating: 0, count: count)
  let filled = unsafe bytes.withUnsafeMutableBufferPointer {
    unsafe RAND_bytes($0.baseAddress, Int32(count))
  }
  precondition(filled == 1, "OpenSSL has no random bytes to give")
  return bytes
}

/// An id from OpenSSL's generator: a version 4 UUID. RFC 9562, section 5.4.
package func randomID() -> NotificationID {
  let bytes = randomBytes(16)
  func word(_ start: Int) -> UInt64 {
    bytes[start..<start + 8].reduce(0) { $0 << 8 | UInt64($1) }
  }
  return NotificationID(version4: Block128(high: word(0), low: word(8)))
}

extension NotificationID {
  /// Sets version and variant in 128 random bits.
  init(version4 bits: Block128) {
    self.init(
      high: bits.high & ~0xf000 | 0x4000,
      low: bits.low & ~(0b11 << 62) | (0b10 << 62))
  }
}

/// Ids for notifications without one, for one worker.
///
/// AES-128 over a counter, with a key of its own, both from OpenSSL's generator: no system call after `init`. They are
/// created 32 at a time, because a call of OpenSSL costs ten times as much as a block. The ids are version 4 UUIDs
/// (122 random bits). They are not secrets and grant no access, but one id does not reveal the next.
package final class RandomIDs {
  private let cipher: AESBlock
  private var counter: Block128
  /// Ids created, two words each in native byte order, and the number of words used up.
  private var made = [UInt64](repeating: 0, count: 64)
  private var usedCount = 64

  package init() {
    cipher = AESBlock(key: randomBytes(AESBlock.keyBytes).span)
    let start = randomBytes(16)
    counter = Block128(start.span)
  }

  /// The same ids for the same seed: for simulations.
  package init(seed: UInt64) {
    let digest = SHA256Digest(of: Array("\(seed)".utf8).span).bytes
    cipher = AESBlock(key: digest.span.extracting(0..<16))
    counter = Block128(digest.span.extracting(16..<32))
  }

  deinit { cipher.free() }

  package func next() -> NotificationID {
    if usedCount == made.count { refill() }
    usedCount += 2
    return NotificationID(
      version4: Block128(
        high: made[usedCount - 2].bigEndian, low: made[usedCount - 1].bigEndian))
  }

  private func refill() {
    for index in stride(from: 0, to: made.count, by: 2) {
      counter.low &+= 1
      if counter.low == 0 { counter.high &+= 1 }
      made[index] = counter.high.bigEndian
      made[index + 1] = counter.low.bigEndian
    }
    cipher.encrypt(blocks: &made)
    usedCount = 0
  }
}

extension ChannelID {
  /// An id that nobody can guess, as the id alone decides who gets a channel's broadcasts.
  package static func random() -> ChannelID {
    let bytes = randomBytes(byteCount)
    guard let id = ChannelID(bytes: bytes.span) else {
      preconditionFailure("a channel's id has \(byteCount) bytes")
    }
    return id
  }
}
