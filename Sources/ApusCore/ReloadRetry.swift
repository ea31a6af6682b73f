/// When to retry a failed reload: soon at first, then twice as long after each failure, up to a bound.
///
/// The cause may disappear without a change of the files: descriptors become free, a disk recovers.
package struct ReloadRetry: Sendable, Equatable {
  private var pauseMilliseconds: UInt64 = 0
  private var dueMilliseconds: UInt64?

  package init() {}

  package func isDue(nowMilliseconds: UInt64) -> Bool {
    guard let dueMilliseconds else { return false }
    return nowMilliseconds >= dueMilliseconds
  }

  package mutating func succeeded() { self = ReloadRetry() }

  package mutating func failed(nowMilliseconds: UInt64) {
    pauseMilliseconds = min(
      max(2 * pauseMilliseconds, Self.firstMilliseconds), Self.longestMilliseconds)
    dueMilliseconds = nowMilliseconds + pauseMilliseconds
  }

  private static let firstMilliseconds: UInt64 = 250
  /// A revocation that could not be read must be read soon after that becomes possible.
  private static let longestMilliseconds: UInt64 = 4000
}
