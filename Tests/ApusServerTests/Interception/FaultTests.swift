import ApusModel
import ApusServer
import ApusTesting
import Testing

@Suite("Planned faults on the HTTP/2 interface")
struct FaultTests {
  let stage: Stage

  init() throws { stage = try Stage.strict }

  private func send(
    _ provider: RawHTTP2Client, _ token: String, _ effects: PlannedFault.Effect...
  ) throws -> UInt32 {
    if let effect = effects.first { stage.interceptor.plan(token, effect) }
    return try provider.request(stage.headers(token), body: TestService.payload)
  }

  /// A connection that the service already trusts, so that it allows several streams.
  private func provider() throws -> RawHTTP2Client {
    let provider = try stage.service.provider()
    let token = try stage.token()
    #expect(try provider.response(to: send(provider, token)).status == 200)
    return provider
  }

  @Test("A fault can be any status and reason, with a time and with seconds to wait")
  func respond() throws {
    let (provider, token) = (try provider(), try stage.token())
    let first = try send(
      provider, token,
      .respond(.init(status: 429, reason: "TooManyRequests", retryAfterSeconds: 17)))
    let answer = try provider.response(to: first)
    expectRefusal(answer, 429, "TooManyRequests")
    #expect(answer["retry-after"] == "17")
    let second = try send(
      provider, token,
      .respond(.init(status: 410, reason: "Unregistered", timestampMilliseconds: 1234)))
    let gone = try provider.response(to: second)
    #expect(gone.bodyText == #"{"reason":"Unregistered","timestamp":1234}"#)
    let third = try send(provider, token, .respond(.init(status: 503, reason: "")))
    let empty = try provider.response(to: third)
    #expect(empty.status == 503 && empty.body.isEmpty)
    let fourth = try send(provider, token, .respond(.init(status: 400, reason: "a\"b\\\n")))
    #expect(try provider.response(to: fourth).bodyText == #"{"reason":"a\"b\\\n"}"#)
    #expect(try provider.response(to: send(provider, token)).status == 200)
    let exchanges = try stage.interceptor.exchanges(token, count: 5)
    #expect(exchanges.map(\.status) == [429, 410, 503, 400, 200])
    #expect(exchanges.map(\.fault) == ["planned", "planned", "planned", "planned", nil])
    #expect(exchanges[0].apnsID == answer["apns-id"])
    #expect(exchanges[1].timestampMilliseconds == 1234)
  }

  @Test("A delay affects one request only")
  func delay() throws {
    let (provider, token, other) = (try provider(), try stage.token(), try stage.token())
    let late = try send(provider, token, .delay(milliseconds: 300, then: .none))
    let quick = try send(provider, other)
    #expect(try provider.response(to: quick).status == 200)
    // The other answer came first: there is nothing of the delayed stream yet.
    #expect(provider.received.allSatisfy { $0.stream != late })
    #expect(try provider.response(to: late).status == 200)
    let exchange = try stage.interceptor.exchange(token)
    #expect(exchange.status == 200 && exchange.fault == "planned")
    #expect(exchange.answeredMilliseconds - exchange.request.receivedMilliseconds >= 290)
  }

  @Test("A delay can be followed by another fault")
  func delayed() throws {
    let (provider, token) = (try provider(), try stage.token())
    let stream = try send(
      provider, token,
      .delay(milliseconds: 20, then: .respond(.init(status: 500, reason: "InternalServerError"))))
    expectRefusal(try provider.response(to: stream), 500, "InternalServerError")
  }

  @Test("A request that is reset during a delay is reported as such")
  func takenBack() throws {
    let (provider, token) = (try provider(), try stage.token())
    let stream = try send(provider, token, .delay(milliseconds: 3000, then: .none))
    // A request that is reset immediately does not count.
    try provider.ping()
    try provider.send(.resetStream(stream, code: 8))
    let exchange = try stage.interceptor.exchange(token)
    #expect(exchange.status == 0 && exchange.explanation == "the provider cancelled the request")
    try provider.ping()
  }

