import Synchronization

/// Peers' certificates that one context has verified, by their SHA-256, and when they are valid.
///
/// A peer that comes back is let in by its certificate's digest: the chain is not built again, nor its signatures
/// checked. That is sound as long as the context's authorities are the same, and it lives no longer than the context;
/// the time is looked at each time, and so is revocation, by the caller.
final class KnownCertificates: Sendable {
  private struct Key: Hashable {
    var words: (UInt64, UInt64, UInt64, UInt64)

    static func == (left: Key, right: Key) -> Bool { left.words == right.words }
    // SHA-256 spreads evenly, but a peer may choose its certificate: the hasher is seeded.
    func hash(into hasher: inout Hasher) { hasher.combine(words.0) }
  }

  private let windows = Mutex<[Key: ClosedRange<Int64>]>([:])
  /// Certificates; about 100 bytes each. At the limit the table begins anew, which costs a full check for each.
  let capacity: Int

  init(capacity: Int = 65_536) { self.capacity = capacity }

  /// Whether the certificate was verified and is valid at `now`, in Unix seconds.
  func contain(_ digest: UnsafePointer<UInt8>, now: Int64) -> Bool {
    let key = unsafe Self.key(digest)
    return windows.withLock { $0[key]?.contains(now) ?? false }
  }

  func note(_ digest: UnsafePointer<UInt8>, from: Int64, to: Int64) {
    let key = unsafe Self.key(digest)
    windows.withLock { windows in
      if windows.count >= capacity { windows.removeAll(keepingCapacity: true) }
      windows[key] = from...to
    }
  }

  var count: Int { windows.withLock { $0.count } }

  private static func key(_ digest: UnsafePointer<UInt8>) -> Key {
    let bytes = unsafe UnsafeRawPointer(digest)
    return unsafe Key(
      words: (
        bytes.loadUnaligned(as: UInt64.self),
        bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self),
        bytes.loadUnaligned(fromByteOffset: 16, as: UInt64.self),
        bytes.loadUnaligned(fromByteOffset: 24, as: UInt64.self)
      ))
  }
}
