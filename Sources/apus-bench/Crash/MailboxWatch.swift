import ApusStore
import Glibc

/// Reads the store of a running service to find pending notifications.
final class MailboxWatch {
  private let data: String
  /// Nil if the store has not been read yet, or if the last read failed.
  private var follower: RocksFollower?
  private var nextMilliseconds: UInt64 = 0

  private static let intervalMilliseconds: UInt64 = 50

  init(data: String) { self.data = data }

  /// Whether no device has a stored notification. Also false between two reads, and if a read fails.
  func isEmpty(nowMilliseconds: UInt64) -> Bool {
    guard nowMilliseconds >= nextMilliseconds else { return false }
    nextMilliseconds = nowMilliseconds + Self.intervalMilliseconds
    do {
      return try look()
    } catch {
      close()
      return false
    }
  }

  /// Closes the store's files.
  func close() { follower = nil }

  private func look() throws(StoreError) -> Bool {
    if follower == nil { follower = try RocksFollower(data: data) }
    guard let follower else { return false }
    try follower.catchUp()
    var isEmpty = true
    let all: [UInt8] = []
    try follower.scan(.mailbox, prefix: all.span, from: all.span) { _, _ in
      isEmpty = false
      return false
    }
    return isEmpty
  }
}

extension RocksFollower {
  /// Follows the store in a data directory, whether its service runs or not.
  convenience init(data: String) throws(StoreError) {
    let scratch = data + "/crash-follower"
    _ = unsafe mkdir(scratch, 0o700)
    try self.init(path: data + "/store", scratch: scratch)
  }
}
