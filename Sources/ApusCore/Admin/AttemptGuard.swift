import ApusModel

/// The source that failed attempts are counted for: an IPv4 address, or the first 64 bits of an IPv6 address.
///
/// A site with a /64 controls all of its addresses (RFC 6177), so the remaining bits identify nobody.
package struct AddressPrefix: Sendable, Hashable {
  private let bits: UInt64
  private let isIPv6: Bool

  /// - Parameter address: 4 or 16 bytes in network order.
  package init(_ address: Span<UInt8>) {
    isIPv6 = address.count == 16
    var bits: UInt64 = 0
    for index in 0..<min(isIPv6 ? 8 : 4, address.count) {
      bits = bits << 8 | UInt64(address[index])
    }
    self.bits = bits
  }
}

/// Slows down attempts to guess secrets.
///
/// The first failures are answered at once: a user may have taken the wrong file. Each further one is answered later,
/// and from the tenth on the address is refused for a time, whatever it presents, so that it cannot even learn that a
/// guess was right. Failures are forgotten one by one. The caller passes the time, from a monotonic clock.
///
/// The table is bounded. When it is full, the entry with the fewest and oldest failures makes room, so an attacker
/// with unlimited addresses gets a few guesses from each; the secrets (256 bits) withstand that.
package struct AttemptGuard: Sendable {
  /// What to do with an attempt before checking the secret.
  package enum Verdict: Sendable, Hashable {
    case look
    /// Refuse it without a check.
    case refuse(retryAfterSeconds: Int64)
  }

  /// What to do about a failed attempt.
  package enum Penalty: Sendable, Hashable {
    case answer
    /// Answer after this many milliseconds.
    case hold(milliseconds: Int64)
    /// Answer, and refuse the address for this long.
    case refuse(retryAfterSeconds: Int64)
  }

  private struct Record {
    /// Failures not yet forgotten as of `sinceMilliseconds`.
    var failures: Int
    var sinceMilliseconds: Int64
    var refusedUntilMilliseconds = Int64.min
  }

  private var records: [AddressPrefix: Record] = [:]
  private let capacity: Int

  package init(capacity: Int = Limits.guardedAddresses) { self.capacity = capacity }

  /// Call it before an attempt from that address is checked.
  package func attempt(from prefix: AddressPrefix, nowMilliseconds now: Int64) -> Verdict {
    guard let record = records[prefix], record.refusedUntilMilliseconds > now else { return .look }
    return .refuse(retryAfterSeconds: Self.seconds(record.refusedUntilMilliseconds - now))
  }

  /// The secret was wrong.
  package mutating func failed(from prefix: AddressPrefix, nowMilliseconds now: Int64) -> Penalty {
    var record =
      records[prefix].map { Self.aged($0, now) }
      ?? Record(failures: 0, sinceMilliseconds: now)
    if record.failures == 0 {
      record.sinceMilliseconds = now
      if records[prefix] == nil { makeRoom(now) }
    }
    record.failures += 1
    defer { records[prefix] = record }
    let failures = record.failures
    if failures >= Limits.failuresUntilRefused {
      let doublings = min(failures - Limits.failuresUntilRefused, 5)
      let seconds = Limits.firstRefusalSeconds << Int64(doublings)
      record.refusedUntilMilliseconds = now + seconds * 1000
      return .refuse(retryAfterSeconds: seconds)
    }
    guard failures > Limits.failuresAnsweredAtOnce else { return .answer }
    let doublings = failures - Limits.failuresAnsweredAtOnce - 1
    return .hold(milliseconds: Limits.firstHoldMilliseconds << Int64(doublings))
  }

  /// The secret was right: earlier failures were mistakes.
  package mutating func succeeded(from prefix: AddressPrefix) { records[prefix] = nil }

  /// Addresses with remembered failures.
  package var count: Int { records.count }

  private static func aged(_ record: Record, _ now: Int64) -> Record {
    var record = record
    let forgiven = max(0, (now - record.sinceMilliseconds) / (Limits.failureForgivenSeconds * 1000))
    record.failures = max(0, record.failures - Int(min(forgiven, Int64(record.failures))))
    record.sinceMilliseconds += forgiven * Limits.failureForgivenSeconds * 1000
    return record
  }

  private mutating func makeRoom(_ now: Int64) {
    guard records.count >= capacity else { return }
    records = records.filter { Self.aged($0.value, now).failures > 0 }
    guard records.count >= capacity else { return }
    let least = records.min { left, right in
      (left.value.failures, left.value.sinceMilliseconds)
        < (right.value.failures, right.value.sinceMilliseconds)
    }
    if let least { records[least.key] = nil }
  }

  private static func seconds(_ milliseconds: Int64) -> Int64 { (milliseconds + 999) / 1000 }
}
