import ApusModel
import ApusServer
import ApusStore

/// Records which notifications the service accepted and ended while it ran, and compares this with the ledger on the
/// disk: a killed process must not lose an end, and what it had only in memory ends with the next start. Only what is
/// still stored has no end, or will end again.
final class LedgerOracle: @unchecked Sendable {
  /// By order of acceptance: ends that the workers reported and the disk has not shown yet.
  private var awaited: Set<UInt64> = []
  /// Accepted and not ended.
  private var open: Set<UInt64> = []
  /// Ends from a killed or stopped process that must reach the disk.
  private var owed: Set<UInt64> = []
  private var position = LedgerPosition()
  /// Serial numbers of the accepted notifications whose ids tell them.
  private(set) var accepted: Set<Int> = []
  /// Accepted ones with other ids.
  private(set) var unnamedCount = 0
  /// Acceptances that the counters must have. Besides each notification's first one, these are the ones of what was
  /// found on the disk after its write had failed.
  private(set) var receivedCount = 0
  private var acceptedOrders: Set<UInt64> = []

  func noted(_ events: [LedgerEvent], milliseconds: Int64) {
    // The relay's notifications are for RelayOracle.
    for event in events where event.facts.device != .none {
      if event.state == .received {
        open.insert(event.facts.order)
        count(event)
      } else if event.state.isTerminal {
        open.remove(event.facts.order)
        awaited.insert(event.facts.order)
      }
    }
  }

  /// By a process that another one has taken over from: nothing of it is kept, but its provider may have been told.
  func notedByFenced(_ events: [LedgerEvent]) {
    for event in events where event.facts.device != .none && event.state == .received {
      name(event)
    }
  }

  private func count(_ event: LedgerEvent) {
    receivedCount += 1
    name(event)
  }

  private func name(_ event: LedgerEvent) {
    guard acceptedOrders.insert(event.facts.order).inserted else { return }
    if let serial = SimulationID.serial(of: event.facts.id) {
      accepted.insert(serial)
    } else {
      unnamedCount += 1
    }
  }

  /// The process ended. With a power loss, unsynced data may be lost.
  func serviceEnded(_ disk: some StoreReader, losesPower: Bool) {
    owed.formUnion(awaited)
    owed.formUnion(open)
    (awaited, open) = ([], [])
    if losesPower { owed = [] }
    readLedger(disk)
  }

  /// The ends missing on the disk, once the service has run again for a while.
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
