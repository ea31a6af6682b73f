import ApusModel
import CRocksDB
import Glibc
import Synchronization

/// Finds expired notifications while the engine merges tables, so that no search is needed.
///
/// The engine shows each row of the mailbox that it rewrites to a compaction filter, and rewrites every table at least
/// once per `RocksOptions.mailboxRewriteSeconds`. The filter keeps every row and only records the key: the row may
/// have been removed or replaced in a newer table, so the row is read again before its end is counted. An index by
/// time would have to be written with each notification, and most of those never expire.
@safe
final class ExpiryFinder: Sendable {
  private let found = Mutex<[MailboxKey]>([])

  /// Keys that wait to be taken; further ones are found again by the next merge.
  private static let limit = 65_536

  /// Up to `limit` keys, in no order.
  func take(limit: Int, into keys: inout [MailboxKey]) {
    let taken = found.withLock { found in
      let taken = Array(found.suffix(limit))
      found.removeLast(taken.count)
      return taken
    }
    keys.append(contentsOf: taken)
  }

  /// A filter for the mailbox's options: its owner destroys it once no database uses it.
  func makeFilter() -> OpaquePointer {
    let state = unsafe Unmanaged.passRetained(self).toOpaque()
    return unsafe rocksdb_compactionfilter_create(
      state, releaseFinder, examineRow, { _ in unsafe filterName })
  }

  fileprivate func examine(key: Span<UInt8>, value: Span<UInt8>, nowSeconds: Int64) {
    guard StoredNotification.isExpired(value, nowSeconds: nowSeconds),
      let place = try? MailboxKey(decoding: key)
    else { return }
    found.withLock { if $0.count < Self.limit { $0.append(place) } }
  }
}

nonisolated(unsafe) private let filterName = unsafe UnsafePointer(strdup("apus.expiry"))

private func releaseFinder(_ state: UnsafeMutableRawPointer?) {
  guard let state = unsafe state else { return }
  unsafe Unmanaged<ExpiryFinder>.fromOpaque(state).release()
}

/// Called on the engine's threads. 0 keeps the row.
private func examineRow(
  _ state: UnsafeMutableRawPointer?, _ level: Int32, _ key: UnsafePointer<CChar>?,
  _ keyLength: Int, _ value: UnsafePointer<CChar>?, _ valueLength: Int,
  _ newValue: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?,
  _ newValueLength: UnsafeMutablePointer<Int>?, _ valueChanged: UnsafeMutablePointer<UInt8>?
) -> UInt8 {
  guard let state = unsafe state, let key = unsafe key, let value = unsafe value else { return 0 }
  let finder = unsafe Unmanaged<ExpiryFinder>.fromOpaque(state).takeUnretainedValue()
  let keyBytes = unsafe UnsafeRawBufferPointer(start: key, count: keyLength)
  let valueBytes = unsafe UnsafeRawBufferPointer(start: value, count: valueLength)
  unsafe finder.examine(
    key: Span(_unsafeBytes: keyBytes), value: Span(_unsafeBytes: valueBytes),
    nowSeconds: Int64(time(nil)))
  return 0
}
