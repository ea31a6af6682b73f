import ApusModel
import Synchronization

/// Finds expired notifications by reading the mailbox from its beginning to its end, again and again.
///
/// An index by time would have to be written with each notification, and most of those never expire.
final class ExpirySearch: Sendable {
  private struct State {
    var found: [MailboxKey] = []
    /// The time of the last call of `take`; nil before the first one.
    var nowSeconds: Int64?
    var cursor: [UInt8] = []
  }

  private let state = Mutex(State())

  /// Keys that wait to be taken, beyond which the search pauses.
  private static let limit = 65_536

  func take(nowSeconds: Int64, limit: Int, into keys: inout [MailboxKey]) {
    let taken = state.withLock { state in
      state.nowSeconds = nowSeconds
      let taken = Array(state.found.suffix(limit))
      state.found.removeLast(taken.count)
      return taken
    }
    keys.append(contentsOf: taken)
  }

  /// Searches the next `rows` rows. Called by one thread at a time.
  ///
  /// - Returns: Whether there are further rows.
  @discardableResult
  func search(_ reading: PostgresReading, rows: Int64) -> Bool {
    let start = state.withLock { state in
      state.found.count < Self.limit ? state.nowSeconds.map { ($0, state.cursor) } : nil
    }
    guard let (nowSeconds, cursor) = start,
      let part = try? reading.expired(after: cursor, nowSeconds: nowSeconds, rows)
    else { return false }
    let places = part.keys.compactMap { try? MailboxKey(decoding: $0.span) }
    state.withLock { state in
      state.found += places
      state.cursor = part.last ?? []
    }
    return part.last != nil
  }
}
