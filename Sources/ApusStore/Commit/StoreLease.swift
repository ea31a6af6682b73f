import Synchronization

/// Until when the process that uses a database may answer by what it remembers of its devices.
///
/// Another process may take a database over once its user has been silent for a time. A user that was frozen meanwhile
/// goes on as if nothing had happened, until it hears of that: nothing it writes counts, but what it says does. So it
/// says nothing by itself once its last renewal is too old. Usable on any thread; times are those of a clock that goes
/// on while the machine is suspended.
package final class StoreLease: Sendable {
  private let endMilliseconds: Atomic<UInt64>
  private let validMilliseconds: UInt64

  /// - Parameters:
  ///   - taken: When the statement was sent that took the lease.
  ///   - validMilliseconds: How long after a renewal was sent nobody takes over.
  package init(takenAtMilliseconds taken: UInt64, validMilliseconds: UInt64) {
    endMilliseconds = Atomic(taken + validMilliseconds)
    self.validMilliseconds = validMilliseconds
  }

  /// - Parameter sent: When the renewal was sent that the database has confirmed.
  package func renewed(sentAtMilliseconds sent: UInt64) {
    endMilliseconds.store(sent + validMilliseconds, ordering: .relaxed)
  }

  /// Another process has taken over.
  package func end() { endMilliseconds.store(0, ordering: .relaxed) }

  package func hasLapsed(atMilliseconds now: UInt64) -> Bool {
    now >= endMilliseconds.load(ordering: .relaxed)
  }
}
