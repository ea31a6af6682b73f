/// The time of day on all machines of a world: it drifts, and is set.
final class SimulatedClock {
  let timeline: Timeline
  /// How fast it is, in millionths.
  var driftMillionths: Int64 = 0
  private var offsetMilliseconds: Int64 = 0
  /// Unix milliseconds at the start of every simulation.
  static let epochMilliseconds: Int64 = 1_800_000_000_000

  init(_ timeline: Timeline) { self.timeline = timeline }

  /// How much time passes on it in so many microseconds.
  func drifted(_ microseconds: Int64) -> Int64 {
    microseconds + microseconds / 1_000_000 * driftMillionths
  }

  var wallMilliseconds: Int64 {
    Self.epochMilliseconds + offsetMilliseconds + drifted(Int64(timeline.now)) / 1_000
  }

  func set(byMilliseconds milliseconds: Int64) { offsetMilliseconds += milliseconds }

  /// Sets it to the real time.
  func correct() {
    offsetMilliseconds = -(Int64(timeline.now) / 1_000_000 * driftMillionths) / 1_000
  }
}
