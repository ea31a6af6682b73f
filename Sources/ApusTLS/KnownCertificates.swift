internal import COpenSSL
import Synchronization

/// Peers' certificates that one context has verified, by their SHA-256, and when they are valid.
///
/// A peer that comes back is let in by its certificate's digest: the chain is not built again, nor its signatures
/// checked. That is sound as long as the context's authorities are the same, and it lives no longer than the context;
/// the time is looked at each time, and so is revocation, by the caller.
///
/// There is a place here for each device of a large fleet. Of a digest's HMAC under a key that nobody else has, half
/// will do: who cannot compute it cannot look for two certificates that share it, nor for a crowded part of the table.
final class KnownCertificates: Sendable {
  private let table = Mutex(KnownCertificateTable())
  private let secret = TicketKeys.systemRandom(count: 32)
  /// At the limit the table begins anew, which costs a full check for each.
  let capacity: Int

  init(capacity: Int = 65_536) { self.capacity = capacity }

  /// Whether the certificate was verified and is valid at `now`, in Unix seconds.
  func contain(_ digest: UnsafePointer<UInt8>, now: Int64) -> Bool {
    guard let tag = unsafe tag(digest) else { return false }
    return table.withLock { $0.window(of: tag)?.contains(now) ?? false }
  }

  func note(_ digest: UnsafePointer<UInt8>, from: Int64, to: Int64) {
    guard let tag = unsafe tag(digest) else { return }
    table.withLock { table in
      if table.count >= capacity { table = KnownCertificateTable() }
      table.put(tag, from: from, to: to)
    }
  }

  var count: Int { table.withLock { $0.count } }

  /// Nil where OpenSSL cannot make one: then the certificate is verified each time.
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

/// The table: 32 to 48 bytes for each certificate, in one piece.
struct KnownCertificateTable {
  struct Tag: Equatable {
    var high: UInt64
    var low: UInt64
  }

  private struct Place {
    var tag = Tag(high: 0, low: 0)
    var fromSeconds: UInt32 = 0
    /// Unix seconds, which have 32 bits until 2106; 0 where the place is free.
    var toSeconds: UInt32 = 0
  }

  /// At most three quarters of them are taken.
  private var places = [Place](repeating: Place(), count: 16)
  private(set) var count = 0

  /// When the certificate is valid, in Unix seconds.
  func window(of tag: Tag) -> ClosedRange<Int64>? {
    let place = places[index(of: tag)]
    return place.toSeconds == 0 ? nil : Int64(place.fromSeconds)...Int64(place.toSeconds)
  }

  /// What ended before 1970 has no window, and takes no place.
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
    places[index] = Place(
      tag: tag, fromSeconds: UInt32(clamping: from), toSeconds: UInt32(clamping: to))
  }

  /// The place of the tag, or the free one where it would stand.
  private func index(of tag: Tag) -> Int {
    var index = Int(tag.high.multipliedFullWidth(by: UInt64(places.count)).high)
    while places[index].toSeconds != 0, places[index].tag != tag {
      index = index + 1 == places.count ? 0 : index + 1
    }
    return index
  }

  /// By half: by as much again, half of the table would be free in the mean.
  private mutating func grow() {
    let old = places
    places = [Place](repeating: Place(), count: old.count + old.count / 2)
    for place in old where place.toSeconds != 0 { places[index(of: place.tag)] = place }
  }
}
