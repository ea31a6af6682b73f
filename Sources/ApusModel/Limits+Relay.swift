/// The relay of notifications to an upstream service.
extension Limits {
  /// The longest time in seconds that a `retry-after` from upstream is followed. A longer one is shortened: the next
  /// answer may extend it, and an absurd one must not hold an app's notifications until they expire.
  public static let upstreamRetryAfterSeconds = 3600
  /// Seconds after which a provider is asked to send again what upstream cannot take now.
  public static let relayRetrySeconds = 10
  /// Seconds for which upstream is waited for on behalf of a provider, before it is told that there is no answer.
  public static let relayAnswerSeconds = 20
  /// Notifications that wait for one upstream at a time, in the client that sends them.
  public static let relayQueueCapacity = 20_000
  /// Notifications of an app in one environment that are in memory while they wait for upstream. With 4,000 and
  /// Apple's 1,000 streams on each of several connections, none of these waits.
  public static let relayWindow = 4000
  /// The longest time in seconds between attempts where upstream names none.
  public static let relayLongestPauseSeconds = 60
}
