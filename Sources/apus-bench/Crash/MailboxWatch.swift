import ApusStore
import Glibc

/// Reads the store of a running service to find pending notifications.
final class MailboxWatch {
  private let data: String
  /// Nil if the store has not been read yet, or if the last read failed.
  private var follower: (any StoreFollower)?
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
    if follower == nil { follower = try CrashSetting.followStore(of: data) }
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

extension CrashSetting {
  /// Follows the store of a data directory, whether its service runs or not: the database of which `APUS_STORE` has the
  /// address, as for the service itself, or the embedded one.
  static func followStore(of data: String) throws(StoreError) -> any StoreFollower {
    if let text = unsafe getenv("APUS_STORE") {
      let address: PostgresAddress
      do throws(PostgresAddress.Problem) {
        address = try PostgresAddress(unsafe String(cString: text))
      } catch {
        throw .database(place: "APUS_STORE", detail: "\(error)")
      }
      return try PostgresFollower(address)
    }
    let scratch = data + "/crash-follower"
    _ = unsafe mkdir(scratch, 0o700)
    return try RocksFollower(path: data + "/store", scratch: scratch)
  }
}
