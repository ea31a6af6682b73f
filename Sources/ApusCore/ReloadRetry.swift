/// When a reload that failed is tried again: soon at first, then twice as long after each failure, up to a bound.
///
/// What made it fail may go away without a trace in the files: descriptors come back, a disk recovers.
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
  /// A revocation that could not be read must not wait for longer once it can be.
  private static let longestMilliseconds: UInt64 = 4000
}
