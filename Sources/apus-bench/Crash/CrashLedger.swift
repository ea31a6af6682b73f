import ApusCommand
import ApusModel
import ApusStore

extension CrashRun {
  /// Compares the account with the ledger and the counters of the service, which has ended.
  func readLedger() throws {
    guard failures.isEmpty else { return }
    let store = try RocksFollower(data: setting.data)
    var ended: Set<NotificationID> = []
    var position = LedgerPosition()
    let reading = try store.readLedger(LedgerQuery(), from: &position) { record in
      if record.event.state.isTerminal { ended.insert(record.event.facts.id) }
    }
    if reading.damagedRows > 0 { fail("damaged rows of the ledger: \(reading.damagedRows)") }
    account.compare(ended: ended)
    account.compare(counters: try store.readCounters().map(\.counters))
  }
}
