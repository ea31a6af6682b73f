import ApusModel
import ApusServer
import ApusStore

/// Knows which notifications ended while the service ran, and holds the ledger on the disk against that: a process that
/// is killed takes no end with it, unless the notification is still stored and is to end again.
final class LedgerOracle: LedgerWatcher, @unchecked Sendable {
  /// By the order of acceptance: what ended, as the workers said, and was not seen on the disk yet.
  private var awaited: Set<UInt64> = []
  /// What ended in a process that was killed or stopped, and must come onto the disk.
  private var owed: Set<UInt64> = []
  private var position = LedgerPosition()

  func noted(_ events: [LedgerEvent], milliseconds: Int64) {
    for event in events where event.state.isTerminal { awaited.insert(event.facts.order) }
  }

  /// The process ended. What was not synced may have gone with the power.
  func serviceEnded(_ disk: some StoreReader, losesPower: Bool) {
    owed.formUnion(awaited)
    awaited = []
    if losesPower { owed = [] }
    readLedger(disk)
  }

  /// What is missing on the disk, once the service has run for a while again.
  func missing(_ disk: some StoreReader) -> Set<UInt64> {
    guard !owed.isEmpty else { return [] }
    readLedger(disk)
    let none: [UInt8] = []
    try? disk.scan(.mailbox, prefix: none.span) { _, value in
      if let stored = try? StoredNotification(decoding: value) {
        owed.remove(stored.fields.acceptanceOrder)
      }
      return true
    }
    for row in (try? disk.readSuperseded()) ?? [] { owed.remove(row.facts.order) }
    defer { owed = [] }
    return owed
  }

  private func readLedger(_ disk: some StoreReader) {
    _ = try? disk.readLedger(LedgerQuery(), from: &position) { line in
      guard line.event.state.isTerminal else { return }
      owed.remove(line.event.facts.order)
      awaited.remove(line.event.facts.order)
    }
  }
}
