/// The relay of notifications to an upstream service.
extension Limits {
  /// The longest time in seconds that a `retry-after` from upstream is followed. A longer one is shortened: the next
  /// answer may extend it, and an absurd one must not hold an app's notifications until they expire.
  public static let upstreamRetryAfterSeconds = 3600
}
