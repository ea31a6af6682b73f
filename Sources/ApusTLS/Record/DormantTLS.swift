internal import CShims

/// A compact connection between two records, as a plain value: what the next records of both directions need.
///
/// It has the connection's keys. Whoever keeps it wipes it before its memory is another's.
package struct DormantTLS {
  let suite: RecordSuite
  let isResumed: Bool
  let protocolPlace: UInt8
  let idleCount: UInt8
  /// Of reading, and of writing.
  private var keys = InlineArray<136, UInt8>(repeating: 0)

  private static let packedBytes = Int(apus_packed_bytes)

  /// Nil where something is half done.
  init?(_ side: RecordSide) {
    guard side.isBetweenRecords else { return nil }
    suite = side.suite
    isResumed = side.isResumed
    protocolPlace = side.protocolPlace
    idleCount = side.idleCount
    var mutable = keys.mutableSpan
    unsafe mutable.withUnsafeMutableBytes { bytes in
      guard let target = unsafe bytes.baseAddress?.assumingMemoryBound(to: UInt8.self) else {
        return
      }
      unsafe apus_keys_pack(&side.reading, suite.shim, target)
      unsafe apus_keys_pack(&side.writing, suite.shim, target + Self.packedBytes)
    }
  }

  /// False where OpenSSL has no memory.
  func unpack(
    _ reading: inout apus_record_keys, _ writing: inout apus_record_keys
  ) -> Bool {
    unsafe keys.span.withUnsafeBytes { bytes in
      guard let source = unsafe bytes.baseAddress?.assumingMemoryBound(to: UInt8.self) else {
        return false
      }
      return unsafe apus_keys_unpack(&reading, suite.shim, source)
        && apus_keys_unpack(&writing, suite.shim, source + Self.packedBytes)
    }
  }

  /// Overwrites the keys.
  package mutating func wipe() {
    var mutable = keys.mutableSpan
    unsafe mutable.withUnsafeMutableBytes { unsafe apus_wipe($0.baseAddress, $0.count) }
  }
}

extension TLSConnection {
  /// The connection as a value, which goes on in its place: this object is of no use afterwards. Nil, and nothing
  /// done, where it is not compact, or where something is half done: a record or a message that has arrived in part, an
  /// end, new keys that are owed.
  package func dormant() -> DormantTLS? { records.flatMap { DormantTLS($0) } }
}

extension RecordSide {
  /// Whether the keys and a few counters say all about the connection.
  fileprivate var isBetweenRecords: Bool {
    phase == .open && !isClosed && pending == .none && !owesKeyUpdate && messageCount == 0
      && skippedCount == 0 && facts == nil && !hasPartialRecord
  }
}
