import ApusModel

/// A session's time, which its driver passes in, and what it waits for.
struct SessionClock {
  static var requestMilliseconds: UInt64 { UInt64(Limits.requestSeconds) * 1000 }
  static var stallMilliseconds: UInt64 { UInt64(Limits.writeStallSeconds) * 1000 }

  private(set) var nowMilliseconds: UInt64
  /// When there will be something to do at the earliest; `.max` if nothing is timed.
  private(set) var deadline = UInt64.max
  /// Since when the peer has owed the rest of a frame, and of which.
  private var insideSinceMilliseconds: UInt64?
  private var insideUnit = 0

  /// The peer owes the preface.
  init(nowMilliseconds: UInt64) {
    self.nowMilliseconds = nowMilliseconds
    insideSinceMilliseconds = nowMilliseconds
    arm(nowMilliseconds + Self.requestMilliseconds)
  }

  mutating func set(_ now: UInt64) { nowMilliseconds = now }

  mutating func arm(_ due: UInt64) { if due < deadline { deadline = due } }

  /// Arms the time that a request or the rest of a frame may take.
  mutating func armRequest() { arm(nowMilliseconds + Self.requestMilliseconds) }

  /// Arms the time that a response may take to leave.
  mutating func armStall() { arm(nowMilliseconds + Self.stallMilliseconds) }

  /// Whether the deadline has come. It is forgotten then, to be armed again for what is not due yet.
  mutating func takeDeadline(atMilliseconds now: UInt64) -> Bool {
    nowMilliseconds = max(now, nowMilliseconds)
    guard now >= deadline else { return false }
    deadline = .max
    return true
  }

  /// Records since when the peer has owed the rest of a frame.
  mutating func set(_ watch: FrameWatch) {
    guard watch.isInsideUnit else {
      insideSinceMilliseconds = nil
      return
    }
    if insideSinceMilliseconds == nil || insideUnit != watch.unit {
      insideSinceMilliseconds = nowMilliseconds
      insideUnit = watch.unit
      armRequest()
    }
  }

  /// Whether the peer has owed the rest of a frame for too long; otherwise armed again.
  mutating func isFrameOverdue() -> Bool {
    guard let since = insideSinceMilliseconds else { return false }
    let due = since + Self.requestMilliseconds
    if nowMilliseconds >= due { return true }
    arm(due)
    return false
  }
}
