import ApusModel
import ApusTesting
import Testing

@testable import ApusClient

@Suite("The diagnosis of a client's limits")
struct DiagnosisTests {
  private func diagnosis(_ change: (inout ClientMetrics) -> Void) -> ClientDiagnosis {
    var metrics = ClientMetrics()
    change(&metrics)
    return ClientDiagnosis(metrics, maximumConnections: 8)
  }

  @Test("Nothing limits a client without waiting pushes")
  func nothing() { #expect(diagnosis { $0.accepted = 10 }.limit == nil) }

  @Test("The diagnosis prefers what pushes wait for now over what they waited for longest")
  func order() {
    #expect(
      diagnosis {
        $0.waitedSeconds = [.window: 1, .streams: 5]
      }.limit == .streams)
    #expect(
      diagnosis {
        $0.waitedSeconds = [.window: 1, .streams: 5]
        $0.waiting = 3
        $0.waitingFor = .window
      }.limit == .window)
    #expect(diagnosis { $0.waitedSeconds = [.streams: 0.05] }.limit == nil)
  }

  @Test("The streams limit is reported with its rate")
  func streams() {
    let diagnosis = diagnosis { metrics in
      metrics.waiting = 1
      metrics.waitingFor = .streams
      metrics.connections = [
        .init(
          address: "a", openRequests: 100, streamLimit: 100, windowBytes: 5, answers: 7)
      ]
      for _ in 0..<10 { metrics.latency.add(milliseconds: 40) }
    }
    #expect(diagnosis.description.contains("allows 100 concurrent requests on one connection"))
    #expect(diagnosis.description.contains("at most 2500 a second"))
  }

  @Test("A rejected token and a differing clock are reported")
  func token() {
    let diagnosis = diagnosis { metrics in
      metrics.rejected = 3
      metrics.tokenRefusals = 3
      metrics.clockSkewSeconds = -4000
    }
    #expect(diagnosis.limit == .token)
    #expect(diagnosis.description.contains("clock is 4000 seconds ahead of the service's"))
  }

  @Test(
    "A clock difference is reported only beyond network delay",
    arguments: [
      (nil, nil), (0, nil), (29, nil), (-29, nil), (30, "30 seconds behind the service's"),
      (-30, "30 seconds ahead of the service's"),
    ] as [(Int64?, String?)])
  func clock(skew: Int64?, words: String?) {
    var metrics = ClientMetrics()
    metrics.clockSkewSeconds = skew
    if let words {
      #expect(metrics.clockText?.contains(words) == true)
    } else {
      #expect(metrics.clockText == nil)
    }
  }

  @Test("The service's clock is read from its first answer with a date")
  func date() {
    let session = ProviderSession(nowMilliseconds: 0)
    var peer = ScriptedPeer()
    func exchange() {
      var bytes: [UInt8] = []
      session.pendingOutput(into: &bytes, limit: .max)
      peer.receive(bytes)
      let answer = peer.takeOutput()
      #expect(answer.withUnsafeBytes { session.receive($0) })
      session.settle(nowMilliseconds: 0) { _, _ in }
    }
    func push() throws {
      let request = PushRequest(token: "0a0b", topic: "com.example.app", payload: [0x7b, 0x7d])
      let send = PendingSend(
        push: try EncodedPush(request, id: NotificationID(high: 0, low: 1)),
        timeoutMilliseconds: 1000
      ) { _ in }
      #expect(session.put(send, nowMilliseconds: 0))
      exchange()
      let waiting = try #require(peer.requests.first)
      peer.perform(.accept(uniqueID: false, body: false), on: waiting)
      exchange()
    }
    peer.announce(streams: 10)
    exchange()
    #expect(throws: Never.self) { try push() }
    // Neither Apple's service nor Apus sends one.
    #expect(session.serverSeconds == nil)
    // RFC 9110, section 5.6.7.
    peer.date = "Sun, 06 Nov 1994 08:49:37 GMT"
    #expect(throws: Never.self) { try push() }
    #expect(session.serverSeconds == 784_111_777)
  }

  @Test("A failed connection is reported with its reason")
  func connection() {
    let diagnosis = diagnosis { metrics in
      metrics.waiting = 1
      metrics.waitingFor = .connection
      metrics.lastFailure = "nobody there"
    }
    #expect(diagnosis.description.contains("nobody there"))
  }

  @Test("A histogram reports shares as upper bounds of buckets")
  func histogram() {
    var histogram = LatencyHistogram()
    #expect(histogram.milliseconds(atShare: 0.5) == nil)
    for milliseconds in [0, 1, 3, 3, 100] as [UInt64] { histogram.add(milliseconds: milliseconds) }
    #expect(histogram.milliseconds(atShare: 0) == 1)
    #expect(histogram.milliseconds(atShare: 0.2) == 1)
    #expect(histogram.milliseconds(atShare: 0.8) == 4)
    #expect(histogram.milliseconds(atShare: 1) == 128)
    #expect(histogram.count == 5 && histogram.sumMilliseconds == 107)
    histogram.add(milliseconds: .max / 2)
    #expect(histogram.counts.last == 1)
  }
}
