internal import COpenSSL
import Synchronization

/// Peers' certificates that one context has verified, by their SHA-256, and their validity.
///
/// A returning peer is recognised by its certificate's digest: its chain is not built again, and its signatures are
/// not checked again. This is sound while the context's authorities are unchanged, and the table lives no longer than
/// the context. The time is checked each time, and the caller checks revocation.
///
/// The table has room for each device of a large fleet. Half of the digest's HMAC under a secret key suffices: without
/// the key nobody can find two certificates that share it, or certificates that crowd one part of the table.
final class KnownCertificates: Sendable {
  private let table = Mutex(KnownCertificateTable())
  private let secret = TicketKeys.systemRandom(count: 32)
  /// At this limit the table is emptied, which costs one full verification per certificate.
  let capacity: Int

  init(capacity: Int = 65_536) { self.capacity = capacity }

  /// Whether the certificate was verified and is valid at `now`, in Unix seconds.
  func contain(_ digest: UnsafePointer<UInt8>, now: Int64) -> Bool {
    guard let tag = unsafe tag(digest) else { return false }
    return table.withLock { $0.window(of: tag)?.contains(now) ?? false }
  }

  func insert(_ digest: UnsafePointer<UInt8>, from: Int64, to: Int64) {
    guard let tag = unsafe tag(digest) else { return }
    table.withLock { table in
      if table.count >= capacity { table = KnownCertificateTable() }
      table.put(tag, from: from, to: to)
    }
  }

  var count: Int { table.withLock { $0.count } }

  /// Nil if OpenSSL fails: then the certificate is verified each time.
  private func tag(_ digest: UnsafePointer<UInt8>) -> KnownCertificateTable.Tag? {
    var bytes = InlineArray<32, UInt8>(repeating: 0)
    var span = bytes.mutableSpan
    return unsafe span.withUnsafeMutableBytes { bytes in
      let address = unsafe bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)
      let made = unsafe HMAC(EVP_sha256(), secret, Int32(secret.count), digest, 32, address, nil)
      guard unsafe made != nil else { return nil }
      return unsafe KnownCertificateTable.Tag(
        high: bytes.loadUnaligned(as: UInt64.self),
        low: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
    }
  }
}

/// The table: 32 to 48 bytes per certificate, in one allocation.
struct KnownCertificateTable {
  struct Tag: Equatable {
    var high: UInt64
    var low: UInt64
  }

  private struct Entry {
    var tag = Tag(high: 0, low: 0)
    var fromSeconds: UInt32 = 0
    /// Unix seconds, which fit 32 bits until 2106; 0 if the slot is free.
    var toSeconds: UInt32 = 0
  }

  /// At most three quarters full.
  private var places = [Entry](repeating: Entry(), count: 16)
  private(set) var count = 0

  /// The certificate's validity in Unix seconds.
  func window(of tag: Tag) -> ClosedRange<Int64>? {
    let place = places[index(of: tag)]
    return place.toSeconds == 0 ? nil : Int64(place.fromSeconds)...Int64(place.toSeconds)
  }

  /// A certificate that expired before 1970 has no validity here, and is not stored.
  mutating func put(_ tag: Tag, from: Int64, to: Int64) {
    guard to > 0, from <= to else { return }
    var index = index(of: tag)
    if places[index].toSeconds == 0 {
      if (count + 1) * 4 > places.count * 3 {
        grow()
        index = self.index(of: tag)
      }
      count += 1
    }
    places[index] = Entry(
      tag: tag, fromSeconds: UInt32(clamping: from), toSeconds: UInt32(clamping: to))
  }

  /// The index of the tag, or the free one for it.
  private func index(of tag: Tag) -> Int {
    var index = Int(tag.high.multipliedFullWidth(by: UInt64(places.count)).high)
    while places[index].toSeconds != 0, places[index].tag != tag {
      index = index + 1 == places.count ? 0 : index + 1
    }
    return index
  }

  /// By half: if it doubled, half of the table would be free on average.
  private mutating func grow() {
    let old = places
    places = [Entry](repeating: Entry(), count: old.count + old.count / 2)
    for place in old where place.toSeconds != 0 { places[index(of: place.tag)] = place }
  }
}