  @Test("A connection that ends during delays leaves nothing behind")
  func endsWhileHeld() throws {
    let (provider, token) = (try provider(), try stage.token())
    stage.interceptor.plan(token, .delay(milliseconds: 3_600_000, then: .none), .noAnswer)
    for _ in 0..<2 {
      _ = try provider.request(stage.headers(token), body: TestService.payload)
    }
    try provider.ping()
    provider.tls.reset()
    let exchanges = try stage.interceptor.exchanges(token, count: 2)
    #expect(exchanges.map(\.status) == [0, 0])
    #expect(
      Set(exchanges.compactMap(\.explanation)) == [
        "no response is sent", "the connection ended before the response",
      ])
  }

  @Test("Without an answer, the stream stays open and others continue")
  func noAnswer() throws {
    let (provider, token) = (try provider(), try stage.token())
    let silent = try send(provider, token, .noAnswer)
    #expect(try provider.response(to: send(provider, token)).status == 200)
    try provider.ping()
    #expect(provider.received.allSatisfy { $0.stream != silent })
    let exchanges = try stage.interceptor.exchanges(token, count: 2)
    #expect(exchanges.map(\.status) == [0, 200])
    #expect(exchanges[0].explanation == "no response is sent")
  }

  @Test("A fault can be RST_STREAM with any code", arguments: [1, 2, 7, 8, 11] as [UInt32])
  func reset(code: UInt32) throws {
    let (provider, token) = (try provider(), try stage.token())
    let stream = try send(provider, token, .resetStream(code: code))
    guard case .reset(code) = try provider.outcome(of: stream) else {
      Issue.record("not reset with \(code)")
      return
    }
    #expect(try provider.response(to: send(provider, token)).status == 200)
  }

  @Test(
    "A fault can be GOAWAY with any last stream",
    arguments: [
      (.all, 0x7fff_ffff, true), (.none, 0, false), (.thisOne, 5, true), (.before, 3, false),
    ] as [(PlannedFault.GoAway.LastStream, UInt32, Bool)])
  func goAway(last: PlannedFault.GoAway.LastStream, id: UInt32, isAnswered: Bool) throws {
    let (provider, token, other) = (try provider(), try stage.token(), try stage.token())
    let held = try send(provider, other, .delay(milliseconds: 300, then: .none))
    #expect(held == 3)
    let stream = try send(
      provider, token,
      .goAway(.init(lastStream: last, reason: last == .all ? nil : "Shutdown", code: 0)))
    #expect(stream == 5)
    let frame = try provider.frame(awaiting: "a GOAWAY") { $0.goAway != nil }
    let goAway = try #require(frame.goAway)
    #expect(goAway.lastStream == id && goAway.code == 0)
    #expect(goAway.debugData == (last == .all ? "" : #"{"reason":"Shutdown"}"#))
    if isAnswered { #expect(try provider.response(to: stream).status == 200) }
    if last != .none { #expect(try provider.response(to: held).status == 200) }
    if last == .all {
      let answer = try provider.response(to: send(provider, token))
      #expect(answer.status == 200, "\(answer.bodyText)")
    } else {
      #expect(try provider.end().end == .closeNotify)
    }
    let own = try stage.interceptor.exchanges(token, count: last == .all ? 2 : 1)
    #expect(own.contains { $0.status == 0 } == !isAnswered)
  }

  @Test("An immediate GOAWAY leaves open requests unanswered")
  func goAwayCloses() throws {
    let (provider, token) = (try provider(), try stage.token())
    let stream = try send(
      provider, token,
      .goAway(.init(lastStream: .thisOne, reason: "Shutdown", code: 2, closes: true)))
    let end = try provider.end()
    #expect(end.goAways.map(\.code) == [2] && end.goAways.map(\.lastStream) == [stream])
    #expect(end.end == .closeNotify)
    #expect(provider.received.allSatisfy { $0.stream != stream })
  }

  @Test("A fault can end the connection in the middle of an answer")
  func cut() throws {
    let (provider, token) = (try provider(), try stage.token())
    let stream = try send(provider, token, .closeInTheMiddle)
    #expect(throws: RawFault.self) { try provider.response(to: stream) }
    #expect(provider.tls.end != .closeNotify)
    #expect(provider.received.allSatisfy { $0.stream != stream && $0.goAway == nil })
    #expect(try stage.interceptor.exchange(token).status == 0)
  }

  @Test("A fault that the interface cannot express changes nothing")
  func other() throws {
    let (provider, token) = (try provider(), try stage.token())
    let stream = try send(provider, token, .binaryShutdown)
    #expect(try provider.response(to: stream).status == 200)
    #expect(try stage.interceptor.exchange(token).fault == nil)
  }
}
