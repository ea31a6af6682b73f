/// The state of a topic in a device's filter, from the least to the most restrictive.
///
/// A hash in several lists gets the most restrictive state. The raw values are stored.
public enum TopicState: UInt8, Sendable, CaseIterable, Hashable, Comparable {
  /// Deliver now; may wake the device.
  case enabled = 0
  /// Deliver, but do not wake the device for it.
  case nonWaking = 1
  /// Deliver when the connection is in use anyway or the device is awake.
  case opportunistic = 2
  /// Keep; deliver nothing until the list changes.
  case paused = 3
  /// The app is installed, but its user turned notifications off: do not deliver, but keep the token valid.
  case ignored = 4
  /// In none of the lists. If it was in one before, the app was removed.
  case unlisted = 5

  public static func < (left: TopicState, right: TopicState) -> Bool {
    left.rawValue < right.rawValue
  }
}
