import ApusCommand
import ApusModel
import ApusStore
import Glibc

extension CrashRun {
  /// Compares the books with the ledger and the counters of the service, which has ended.
  func readLedger() throws {
    guard failures.isEmpty else { return }
    let store = try RocksFollower(crashed: setting.data)
    var ended: Set<NotificationID> = []
    var position = LedgerPosition()
    let reading = try store.readLedger(LedgerQuery(), from: &position) { record in
      if record.event.state.isTerminal { ended.insert(record.event.facts.id) }
    }
    if reading.damagedRows > 0 { fail("\(reading.damagedRows) rows of the ledger are damaged") }
    account.compare(ended: ended)
    account.compare(counters: try store.readCounters().map(\.counters))
  }
}

/// Looks into the store of a service that runs, for notifications that wait for their devices.
final class MailboxWatch {
  private let data: String
  private var follower: RocksFollower?
  private var nextMilliseconds: UInt64 = 0

  private static let intervalMilliseconds: UInt64 = 50

  init(data: String) { self.data = data }

  /// False between two looks as well, and where the store cannot be read at the moment.
  func isEmpty(nowMilliseconds: UInt64) -> Bool {
    guard nowMilliseconds >= nextMilliseconds else { return false }
    nextMilliseconds = nowMilliseconds + Self.intervalMilliseconds
    do {
      return try look()
    } catch {
      follower = nil
      return false
    }
  }

  private func look() throws(StoreError) -> Bool {
    if follower == nil { follower = try RocksFollower(crashed: data) }
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
  convenience init(crashed data: String) throws(StoreError) {
    let scratch = data + "/crash-follower"
    _ = unsafe mkdir(scratch, 0o700)
    try self.init(path: data + "/store", scratch: scratch)
  }
}
