import ApusCommand
import ApusModel
import ApusStore
import Glibc

extension CrashRun {
  /// Compares the books with the ledger and the counters of the service, which has ended.
  func readLedger() throws {
    guard failures.isEmpty else { return }
    let scratch = setting.data + "/crash-follower"
    _ = unsafe mkdir(scratch, 0o700)
    let store = try RocksFollower(path: setting.data + "/store", scratch: scratch)
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
