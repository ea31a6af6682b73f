import ApusCommand
import Testing

@testable import apus_bench

@Suite("A fine histogram")
struct FineHistogramTests {
  @Test("Buckets have no gaps, and none is wider than 1/64 of its values")
  func buckets() {
    #expect(FineHistogram.bucket(of: 0) == 0)
    #expect(FineHistogram.end(of: 0) == 0)
    for bucket in 0..<FineHistogram.bucketCount - 1 {
      let end = FineHistogram.end(of: bucket)
      #expect(FineHistogram.bucket(of: end) == bucket)
      #expect(FineHistogram.bucket(of: end + 1) == bucket + 1)
      let first = bucket == 0 ? 0 : FineHistogram.end(of: bucket - 1) + 1
      #expect((end - first) * 64 <= first)
    }
    #expect(FineHistogram.bucket(of: .max) == FineHistogram.bucketCount - 1)
  }

  @Test("Percentiles are exact to 2 %, maximum and mean exactly")
  func shares() throws {
    var histogram = FineHistogram()
    #expect(histogram.microseconds(perMille: 500) == nil)
    for microseconds in 1...UInt64(100_000) { histogram.add(microseconds: microseconds) }
    for (perMille, exact) in [(500, 50_000), (900, 90_000), (990, 99_000), (999, 99_900)] {
      let found = Int(try #require(histogram.microseconds(perMille: UInt64(perMille))))
      #expect(exact...exact + exact / 50 ~= found, "\(perMille): \(found)")
    }
    #expect(histogram.microseconds(perMille: 1000) == 100_000)
    #expect(histogram.sumMicroseconds / histogram.count == 50_000)
  }

  @Test("The sum of two histograms equals one that counted everything")
  func sum() {
    var (left, right, all) = (FineHistogram(), FineHistogram(), FineHistogram())
    for microseconds in stride(from: UInt64(3), to: 9_000_000, by: 1171) {
      all.add(microseconds: microseconds)
      if microseconds % 2 == 0 {
        left.add(microseconds: microseconds)
      } else {
        right.add(microseconds: microseconds)
      }
    }
    left += right
    #expect(left == all)
  }
}

@Suite("A fleet's status")
struct FleetStatusTests {
  private func status() -> FleetStatus {
    var status = FleetStatus()
    for (index, count) in FleetStatus.Count.allCases.enumerated() {
      status[count] = UInt64(index + 1) << UInt64(4 * index)
    }
    for microseconds in [0, 5, 777, 123_456, UInt64.max >> 1] {
      status.latency.add(microseconds: microseconds)
    }
    return status
  }

  @Test("A report survives a round trip, and no part of one is a report")
  func report() throws {
    let report = FleetReport(.cut, status())
    let bytes = report.bytes
    #expect(bytes.count == FleetReport.byteCount)
    #expect(FleetReport(bytes: bytes.span) == report)
    #expect(FleetReport(bytes: bytes.span.extracting(..<(bytes.count - 1))) == nil)
    var unknown = bytes
    unknown[0] = 9
    #expect(FleetReport(bytes: unknown.span) == nil)
  }

  @Test("The JSON object has the members that benchmarks read")
  func json() {
    var status = FleetStatus()
    #expect(
      status.json.text
        == #"{"devices":0,"registered":0,"subscribed":0,"connected":0,"received":0,"#
        + #""acknowledged":0,"duplicates":0,"handshakes":0,"resumed":0,"#
        + #""disconnections":0,"failures":0,"connecting":0,"latency":"#
        + #"{"count":0,"p50_us":null,"p90_us":null,"p99_us":null,"p999_us":null,"max_us":null,"#
        + #""mean_us":null}}"#)
    status.latency.add(microseconds: 100)
    #expect(
      status.latency.json.text
        == #"{"count":1,"p50_us":100,"p90_us":100,"p99_us":100,"p999_us":100,"max_us":100,"#
        + #""mean_us":100.0}"#)
  }

  @Test("Counts of processes add up")
  func sum() {
    var sum = status()
    sum += status()
    #expect(sum[.received] == 2 * status()[.received])
    #expect(sum.latency.count == 10)
  }
}
