import ApusCore
import ApusModel
import ApusWire
import Synchronization

/// The samples of the last day, one every ten seconds, and the latencies of the last minute.
///
/// Kept in memory: 40 bytes for each sample, 340 KB for a day.
final class ServiceHistory: Sendable {
  static let stepSeconds: Int64 = 10
  /// The samples of a day.
  static let capacity = Int(86_400 / stepSeconds)
  /// The samples of a minute.
  private static let minuteCount = Int(60 / stepSeconds)

  /// A service's counts up to a time.
  struct Totals: Sendable {
    /// Unix milliseconds.
    var milliseconds: Int64
    var accepted: UInt64 = 0
    var delivered: UInt64 = 0
    var refused: UInt64 = 0
    var connected = 0
    var stored: Int64 = 0
    var latencies = Latencies()
  }

  /// What happened between two or more measurements.
  struct Sample: Sendable, Hashable {
    /// End time, Unix milliseconds.
    var milliseconds: Int64
    var spanMilliseconds: UInt32
    var connected: UInt32
    var accepted: UInt32
    var delivered: UInt32
    var refused: UInt32
    var stored: UInt32
    /// Milliseconds; ``unmeasured`` if nothing was accepted.
    var p50: UInt32
    var p99: UInt32

    static let unmeasured = UInt32.max

    /// Merges the sample that follows.
    mutating func take(_ next: Sample) {
      func largest(_ left: UInt32, _ right: UInt32) -> UInt32 {
        left == Self.unmeasured ? right : right == Self.unmeasured ? left : max(left, right)
      }
      (milliseconds, connected, stored) = (next.milliseconds, next.connected, next.stored)
      spanMilliseconds &+= next.spanMilliseconds
      accepted &+= next.accepted
      delivered &+= next.delivered
      refused &+= next.refused
      (p50, p99) = (largest(p50, next.p50), largest(p99, next.p99))
    }

    var json: JSONValue {
      func rate(_ count: UInt32) -> JSONValue {
        let perSecond = Double(count) * 1000 / Double(max(1, spanMilliseconds))
        return .number((perSecond * 10).rounded() / 10)
      }
      func measured(_ value: UInt32) -> JSONValue? {
        value == Self.unmeasured ? nil : .number(value)
      }
      return .fields([
        "milliseconds": .integer(milliseconds), "devices_connected": .number(connected),
        "accepted_per_second": rate(accepted), "delivered_per_second": rate(delivered),
        "refused_per_second": rate(refused), "stored_notifications": .number(stored),
        "p50": measured(p50), "p99": measured(p99),
      ])
    }
  }

  private struct State {
    /// A ring buffer once it is full.
    var samples: [Sample] = []
    /// The index of the oldest sample.
    var first = 0
    var last: Totals?
    /// The latencies measured in the last minute, oldest first.
    var minute: [Latencies] = []
  }

  private let state = Mutex(State())

  /// Adds a measurement; the first one is only the baseline.
  func add(_ totals: Totals) {
    state.withLock { state in
      if let last = state.last {
        let sample = Self.sample(from: last, to: totals)
        if state.samples.count < Self.capacity {
          state.samples.append(sample)
        } else {
          state.samples[state.first] = sample
          state.first = (state.first + 1) % Self.capacity
        }
      }
      state.last = totals
      state.minute.append(totals.latencies)
      if state.minute.count > Self.minuteCount + 1 { state.minute.removeFirst() }
    }
  }

  private static func sample(from last: Totals, to next: Totals) -> Sample {
    let latencies = next.latencies.acceptance.since(last.latencies.acceptance)
    func percentile(_ perMille: UInt64) -> UInt32 {
      latencies.milliseconds(perMille: perMille).map { UInt32(clamping: $0) } ?? Sample.unmeasured
    }
    // Workers are asked one after the other, so a sum may seem to decrease.
    func increase(_ key: KeyPath<Totals, UInt64>) -> UInt32 {
      UInt32(clamping: Int64(clamping: next[keyPath: key]) - Int64(clamping: last[keyPath: key]))
    }
    return Sample(
      milliseconds: next.milliseconds,
      spanMilliseconds: UInt32(clamping: next.milliseconds - last.milliseconds),
      connected: UInt32(clamping: next.connected), accepted: increase(\.accepted),
      delivered: increase(\.delivered), refused: increase(\.refused),
      stored: UInt32(clamping: next.stored), p50: percentile(500), p99: percentile(990))
  }

  /// The samples, oldest first, several merged into one if the step is longer than ten seconds.
  func samples(sinceMilliseconds: Int64, stepSeconds: Int64) -> [Sample] {
    let all = state.withLock { Array($0.samples[$0.first...] + $0.samples[..<$0.first]) }
      .filter { $0.milliseconds >= sinceMilliseconds }
    guard stepSeconds > Self.stepSeconds else { return all }
    var merged: [Sample] = []
    var lastStep: Int64?
    for sample in all {
      let step = sample.milliseconds / (stepSeconds * 1000)
      if step == lastStep {
        merged[merged.count - 1].take(sample)
      } else {
        merged.append(sample)
        lastStep = step
      }
    }
    return merged
  }

  /// The part of `now` that was measured in the last 60 to 70 seconds.
  func lastMinute(of now: Latencies) -> Latencies {
    now.since(state.withLock { $0.minute.first } ?? Latencies())
  }
}
