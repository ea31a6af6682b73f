import ApusHTTP2
import ApusModel
import Testing

@testable import ApusClient

@Suite("Only pushes that were certainly not processed are sent again")
struct RetryTests {
  /// The `apns-id` of each request in a client's output.
  private func ids(_ output: [UInt8]) -> [String] {
    let server = HTTP2ServerSession(
      configuration: .trusted, pool: HTTP2RequestPool(), nowMilliseconds: 0)
    _ = server.receive(output.span, nowMilliseconds: 0)
    var ids: [String] = []
    while let request = server.nextRequest() {
      let fields = request.fields
      ids.append(fields.value(.apnsID).text)
      server.release(request)
    }
    return ids
  }

  private func text(_ number: UInt64) -> String { Bench.id(number).text.lowercased() }

  @Test("A push of a refused stream moves to a new connection, with its id and before the others")
  func refused() throws {
    let bench = Bench()
    try bench.send(1...3)
    let first = bench.connect(streams: 2)
    _ = bench.take(first)
    bench.give(first, Frames.ok(1))
    bench.give(first, Frames.reset(3, code: 7))
    // The third was already sent when the refusal arrived; it stays where it is.
    #expect(Frames.opened(bench.take(first)) == [5])
    #expect(bench.outcomes.count == 1)
    let second = bench.connect()
    #expect(ids(bench.take(second)) == [text(2)])
    bench.give(second, Frames.ok(1))
    bench.give(first, Frames.ok(5))
    #expect(bench.accepted(1) && bench.accepted(2) && bench.accepted(3))
    #expect(first.isDone && !second.isDone)
  }

