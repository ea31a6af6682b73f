internal import CShims

/// A compact connection between two records, as a plain value: the state for the next records in both directions.
///
/// It contains the connection's keys. Its owner must wipe it before its memory is reused.
package struct DormantTLS {
  let suite: RecordSuite
  let isResumed: Bool
  let protocolPlace: UInt8
  let idleCount: UInt8
  /// For reading, then for writing.
  private var keys = InlineArray<136, UInt8>(repeating: 0)

  private static let packedBytes = Int(apus_packed_bytes)

  /// Nil if a record or message is incomplete.
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

  /// False if OpenSSL is out of memory.
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
  /// The connection as a value that continues it: this object must not be used afterwards. Nil, changing nothing, if
  /// it is not compact, or if something is incomplete: a record or message received in part, an end, a pending key
  /// update.
  package func dormant() -> DormantTLS? { records.flatMap { DormantTLS($0) } }
}

extension RecordSide {
  /// Whether the keys and a few counters are the connection's whole state.
  fileprivate var isBetweenRecords: Bool {
    phase == .open && !isClosed && pending == .none && !owesKeyUpdate && messageCount == 0
      && skippedCount == 0 && facts == nil && !hasPartialRecord
  }
}
