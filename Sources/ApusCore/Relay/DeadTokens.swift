package import ApusModel

/// The tokens that upstream has declared dead: for a day, nothing more is sent there for them.
///
/// Apple watches whether providers go on pushing to dead tokens. A legacy sender may do so until it has read the
/// feedback list, so the gateway keeps those pushes back. An app that was installed again usually has another token; if
/// it has the same one, that works again a day after upstream declared it dead.
///
/// Bounded: the oldest makes room, and is then sent upstream once more, which declares it dead again. The caller passes
/// the time. A clock that is set back by a day or more ends what was noted before.
package struct DeadTokens: Sendable {
  private struct Entry: Sendable {
    var sinceMilliseconds: Int64
    var notedSeconds: Int64

    func isCurrent(_ nowSeconds: Int64) -> Bool {
      let (age, overflow) = nowSeconds.subtractingReportingOverflow(notedSeconds)
      return !overflow && age.magnitude < Limits.deadUpstreamSeconds.magnitude
    }
  }

  private var entries: [RelayedToken: Entry] = [:]
  /// Each token once, the oldest first.
  private var order = FIFO<RelayedToken>()
  private let capacity: Int

  /// - Parameter capacity: At least 1.
  package init(capacity: Int = Limits.deadUpstreamTokens) {
    precondition(capacity > 0, "a table without room")
    self.capacity = capacity
  }

  package var count: Int { entries.count }

  /// Upstream declared the token dead, since that Unix time. The day begins at `notedSeconds`; for a token that is in
  /// the table already, because several pushes to it were on their way, it began with the first answer.
  ///
  /// Call ``removeExpired(nowSeconds:)`` first. Also restores the rows of the store: their order then counts instead of
  /// their age, so some leave the table up to a day late, without being kept back for longer.
  ///
  /// - Returns: The token that made room: the caller deletes its row.
  package mutating func note(
    _ token: RelayedToken, sinceMilliseconds: Int64, notedSeconds: Int64
  ) -> RelayedToken? {
    if let entry = entries[token] {
      entries[token]?.sinceMilliseconds = sinceMilliseconds
      // Only after a jump of the clock, since others that expired were removed: it keeps its place.
      if !entry.isCurrent(notedSeconds) { entries[token]?.notedSeconds = notedSeconds }
      return nil
    }
    let displaced = entries.count == capacity ? removeOldest() : nil
    entries[token] = Entry(sinceMilliseconds: sinceMilliseconds, notedSeconds: notedSeconds)
    order.append(token)
    return displaced
  }

  /// The Unix time in milliseconds since when the token is dead; nil if it may be sent upstream.
  package func sinceMilliseconds(of token: RelayedToken, nowSeconds: Int64) -> Int64? {
    entries[token].flatMap { $0.isCurrent(nowSeconds) ? $0.sinceMilliseconds : nil }
  }

  /// Removes the oldest token if its day is over; nil if it is not. The caller repeats this until then, and deletes the
  /// rows.
  package mutating func removeExpired(nowSeconds: Int64) -> RelayedToken? {
    guard let oldest = order.first, entries[oldest]?.isCurrent(nowSeconds) == false else {
      return nil
    }
    return removeOldest()
  }

  private mutating func removeOldest() -> RelayedToken? {
    guard let oldest = order.popFirst() else { return nil }
    entries[oldest] = nil
    return oldest
  }
}
