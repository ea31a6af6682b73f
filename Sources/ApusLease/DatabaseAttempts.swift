/// When a process that waits for leases tries again to use the database of a part that failed it.
///
/// An attempt can block for seconds, in which the process looks at no lease. So it spends at most a fifth of its time
/// on attempts that fail, in one database or in many, and the rest on the leases whose databases work. A database that
/// refuses at once, as during a failover, is tried again soon.
package struct DatabaseAttempts: Sendable {
  private struct Place {
    var isLeftOut = false
    /// Those in a row.
    var failures = 0
    var failedMilliseconds: Int64 = 0
    var retryMilliseconds: Int64 = 0
  }

  /// The pause after a failure that took no time, doubled for each further one.
  private static let firstPauseMilliseconds: Int64 = 100
  private static let maximumShortPauseMilliseconds: Int64 = 1000
  /// How many times as long as the attempt the pause is.
  private static let share: Int64 = 4
  /// The longest pause: a database is used again within this time of its return.
  private static let maximumPauseMilliseconds: Int64 = 10_000

  private var places: [Place]
  /// Before that, none is tried that has failed.
  private var pauseEndMilliseconds: Int64 = 0

  /// - Parameter count: The number of parts.
  package init(count: Int) { places = Array(repeating: Place(), count: count) }

  package func mayTry(_ place: Int, nowMilliseconds now: Int64) -> Bool {
    guard places[place].isLeftOut else { return true }
    guard now >= max(pauseEndMilliseconds, places[place].retryMilliseconds) else { return false }
    // Those that have waited longest come first.
    return places.indices.filter { places[$0].isLeftOut }.min {
      places[$0].retryMilliseconds < places[$1].retryMilliseconds
    } == place
  }

  /// Leaves a place out for the returned number of milliseconds, or longer if attempts at others fail.
  ///
  /// - Parameter from: When the attempt began.
  package mutating func failed(
    _ place: Int, fromMilliseconds from: Int64, nowMilliseconds now: Int64
  ) -> Int64 {
    if now - places[place].failedMilliseconds > 2 * Self.maximumPauseMilliseconds {
      places[place].failures = 0
    }
    let short = min(
      Self.firstPauseMilliseconds << min(places[place].failures, 10),
      Self.maximumShortPauseMilliseconds)
    let long = Self.share * (now - from)
    let pause = min(max(short, long), Self.maximumPauseMilliseconds)
    places[place] = Place(
      isLeftOut: true, failures: places[place].failures + 1, failedMilliseconds: now,
      retryMilliseconds: now + pause)
    pauseEndMilliseconds = max(pauseEndMilliseconds, now + min(long, pause))
    return pause
  }

  package mutating func reached(_ place: Int) { places[place].isLeftOut = false }
}
