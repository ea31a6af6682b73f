package import ApusModel

/// Hears of every line of the ledger as it is noted: for a development service that shows the way of each notification.
///
/// Called on workers' threads, from several at once: it must not wait.
package protocol LedgerWatcher: Sendable {
  /// - Parameter milliseconds: Unix milliseconds of the service's clock.
  func noted(_ events: [LedgerEvent], milliseconds: Int64)
}
