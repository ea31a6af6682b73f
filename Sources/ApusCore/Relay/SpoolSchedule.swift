/// When a spool's writes are due: one group is written at a time, and what gathers meanwhile goes with the next.
package struct SpoolSchedule: Sendable {
  /// Something to write.
  package enum Kind: Sendable {
    /// Providers wait for it.
    case acceptances
    /// A crash before it is written sends again what upstream has answered.
    case endings
    /// Nothing but lines of the ledger.
    case lines
  }

  private var dueMilliseconds = UInt64.max
  private var isWriting = false

  private static let endingsMilliseconds: UInt64 = 20
  private static let linesMilliseconds: UInt64 = 1000

  package init() {}

  package mutating func note(_ kind: Kind, nowMilliseconds now: UInt64) {
    let due =
      switch kind {
      case .acceptances: now
      case .endings: now + Self.endingsMilliseconds
      case .lines: now + Self.linesMilliseconds
      }
    dueMilliseconds = min(dueMilliseconds, due)
  }

  /// Whether to write now; then `finished` follows. With `isLast`, whatever there is goes at once.
  package mutating func begin(nowMilliseconds now: UInt64, isLast: Bool = false) -> Bool {
    guard !isWriting, dueMilliseconds <= now || isLast && dueMilliseconds < .max else {
      return false
    }
    isWriting = true
    dueMilliseconds = .max
    return true
  }

  /// The group was written, or not.
  package mutating func finished() { isWriting = false }

  /// When to call `begin` next; nil if something else will happen before.
  package var nextMilliseconds: UInt64? {
    isWriting || dueMilliseconds == .max ? nil : dueMilliseconds
  }

  /// Whether everything is written.
  package var isIdle: Bool { !isWriting && dueMilliseconds == .max }
}