  @Test("Streams above GOAWAY's last one move; lower ones are still answered")
  func goAway() throws {
    let bench = Bench()
    try bench.send(1...4)
    let first = bench.connect()
    #expect(Frames.opened(bench.take(first)) == [1, 3, 5, 7])
    bench.give(first, Frames.ok(1), Frames.goAway(last: 3, debug: #"{"reason":"Shutdown"}"#))
    #expect(!first.isDone)
    let second = bench.connect()
    #expect(ids(bench.take(second)) == [text(3), text(4)])
    bench.give(second, Frames.ok(1), Frames.ok(3))
    bench.give(first, Frames.ok(3))
    for number in 1...4 { #expect(bench.accepted(UInt64(number))) }
    #expect(first.isDone)
  }

  @Test("An unanswered stream at or below GOAWAY's last one is not sent again")
  func goAwayThenLost() throws {
    let bench = Bench()
    try bench.send(1...2)
    let session = bench.connect()
    _ = bench.take(session)
    bench.give(session, Frames.goAway(last: 1))
    bench.lose(session)
    #expect(try #require(bench.unknown(1)) == (.connectionLost, true))
    #expect(bench.outcomes[2] == nil)
    #expect(bench.dispatcher.openCount == 1)
  }

  @Test("A push refused by several good connections ends as certainly not accepted")
  func refusedForGood() throws {
    let bench = Bench()
    try bench.send(1...1)
    for round in 1...Dispatcher.attemptLimit {
      #expect(bench.outcomes[1] == nil)
      let other = 1 + UInt64(round)
      try bench.send(other...other)
      let session = bench.connect()
      #expect(ids(bench.take(session)) == [text(1), text(other)])
      bench.give(session, Frames.ok(3), Frames.reset(1, code: 7))
      #expect(bench.accepted(other))
    }
    #expect(try #require(bench.unknown(1)) == (.requestRefused, false))
    #expect(bench.dispatcher.openCount == 0)
  }

  @Test("A service that refuses all requests and answers none counts as unreachable")
  func refusedByAll() throws {
    let bench = Bench()
    try bench.send(1...1, seconds: 300)
    for _ in 1...ConnectPlan.attemptLimit {
      #expect(bench.outcomes.isEmpty)
      let session = bench.connect()
      #expect(ids(bench.take(session)) == [text(1)])
      bench.give(session, Frames.reset(1, code: 7))
      #expect(!bench.wantsConnection, "a pause between two attempts")
      bench.wait(milliseconds: ConnectPlan.longestPauseMilliseconds)
    }
    #expect(try #require(bench.unknown(1)) == (.connectionFailed, false))
  }

  @Test("A lost connection leaves written requests unknown, and keeps waiting ones")
  func lost() throws {
    let bench = Bench()
    try bench.send(1...3)
    let session = bench.connect(streams: 2)
    _ = bench.take(session)
    bench.lose(session)
    #expect(try #require(bench.unknown(1)) == (.connectionLost, true))
    #expect(try #require(bench.unknown(2)) == (.connectionLost, true))
    #expect(bench.outcomes[3] == nil)
    bench.wait(milliseconds: 1000)
    let second = bench.connect()
    #expect(ids(bench.take(second)) == [text(3)])
  }

  @Test("A request of which no byte was written is sent again after the connection is lost")
  func lostUnwritten() throws {
    let bench = Bench()
    try bench.send(1...1)
    let first = bench.connect()
    _ = bench.take(first)
    bench.give(first, Frames.ok(1))
    try bench.send(2...3)
    bench.fill()
    #expect(first.openCount == 2)
    bench.lose(first)
    #expect(bench.outcomes.count == 1)
    let second = bench.connect()
    #expect(ids(bench.take(second)) == [text(2), text(3)])
  }

  @Test("A GOAWAY that rejects the credential is the answer to all waiting pushes")
  func credential() throws {
    let bench = Bench()
    try bench.send(1...2)
    let session = bench.connect(streams: 1)
    _ = bench.take(session)
    bench.give(
      session, Frames.goAway(last: 0, debug: #"{"reason":"BadCertificateEnvironment"}"#))
    for number in 1...2 as ClosedRange<UInt64> {
      #expect(
        bench.outcomes[number]
          == .rejected(
            PushRejection(
              reason: RejectionReason(.badCertificateEnvironment), status: 403,
              apnsID: Bench.id(number))))
    }
    #expect(!bench.wantsConnection)
  }
}

@Suite("Every push gets its outcome in time")
struct DeadlineTests {
  @Test("A waiting push times out as certainly not sent")
  func waiting() throws {
    let bench = Bench()
    try bench.send(1...1, seconds: 5)
    #expect(bench.wantsConnection)
    bench.wait(milliseconds: 4999)
    #expect(bench.outcomes.isEmpty)
    bench.wait(milliseconds: 1)
    #expect(try #require(bench.unknown(1)) == (.timedOut, false))
  }

  @Test("An unanswered request times out as unknown, and its connection gets no more pushes")
  func unanswered() throws {
    let bench = Bench()
    try bench.send(1...1, seconds: 5)
    let first = bench.connect()
    _ = bench.take(first)
    bench.wait(milliseconds: 3000)
    try bench.send(2...2, seconds: 5)
    bench.fill()
    #expect(Frames.opened(bench.take(first)) == [3])
    bench.wait(milliseconds: 2000)
    #expect(try #require(bench.unknown(1)) == (.timedOut, true))
    // The other request on it still has time.
    #expect(!first.isDone)
    bench.give(first, Frames.ok(3))
    #expect(bench.accepted(2))
    #expect(first.isDone)
    bench.wait(milliseconds: 10_000)
    try bench.send(3...3)
    #expect(Frames.opened(bench.take(bench.connect())) == [1])
    // A late answer changes nothing.
    bench.give(first, Frames.ok(1))
    #expect(try #require(bench.unknown(1)) == (.timedOut, true))
  }

  @Test("Cancelling ends the wait, and leaves the connection to other pushes")
  func cancelled() throws {
    let bench = Bench()
    try bench.send(1...3)
    let session = bench.connect(streams: 2)
    _ = bench.take(session)
    bench.cancel(1)
    bench.cancel(3)
    #expect(try #require(bench.unknown(1)) == (.cancelled, true))
    #expect(try #require(bench.unknown(3)) == (.cancelled, false))
    bench.give(session, Frames.ok(1), Frames.ok(3))
    #expect(bench.accepted(2))
    try bench.send(4...4)
    bench.fill()
    #expect(Frames.opened(bench.take(session)) == [5])
  }

  @Test("After consecutive failures, waiting pushes end with the reason")
  func connectFailures() throws {
    let bench = Bench()
    try bench.send(1...1, seconds: 300)
    for round in 1...ConnectPlan.attemptLimit {
      #expect(bench.outcomes.isEmpty)
      #expect(bench.wantsConnection)
      #expect(!bench.wantsConnection, "one attempt at a time")
      bench.dispatcher.connectFailed(
        "nobody there, round \(round)", isFinal: false, nowMilliseconds: bench.now)
      #expect(!bench.wantsConnection, "a pause after a failure")
      bench.wait(milliseconds: ConnectPlan.longestPauseMilliseconds)
    }
    #expect(
      bench.outcomes[1]
        == .unknown(
          UnknownCause(.connectionFailed, "nobody there, round \(ConnectPlan.attemptLimit)"),
          retryMayDuplicate: false))
  }

  @Test("A permanent failure is reported immediately")
  func finalFailure() throws {
    let bench = Bench()
    try bench.send(1...1)
    #expect(bench.wantsConnection)
    bench.dispatcher.connectFailed("not trusted", isFinal: true, nowMilliseconds: bench.now)
    #expect(try #require(bench.unknown(1)) == (.connectionFailed, false))
  }

  @Test("Pauses double up to a limit and vary by half")
  func pauses() {
    for (entropy, share) in [(UInt64(0), UInt64(2)), (.max, 1)] {
      var plan = ConnectPlan()
      var now: UInt64 = 0
      var expected: UInt64 = 250
      for _ in 0..<20 {
        let isWanted = plan.wantsConnection(nowMilliseconds: now)
        #expect(isWanted)
        _ = plan.failed(
          isAttempt: true, isFinal: false, entropy: entropy, nowMilliseconds: now)
        var pause: UInt64 = 0
        while !plan.wantsConnection(nowMilliseconds: now + pause) { pause += 1 }
        #expect(pause >= expected / 2 && pause <= expected)
        if share == 2 { #expect(pause == expected / 2) }
        _ = plan.failed(
          isAttempt: true, isFinal: false, entropy: entropy, nowMilliseconds: now)
        now += 100_000
        expected = min(expected * 4, 8000)
      }
    }
  }

  @Test("A closed dispatcher accepts no pushes, and completes existing ones")
  func closing() throws {
    let bench = Bench()
    try bench.send(1...2)
    let session = bench.connect(streams: 1)
    _ = bench.take(session)
    bench.dispatcher.close()
    try bench.send(3...3)
    #expect(try #require(bench.unknown(3)) == (.clientClosed, false))
    bench.give(session, Frames.ok(1))
    #expect(Frames.opened(bench.take(session)) == [3])
    bench.give(session, Frames.ok(3))
    #expect(bench.accepted(1) && bench.accepted(2))
    #expect(bench.dispatcher.openCount == 0)
  }

  @Test("Abandoning ends everything: written pushes as unknown, others as certainly not sent")
  func abandoned() throws {
    let bench = Bench()
    try bench.send(1...2)
    let session = bench.connect(streams: 1)
    _ = bench.take(session)
    bench.dispatcher.abandon(nowMilliseconds: bench.now)
    #expect(try #require(bench.unknown(1)) == (.connectionLost, true))
    #expect(try #require(bench.unknown(2)) == (.clientClosed, false))
    #expect(bench.dispatcher.openCount == 0)
  }
}
