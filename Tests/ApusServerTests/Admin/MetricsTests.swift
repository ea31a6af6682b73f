import ApusModel
import ApusTesting
import ApusWire
import Foundation
import Testing

@testable import ApusAdmin
@testable import ApusCore
@testable import ApusServer

@Suite("Metrics", .timeLimit(.minutes(30)))
struct MetricsTests {
  private static let dashboard = URL(fileURLWithPath: #filePath)
    .deletingLastPathComponent().appending(path: "../../../Documentation/grafana.json")

  /// The families of the text format, with their types.
  private static func families(_ text: String) -> [String: String] {
    var kinds: [String: String] = [:]
    for line in text.split(separator: "\n") where line.hasPrefix("# TYPE ") {
      let words = line.split(separator: " ")
      kinds[String(words[2])] = String(words[3])
    }
    return kinds
  }

  @Test("Status and metrics count connected devices, dormant or not")
  func dormant() throws {
    let bench = try ConsoleBench()
    let quiet = try bench.service.connect()
    try quiet.enable(TestDirectory.topic)
    try bench.service.awaitDormant()
    let other = try bench.service.connect()
    try other.enable(TestDirectory.topic)
    let status = try bench.ask("GET", "/v1/status", token: bench.token(.read)).json
    #expect(status["devices_connected"]?.integer == 2)
    #expect(status["devices_dormant"]?.integer == 1)
    let text = try bench.ask("GET", "/metrics", token: bench.token(.read)).text
    #expect(text.contains("\napus_devices_dormant 1\n"))
  }

  @Test(
    "The service exports each metric and label that the dashboard uses"
  )
  func dashboard() throws {
    let bench = try ConsoleBench()
    let device = try bench.service.connect()
    try device.enable(TestDirectory.topic)
    let body = #"{"token":"\#(try device.token())","topic":"com.example.app","payload":{"aps":{}}}"#
    let sent = try bench.ask("POST", "/v1/notifications", body, token: bench.token(.send))
    #expect(sent.json["status"]?.integer == 200)
    _ = try bench.ask(
      "POST", "/v1/notifications", #"{"token":"ab","payload":{}}"#, token: bench.token(.send))
    let text = try bench.ask("GET", "/metrics", token: bench.token(.read)).text
    let families = Self.families(text)
    let document = try #require(
      try JSONSerialization.jsonObject(with: Data(contentsOf: Self.dashboard)) as? [String: Any])
    let panels = try #require(document["panels"] as? [[String: Any]])
    let expressions = panels.flatMap { ($0["targets"] as? [[String: Any]]) ?? [] }
      .compactMap { $0["expr"] as? String }
    #expect(expressions.count > 20)
    var asked: Set<String> = []
    for expression in expressions {
      for match in expression.matches(of: /\b((?:apus|process)_\w+)\{([^}]*)\}/) {
        let name = String(match.1)
        asked.insert(name)
        let family = ["_bucket", "_sum", "_count"].first { name.hasSuffix($0) }
          .map { String(name.dropLast($0.count)) }
          .flatMap { families[$0] == "histogram" ? $0 : nil }
        #expect(families[family ?? name] != nil, "\(name)")
        #expect(text.contains("\n\(name)"), "\(name) has no sample")
        for label in String(match.2).matches(of: /(\w+)=~?"/) where label.1 != "job" {
          #expect(
            text.split(separator: "\n").contains {
              $0.hasPrefix("\(name){") && $0.contains("\(label.1)=\"")
            }, "\(name) has no label \(label.1)")
        }
      }
    }
    // The overview's values are visible there as well.
    for name in [
      "apus_devices_connected", "apus_devices_dormant", "apus_devices_power",
      "apus_notifications_stored",
      "apus_notifications_in_flight", "apus_acceptance_seconds_bucket",
      "apus_delivery_seconds_bucket", "apus_certificate_expiry_seconds",
      "process_resident_memory_bytes", "apus_notifications_total", "apus_requests_refused_total",
    ] {
      #expect(asked.contains(name), "\(name)")
    }
  }

  @Test("A histogram's buckets are cumulative, and its sum is in seconds")
  func histogram() {
    var histogram = MillisecondHistogram()
    for milliseconds: Int64 in [0, 1, 7, 8, 1500, 3_000_000] {
      histogram.add(milliseconds: milliseconds)
    }
    var writer = MetricsWriter()
    writer.family("apus_x_seconds", .histogram, "X.")
    writer.histogram(histogram)
    let lines = writer.text.split(separator: "\n").map(String.init)
    #expect(lines[1] == "# TYPE apus_x_seconds histogram")
    #expect(lines.contains("apus_x_seconds_bucket{le=\"0.001\"} 1"))
    #expect(lines.contains("apus_x_seconds_bucket{le=\"0.008\"} 3"))
    #expect(lines.contains("apus_x_seconds_bucket{le=\"1.024\"} 4"))
    #expect(lines.contains("apus_x_seconds_bucket{le=\"2.048\"} 5"))
    #expect(lines.contains("apus_x_seconds_bucket{le=\"524.288\"} 5"))
    #expect(lines.contains("apus_x_seconds_bucket{le=\"+Inf\"} 6"))
    #expect(lines.suffix(2) == ["apus_x_seconds_sum 3001.516", "apus_x_seconds_count 6"])
    writer.family("apus_y", .gauge, "Y.")
    writer.sample([:], 1)
    #expect(writer.text.hasSuffix("\napus_y 1\n"))
  }
}
