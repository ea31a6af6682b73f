import ApusModel
import ApusWire
import Testing

@testable import ApusAdmin
@testable import ApusCore
@testable import ApusServer

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
