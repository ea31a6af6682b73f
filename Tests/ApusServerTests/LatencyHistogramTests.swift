import ApusWire
import Testing

@testable import ApusAdmin
@testable import ApusCore
@testable import ApusServer

@Suite("Latencies in fixed buckets")
struct LatencyHistogramTests {
  @Test(
    "A bucket ends at most an eighth above its values, and starts after the previous one")
  func buckets() {
    var last = -1
    // Beyond that, every bucket is wider than the steps.
    let times = Array(0..<(1 << 14)) + Array(stride(from: 1 << 14, to: 1 << 20, by: 61))
    for milliseconds in times.map(UInt64.init) {
      let bucket = LatencyHistogram.bucket(of: milliseconds)
      let end = LatencyHistogram.end(of: bucket)
      guard end >= milliseconds, (end - milliseconds) * 8 <= milliseconds,
        bucket == last || bucket == last + 1
      else {
        Issue.record("\(milliseconds) is in bucket \(bucket), which ends at \(end)")
        return
      }
      last = bucket
    }
    #expect(last == LatencyHistogram.bucketCount - 1)
    #expect(LatencyHistogram.bucket(of: .max) == last)
  }

  @Test("Percentiles match those of the sorted times within an eighth")
  func percentiles() throws {
    var seed = UInt64.random(in: 0 ... .max)
    let first = seed
    var histogram = LatencyHistogram()
    var times: [UInt64] = []
    for _ in 0..<5000 {
      seed = seed &* 6_364_136_223_846_793_005 &+ 1
      let time = (seed >> 44) >> (seed >> 32 & 15)
      times.append(time)
      histogram.add(milliseconds: Int64(time))
    }
    times.sort()
    for perMille: UInt64 in [1, 500, 900, 990, 1000] {
      let exact = times[Int((5000 * perMille + 999) / 1000) - 1]
      let found = try #require(histogram.milliseconds(perMille: perMille))
      #expect(found >= exact && (found - exact) * 8 <= exact, "seed \(first), \(perMille)")
    }
    for bit in 0..<20 {
      let below = times.filter { $0 < 1 << UInt64(bit) }.count
      #expect(histogram.count(belowBit: bit) == UInt64(below), "seed \(first), bit \(bit)")
    }
    #expect(histogram.count == 5000 && histogram.sumMilliseconds == times.reduce(0, +))
  }

  @Test("Counts since an earlier state are the difference, and two workers are summed")
  func differences() {
    var one = LatencyHistogram()
    #expect(one.milliseconds(perMille: 500) == nil)
    one.add(milliseconds: 3)
    let earlier = one
    one.add(milliseconds: 900)
    // A clock that was set back.
    one.add(milliseconds: -5)
    let since = one.since(earlier)
    #expect(since.count == 2 && since.milliseconds(perMille: 500) == 0)
    #expect((one + earlier).count == 4 && (one + earlier).sumMilliseconds == 906)
  }
}

@Suite("The service's history")
struct ServiceHistoryTests {
  private static func totals(_ tick: Int64, accepted: UInt64, latency: Int64? = nil)
    -> ServiceHistory.Totals
  {
    var totals = ServiceHistory.Totals(milliseconds: 1_700_000_000_000 + tick * 10_000)
    totals.accepted = accepted
    totals.delivered = accepted / 2
    totals.connected = Int(tick)
    totals.stored = tick * 3
    if let latency { totals.latencies.acceptance.add(milliseconds: latency) }
    return totals
  }

  @Test("Rates refer to the time between two measurements, and the first one only starts")
  func rates() {
    let history = ServiceHistory()
    history.add(Self.totals(0, accepted: 1000))
    #expect(history.samples(sinceMilliseconds: 0, stepSeconds: 10).isEmpty)
    history.add(Self.totals(1, accepted: 1050, latency: 12))
    let json = history.samples(sinceMilliseconds: 0, stepSeconds: 10).map(\.json)
    #expect(json.count == 1)
    #expect(json[0]["accepted_per_second"] == .number(5.0))
    #expect(json[0]["delivered_per_second"] == .number(2.5))
    #expect(json[0]["devices_connected"]?.integer == 1)
    #expect(json[0]["stored_notifications"]?.integer == 3)
    #expect(json[0]["p50"]?.integer == 12 && json[0]["p99"]?.integer == 12)
  }

  @Test("A day is kept, and a longer step combines several samples")
  func day() {
    let history = ServiceHistory()
    let count = Int64(ServiceHistory.capacity) + 100
    for tick in 0...count { history.add(Self.totals(tick, accepted: UInt64(tick) * 20)) }
    let all = history.samples(sinceMilliseconds: 0, stepSeconds: 10)
    #expect(all.count == ServiceHistory.capacity)
    #expect(all.map(\.milliseconds) == all.map(\.milliseconds).sorted())
    #expect(all.last?.connected == UInt32(count))
    let hour = all[all.count - 1].milliseconds - 3_600_000
    #expect(history.samples(sinceMilliseconds: hour, stepSeconds: 10).count == 361)
    let minutes = history.samples(sinceMilliseconds: hour, stepSeconds: 60)
    #expect(61...62 ~= minutes.count)
    #expect(minutes.reduce(0) { $0 + $1.accepted } == 361 * 20)
    #expect(minutes[1].json["accepted_per_second"] == .number(2.0))
    #expect(minutes[1].json["p50"] == nil)
  }

  @Test("Of several combined samples the largest latency counts")
  func merged() throws {
    let history = ServiceHistory()
    var totals = Self.totals(1, accepted: 0)
    history.add(totals)
    for (tick, latency) in [(2, 9), (3, nil), (4, 4)] as [(Int64, Int64?)] {
      totals.milliseconds = 1_700_000_000_000 + tick * 10_000
      if let latency { totals.latencies.acceptance.add(milliseconds: latency) }
      history.add(totals)
    }
    let one = try #require(history.samples(sinceMilliseconds: 0, stepSeconds: 86_400).first)
    #expect(one.p50 == 9 && one.p99 == 9 && one.spanMilliseconds == 30_000)
  }

  @Test("The last minute omits older values")
  func lastMinute() {
    let history = ServiceHistory()
    var latencies = Latencies()
    latencies.delivery.add(milliseconds: 1)
    #expect(history.lastMinute(of: latencies).delivery.count == 1)
    for tick in 0..<7 {
      var totals = Self.totals(Int64(tick), accepted: 0)
      totals.latencies = latencies
      history.add(totals)
    }
    latencies.delivery.add(milliseconds: 2)
    #expect(history.lastMinute(of: latencies).delivery.count == 1)
  }
}
