import ApusCommand
import ApusModel
import ApusStore

extension CrashRun {
  /// Compares the account with the ledger and the counters of the service, which has ended.
  func readLedger() throws {
    guard failures.isEmpty else { return }
    let store = try CrashSetting.followStore(of: setting.data)
    var ends = CrashAccount.Ends()
    var position = LedgerPosition()
    let reading = try store.readLedger(LedgerQuery(), from: &position) { record in
      if record.event.state.isTerminal { ends.ids.insert(record.event.facts.id) }
      if record.event.state == .discardedNotStored { ends.discarded += 1 }
    }
    if reading.damagedRows > 0 { fail("damaged rows of the ledger: \(reading.damagedRows)") }
    let counters = try store.readCounters().map(\.counters)
    account.compare(ends, counters: counters)
    account.compare(counters: counters)
  }
}
