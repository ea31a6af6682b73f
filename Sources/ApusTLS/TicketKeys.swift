internal import COpenSSL
internal import CShims
internal import Synchronization

/// The keys for sealing session tickets (RFC 5077, section 4), shared by all workers of a process, so that a device
/// that reconnects to another worker can still resume.
///
/// New tickets use the newest key. The two before it still open tickets, which are then renewed. The owner of the keys
/// rotates them; a ticket lives for at most two to three rotations.
package final class TicketKeys: Sendable {
  package struct Key: Sendable, Hashable {
    package static let byteCount = 80

    /// When it was created, in seconds since 1970.
    package let madeSeconds: Int64
    /// The name (16 bytes, unencrypted in each ticket), an AES-256 key and one for HMAC-SHA-256 (32 bytes each).
    package let bytes: [UInt8]

    /// Nil unless there are `byteCount` bytes.
    package init?(madeSeconds: Int64, bytes: [UInt8]) {
      guard bytes.count == Self.byteCount else { return nil }
      self.madeSeconds = madeSeconds
      self.bytes = bytes
    }

    fileprivate init(madeSeconds: Int64, _ random: (Int) -> [UInt8]) {
      self.madeSeconds = madeSeconds
      bytes = random(Self.byteCount)
      precondition(
        bytes.count == Self.byteCount, "the source of randomness gave \(bytes.count) bytes")
    }

    fileprivate var cipher: [UInt8] { Array(bytes[16..<48]) }
    fileprivate var mac: [UInt8] { Array(bytes[48..<80]) }
  }

  /// The number of keys: one to seal, two more to open.
  private static let held = 3

  /// Newest first.
  private let keys: Mutex<[Key]>
  private let random: @Sendable (Int) -> [UInt8]

  /// - Parameters:
  ///   - kept: Keys of an earlier process, newest first; at most three are used. Empty: one is created.
  ///   - nowSeconds: Since 1970, for a newly created key.
  ///   - random: Returns that many unpredictable bytes. A simulation passes its own source.
  package init(
    kept: [Key] = [], nowSeconds: Int64 = 0,
    random: @escaping @Sendable (Int) -> [UInt8] = TicketKeys.systemRandom
  ) {
    self.random = random
    keys = Mutex(
      kept.isEmpty ? [Key(madeSeconds: nowSeconds, random)] : Array(kept.prefix(Self.held)))
  }

  /// All keys, newest first, to store for the next process. They are secret.
  package var all: [Key] { keys.withLock { $0 } }

  /// Seals with a new key from now on, and drops the oldest of three.
  package func rotate(nowSeconds: Int64 = 0) {
    let key = Key(madeSeconds: nowSeconds, random)
    keys.withLock { keys in
      keys.insert(key, at: 0)
      if keys.count > Self.held { keys.removeLast() }
    }
  }

  /// Uses the keys of another process, newest first; at most three.
  package func replace(_ others: [Key]) {
    keys.withLock { $0 = Array(others.prefix(Self.held)) }
  }

  /// From OpenSSL's generator for secrets.
  package static func systemRandom(count: Int) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    let outcome = unsafe RAND_priv_bytes(&bytes, Int32(clamping: count))
    // A generator without entropy must not create keys.
    precondition(outcome == 1, "OpenSSL's random generator failed: \(OpenSSLErrors.drain())")
    return bytes
  }

  fileprivate func newest() -> Key { keys.withLock { $0[0] } }

  /// The key with that name, and whether it is the newest.
  fileprivate func key(named name: UnsafePointer<UInt8>) -> (key: Key, isNewest: Bool)? {
    let keys = keys.withLock { $0 }
    let index = keys.firstIndex { key in
      for index in 0..<16 where unsafe key.bytes[index] != name[index] { return false }
      return true
    }
    return index.map { (keys[$0], $0 == 0) }
  }
}

// MARK: - OpenSSL

extension TicketKeys {
  /// Makes `context` seal and open tickets with these keys. The keys must outlive the context's connections.
  func install(in context: OpaquePointer) {
    unsafe SSL_CTX_set_ex_data(context, 0, Unmanaged.passUnretained(self).toOpaque())
    unsafe SSL_CTX_set_tlsext_ticket_key_evp_cb(context) { ssl, name, iv, cipher, mac, seals in
      guard let ssl = unsafe ssl, let name = unsafe name, let iv = unsafe iv,
        let pointer = unsafe SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), 0)
      else { return -1 }
      let keys = unsafe Unmanaged<TicketKeys>.fromOpaque(pointer).takeUnretainedValue()
      if seals == 1 { return unsafe keys.seal(name: name, iv: iv, cipher: cipher, mac: mac) }
      return unsafe keys.open(ssl: ssl, name: name, iv: iv, cipher: cipher, mac: mac)
    }
  }

  /// -1: the handshake fails.
  private func seal(
    name: UnsafeMutablePointer<UInt8>, iv: UnsafeMutablePointer<UInt8>, cipher: OpaquePointer?,
    mac: OpaquePointer?
  ) -> Int32 {
    let key = newest()
    for index in 0..<16 { unsafe name[index] = key.bytes[index] }
    guard unsafe RAND_bytes(iv, 16) == 1,
      unsafe apus_tls_ticket_prepare(cipher, mac, key.cipher, key.mac, iv, true)
    else { return -1 }
    return 1
  }

  /// 0: unknown key, a full handshake follows. 1: continue. 2: continue and send a new ticket.
  private func open(
    ssl: OpaquePointer, name: UnsafeMutablePointer<UInt8>, iv: UnsafeMutablePointer<UInt8>,
    cipher: OpaquePointer?, mac: OpaquePointer?
  ) -> Int32 {
    guard let (key, isNewest) = unsafe key(named: name) else { return 0 }
    guard unsafe apus_tls_ticket_prepare(cipher, mac, key.cipher, key.mac, iv, false) else {
      return -1
    }
    // RFC 8446, appendix C.4: a client should use a ticket once, so under TLS 1.3 it always gets a new one.
    return unsafe isNewest && SSL_version(ssl) != TLS1_3_VERSION ? 1 : 2
  }
}
