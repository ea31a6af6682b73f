import ApusCore
import ApusEnrolment
import ApusModel
import ApusServer
import ApusTesting
import Glibc
import Testing

@testable import ApusLoop

/// What an operator sees when peers meet limits: one line that is limited, and a metric.
@Suite("Limits in the log and in metrics", .timeLimit(.minutes(30)))
struct LimitMetricsTests {
  @Test("The first connection beyond the budget is counted, and its line says how many there were")
  func refusedConnection() throws {
    let bench = try MonitoredService { $0.connectionCapacity = 40 }
    defer { bench.service.stop() }
    let event = "untrusted connections refused"
    #expect(bench.lines.all(event).isEmpty)
    var clients: [RawTCPClient] = []
    defer { for untrusted in clients { untrusted.close() } }
    var refused = 0
    while refused == 0 {
      clients.append(try RawTCPClient(bench.service.address(.courier)))
      try #require(clients.count <= 40)
      try waitUntil("connection \(clients.count) to be decided on") {
        let metrics = try bench.metrics()
        func number(_ name: String) -> Int { metrics[name].flatMap { Int($0) } ?? 0 }
        refused = ["newcomer", "oldest"].reduce(0) {
          $0 + number(#"apus_connections_refused_total{what="\#($1)"}"#)
        }
        let late = number(#"apus_connections_ended_total{limit="handshake_time"}"#)
        return number("apus_connections_untrusted") + refused + late == clients.count
      }
    }
    #expect(refused == 1)
    try waitUntil("the line") { !bench.lines.all(event).isEmpty }
    #expect(bench.lines.all(event).allSatisfy { $0.hasPrefix("\(event) count=1 untrusted=") })
    #expect(try bench.metric(#"apus_connections_refused_total{what="no_descriptor"}"#) == 0)
  }

  @Test("Refused streams are counted, and lines say whose they were and how many")
  func refusedStreams() throws {
    let bench = try MonitoredService()
    let service = bench.service
    defer { service.stop() }
    let identity = try service.directory.providerIdentity()
    let headers = service.pushHeaders(to: Self.nobody, authorization: nil)
    let requests = (0..<Limits.concurrentStreams).flatMap {
      HTTP2Frame.headers(UInt32(2 * $0 + 1), headers, endsStream: false).bytes
    }
    let greedy = try (0..<Limits.openRequests / Limits.concurrentStreams + 1).map { _ in
      let client = try service.provider(identity: identity)
      try client.tls.send(requests)
      return client
    }
    for client in greedy { try client.ping() }
    let refused = greedy.reduce(0) { count, client in
      count + client.received.count { $0.resetCode == 7 }
    }
    try #require(refused > 0)
    #expect(try bench.metric(#"apus_streams_refused_total{worker="0"}"#) == refused)
    let event = "streams refused"
    let lines = bench.lines.all(event)
    // One for each connection at most; beyond those of a window they are counted as suppressed.
    #expect((1...Limits.logLinesPerWindow).contains(lines.count))
    #expect((1...refused).contains(bench.sum("streams", of: event)))
    let team = service.directory.team.text
    #expect(lines.allSatisfy { $0.contains("peer=127.0.0.1") && $0.contains("team=\(team)") })
  }

  /// A well-formed device token.
  private static let nobody = String(repeating: "ab", count: 32)

  @Test("A connection that ends for a flood is counted once, with a line")
  func flood() throws {
    let bench = try MonitoredService()
    defer { bench.service.stop() }
    let client = try bench.service.provider()
    #expect(try bench.ended("flood") == 0)
    let ping = HTTP2Frame.ping([1, 2, 3, 4, 5, 6, 7, 8]).bytes
    try client.tls.send((0..<3 * Limits.idleFrameBurst).flatMap { _ in ping })
    // RFC 9113, section 7: ENHANCE_YOUR_CALM is 11.
    #expect(try client.end().goAways.map(\.code) == [11])
    #expect(try bench.ended("flood") == 1)
    #expect(bench.lines.all("provider ended for too many frames peer=127.0.0.1").count == 1)
    #expect(bench.lines.all("provider ended by a protocol error").isEmpty)
  }

  @Test("A provider with too many rejected requests is counted once, and not as a flood")
  func errors() throws {
    let bench = try MonitoredService()
    defer { bench.service.stop() }
    let client = try bench.service.provider(
      identity: bench.service.directory.providerIdentity())
    // The usual window takes 2,400 answers; then requests would remain open, and further ones be refused.
    try client.send(.windowUpdate(0, by: 1 << 20))
    let headers = bench.service.pushHeaders(to: "ab", authorization: nil)
    var goAways: [RawGoAway] = []
    // A bad device token counts twice. On a slow machine some errors are forgiven meanwhile.
    for _ in 0..<Limits.errorsPerConnection / 100 where goAways.isEmpty {
      let streams = (0..<500).map { _ in client.takeStream() }
      try client.tls.send(
        streams.flatMap { HTTP2Frame.headers($0, headers, endsStream: true).bytes })
      // Unanswered once the connection has ended.
      try? client.ping()
      goAways = client.received.compactMap(\.goAway)
    }
    #expect(goAways.map(\.debugData) == [#"{"reason":"TooManyRequests"}"#])
    #expect(try bench.ended("errors") == 1, "\(bench.lines.all("provider"))")
    #expect(try bench.ended("flood") == 0)
    #expect(bench.lines.all("provider ended after too many errors peer=127.0.0.1").count == 1)
  }

  @Test("Peers that leave a handshake or a connect message out are counted when their time is over")
  func times() throws {
    let bench = try MonitoredService()
    defer { bench.service.stop() }
    let untrusted = try RawTCPClient(bench.service.address(.provider))
    let device = try bench.service.courier(bench.service.directory.device())
    _ = try untrusted.receiveAll()
    #expect(try device.end().frames.count == 1)
    #expect(try bench.ended("handshake_time") == 1)
    #expect(try bench.ended("untrusted_time") == 1)
    #expect(bench.lines.all("handshake timed out peer=127.0.0.1").count == 1)
    #expect(bench.lines.all("device connection ends peer=127.0.0.1").count == 1)
  }

  @Test("Peers that break their protocol are counted, with a line each")
  func brokenProtocols() throws {
    let bench = try MonitoredService()
    defer { bench.service.stop() }
    let device = try bench.service.connect()
    _ = try device.token()
    // A keep-alive of 65,537 bytes; 65,536 are the most.
    try device.client.tls.send([0x0c, 0, 1, 0, 1])
    try waitUntil("the device's end") { try bench.ended("protocol") == 1 }
    #expect(bench.lines.all("device broke the protocol peer=127.0.0.1").count == 1)
    let client = try bench.service.provider()
    // RFC 9113, section 6.7: a PING has 8 bytes.
    try client.tls.send([0, 0, 1, 6, 0, 0, 0, 0, 0, 0])
    #expect(try client.end().goAways.map(\.code) == [6])
    #expect(try bench.ended("protocol") == 2)
    #expect(bench.lines.all("provider ended by a protocol error peer=127.0.0.1").count == 1)
  }

  @Test("A device that sends keep-alives all the time is counted when its connection ends")
  func keepAlives() throws {
    let bench = try MonitoredService()
    defer { bench.service.stop() }
    let device = try bench.service.connect()
    _ = try device.token()
    try device.enable(TestDirectory.topic)
    let keepAlive = RawCourierFrame(0x0c).bytes
    try device.client.tls.send((0..<40).flatMap { _ in keepAlive })
    try waitUntil("the device's end") { try bench.ended("keep_alives") == 1 }
  }

  @Test("Lines that were suppressed are counted by kind")
  func suppressed() throws {
    let bench = try MonitoredService()
    defer { bench.service.stop() }
    let sample = #"apus_log_lines_suppressed_total{kind="tls failed"}"#
    #expect(try bench.metric(sample) == nil)
    for _ in 0..<Limits.logLinesPerWindow + 7 {
      let untrusted = try RawTCPClient(bench.service.address(.provider))
      // RFC 8446, section 5.1: 0x50 is not a content type.
      try untrusted.send(Array("POST / HTTP/1.1\r\n\r\n".utf8))
      _ = try untrusted.receiveAll()
      untrusted.close()
    }
    #expect(bench.lines.all("tls failed").count == Limits.logLinesPerWindow)
    #expect(try bench.metric(sample) == 7)
  }

  @Test("Refused certificates are counted by reason")
  func enrolments() throws {
    let bench = try MonitoredService()
    defer { bench.service.stop() }
    let applicant = try Applicant(bench.service)
    for code in ["04HM-ASW9-NF6Y-ZZPW-QAC7-CN1J-205A", "0000"] {
      #expect(try applicant.ask(code: code)[0x40] == [2])
    }
    let metrics = try bench.metrics()
    func count(_ reason: String) -> String? {
      metrics[#"apus_enrolments_refused_total{reason="\#(reason)"}"#]
    }
    #expect(count("code unknown") == "1")
    #expect(count("code malformed") == "1")
    #expect(count("too many requests") == "0")
  }

  @Test("A service that issues no certificates counts those who ask for one")
  func notOffered() throws {
    let bench = try MonitoredService { $0.enrolment = .off }
    defer { bench.service.stop() }
    #expect(try Applicant(bench.service).ask(code: nil)[0x40] == [2])
    #expect(try bench.metric(#"apus_enrolments_refused_total{reason="not offered"}"#) == 1)
  }
}
