/// Notifications that were dropped after acceptance by silence, because their room was needed. If a late packet proves
/// that they were not accepted, they can only be counted.
struct DroppedFrames: Sendable {
  /// Those of this connection, and the place behind the last.
  private var count = 0
  private var through = 0
  /// Those that turned out not to be accepted. An upper bound, since some of them may have been cancelled.
  private(set) var forgottenCount = 0

  mutating func connectionBegan() { count = 0 }

  mutating func dropped(_ place: Int) {
    count += 1
    through = place + 1
  }

  /// The service rejected the notification, which is no longer kept.
  mutating func rejected(_ place: Int) { if count > 0, place < through { forgottenCount += 1 } }

  /// The service did not read anything after `place`.
  mutating func unread(after place: Int) {
    forgottenCount += max(0, min(through - place - 1, count))
  }

  /// The service may not have accepted any of them.
  mutating func doubted() { forgottenCount += count }

  mutating func takeForgotten() -> Int {
    defer { forgottenCount = 0 }
    return forgottenCount
  }
}
