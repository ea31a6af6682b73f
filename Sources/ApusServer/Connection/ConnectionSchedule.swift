/// When the deadline wheel must come to a connection. All times are seconds of the worker's clock; `.max` means never.
struct ConnectionSchedule {
  /// A time limit of the protocol, or of the connection's end.
  var deadlineSeconds: UInt64
  /// When it is checked whether the connection has been quiet for long enough to fall dormant.
  var quietSeconds = UInt64.max
  /// When a peer that takes none of its waiting output is cut off. Separate from the other limits, which apply whether
  /// or not the peer reads slowly.
  private var stalledSeconds = UInt64.max
  /// When the wheel comes to the connection next.
  private(set) var watchedSeconds = UInt64.max
  /// A later entry that the wheel has, too.
  private var plannedSeconds = UInt64.max

  init(deadlineSeconds: UInt64, watchedSeconds: UInt64 = .max) {
    self.deadlineSeconds = deadlineSeconds
    self.watchedSeconds = watchedSeconds
  }

  /// When a time limit is reached.
  var dueSeconds: UInt64 { min(deadlineSeconds, stalledSeconds) }

  // MARK: Output

  /// Output waits for the peer, until `limit` at the latest.
  mutating func outputWaits(until limit: UInt64) { stalledSeconds = min(stalledSeconds, limit) }

  /// The peer has taken some of the output, and has until `limit` to take more.
  mutating func outputMoved(until limit: UInt64) { stalledSeconds = limit }

  /// The peer has taken all output.
  mutating func outputTaken() { stalledSeconds = .max }

  func isStalled(atSeconds now: UInt64) -> Bool { stalledSeconds <= now }

  // MARK: The wheel

  /// The time for which the wheel needs a new entry; nil if it has an earlier one.
  ///
  /// The next entry and a later one are remembered: a deadline that moves back and forth with every message adds
  /// nothing to the wheel, nor does one that comes and goes before a distant one.
  var missingSeconds: UInt64? {
    let next = min(dueSeconds, quietSeconds)
    return next < watchedSeconds ? next : nil
  }

  /// The wheel has a new entry for `seconds`.
  mutating func added(atSeconds seconds: UInt64) {
    if plannedSeconds == .max { plannedSeconds = watchedSeconds }
    watchedSeconds = seconds
  }

  /// The wheel has come to an entry of the connection; false if that is none of the remembered ones.
  mutating func reached(atSeconds now: UInt64) -> Bool {
    guard watchedSeconds <= now else { return false }
    (watchedSeconds, plannedSeconds) = (plannedSeconds, .max)
    return true
  }
}
