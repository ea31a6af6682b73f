import ApusHTTP2
import ApusModel
import Testing

@testable import ApusClient

@Suite("Pushes share a connection as far as the service allows")
struct StreamTests {
  @Test("Nothing is sent before the service's SETTINGS announced its stream limit")
  func settingsFirst() throws {
    let bench = Bench()
    try bench.send(1...3)
    let session = bench.connect(streams: nil)
    bench.fill()
    #expect(Frames.opened(bench.take(session)) == [])
    bench.give(session, Frames.settings(streams: 2))
    #expect(Frames.opened(bench.take(session)) == [1, 3])
  }

  @Test("The next push is sent when a stream becomes free, and all when the limit is raised")
  func limit() throws {
    let bench = Bench()
    try bench.send(1...10)
    let session = bench.connect(streams: 1)
    #expect(Frames.opened(bench.take(session)) == [1])
    bench.give(session, Frames.ok(1))
    #expect(bench.accepted(1))
    #expect(Frames.opened(bench.take(session)) == [3])
    bench.give(session, Frames.settings(streams: 100))
    #expect(Frames.opened(bench.take(session)) == [5, 7, 9, 11, 13, 15, 17, 19])
    bench.give(session, Frames.ok(3), Frames.ok(19))
    #expect(bench.accepted(2) && bench.accepted(10))
    #expect(bench.outcomes.count == 3)
    #expect(bench.dispatcher.openCount == 7)
  }

  @Test("A lowered limit delays pushes")
  func lowered() throws {
    let bench = Bench()
    try bench.send(1...2)
    let session = bench.connect(streams: 2)
    #expect(Frames.opened(bench.take(session)) == [1, 3])
    bench.give(session, Frames.settings(streams: 1))
    try bench.send(3...3)
    bench.fill()
    bench.give(session, Frames.ok(1))
    #expect(Frames.opened(bench.take(session)) == [])
    bench.give(session, Frames.ok(3))
    #expect(Frames.opened(bench.take(session)) == [5])
  }

  @Test("A connection that allows no request for ten seconds is replaced")
  func noStreams() throws {
    let bench = Bench()
    try bench.send(1...1)
    let session = bench.connect(streams: 0)
    bench.wait(milliseconds: 50)
    bench.wait(milliseconds: 9900)
    #expect(session.takesPushes)
    // A limit that was raised in between counts from anew.
    bench.give(session, Frames.settings(streams: 1))
    _ = bench.take(session)
    bench.give(session, Frames.ok(1), Frames.settings(streams: 0))
    #expect(bench.accepted(1))
    try bench.send(2...2)
    bench.wait(milliseconds: 50)
    bench.wait(milliseconds: 9900)
    #expect(session.takesPushes)
    bench.wait(milliseconds: 100)
    #expect(session.deathText == "the service allowed no request")
    let next = bench.connect()
    #expect(Frames.opened(bench.take(next)) == [1])
    bench.give(next, Frames.ok(1))
    #expect(bench.accepted(2))
  }

  @Test("A push beyond the queue's capacity gets its outcome immediately")
  func queueFull() throws {
    let bench = Bench { $0.queueCapacity = 2 }
    try bench.send(1...3)
    let outcome = try #require(bench.unknown(3))
    #expect(outcome == (.queueFull, false))
    #expect(bench.outcomes.count == 1)
  }

  @Test("The request has the fields of the provider API, with the model's spelling")
  func fields() throws {
    let bench = Bench()
    try bench.send(1...1)
    let session = bench.connect()
    let server = HTTP2ServerSession(
      configuration: .trusted, pool: HTTP2RequestPool(), nowMilliseconds: 0)
    let output = bench.take(session)
    _ = server.receive(output.span, nowMilliseconds: 0)
    let request = try #require(server.nextRequest())
    let fields = request.fields
    #expect(fields.value(.method).text == "POST")
    #expect(fields.value(.scheme).text == "https")
    #expect(fields.value(.authority).text == "push.example")
    #expect(fields.value(.path).text == "/3/device/" + String(repeating: "0a", count: 32))
    #expect(fields.value(.authorization).text == "bearer a.b.c")
    #expect(fields.value(.apnsTopic).text == "com.example.app")
    #expect(fields.value(.apnsPushType).text == "alert")
    #expect(fields.value(.apnsID).text == "01234567-89ab-cdef-0000-000000000001")
    for absent in [.apnsPriority, .apnsExpiration, .apnsCollapseID, .contentLength] as [HeaderName]
    {
      #expect(!fields.contains(absent))
    }
    let body = request.body
    #expect(body.span.text == "{\"aps\":{}}")
    server.release(request)
  }

  @Test("With a certificate there is no authorization field")
  func certificate() throws {
    let bench = Bench(authorization: [])
    try bench.send(1...1)
    let session = bench.connect()
    let server = HTTP2ServerSession(
      configuration: .trusted, pool: HTTP2RequestPool(), nowMilliseconds: 0)
    let output = bench.take(session)
    _ = server.receive(output.span, nowMilliseconds: 0)
    let request = try #require(server.nextRequest())
    let fields = request.fields
    #expect(!fields.contains(.authorization))
    server.release(request)
  }

  @Test("Without a signature nothing is sent")
  func noSignature() throws {
    let bench = Bench(authorization: nil)
    try bench.send(1...1)
    let session = bench.connect()
    #expect(Frames.opened(bench.take(session)) == [])
    #expect(try #require(bench.unknown(1)) == (.signingFailed, false))
  }
}

@Suite("Answers become outcomes")
struct AnswerTests {
  @Test("An outcome prints as a sentence, with the id as on the wire")
  func printed() {
    let id = NotificationID(high: 0x0123_4567_89ab_cdef, low: 0x0123_4567_89ab_cdef)
    let text = "01234567-89AB-CDEF-0123-456789ABCDEF"
    let rejection = PushRejection(
      reason: RejectionReason(.tooManyRequests), status: 429, apnsID: id, retryAfterSeconds: 5)
    #expect("\(SendOutcome.accepted(apnsID: id, uniqueID: nil))" == "accepted, apns-id \(text)")
    #expect(
      "\(SendOutcome.accepted(apnsID: id, uniqueID: text))"
        == "accepted, apns-id \(text), apns-unique-id \(text)")
    #expect(
      "\(SendOutcome.rejected(rejection))"
        == "rejected: 429 TooManyRequests, retry after 5 s, apns-id \(text)")
    #expect(
      "\(SendOutcome.unknown(UnknownCause(.timedOut), retryMayDuplicate: true))"
        == "no answer (timed out); sending it again may show it twice")
  }

  private func outcome(_ frames: [UInt8]...) throws -> SendOutcome? {
    let bench = Bench()
    try bench.send(1...1)
    let session = bench.connect()
    _ = bench.take(session)
    for frame in frames { bench.give(session, frame) }
    return bench.outcomes[1]
  }

  @Test("A rejection keeps its reason, status and timestamp")
  func refusal() throws {
    let body = #"{"reason":"Unregistered","timestamp":1700000000123}"#
    #expect(
      try outcome(Frames.answer(1, status: "410", body: body))
        == .rejected(
          PushRejection(
            reason: RejectionReason(.unregistered), status: 410,
            timestampMilliseconds: 1_700_000_000_123, apnsID: Bench.id(1))))
  }

  @Test("An unknown reason is kept as received")
  func newReason() throws {
    guard
      case .rejected(let rejection) = try outcome(
        Frames.answer(1, status: "400", body: #"{"reason":"SomethingNew"}"#))
    else { return #expect(Bool(false), "a rejection") }
    #expect(rejection.reason.rawValue == "SomethingNew")
    #expect(rejection.reason.known == nil)
  }

  @Test("A client error without a reason is a rejection; a server error without one is not")
  func noReason() throws {
    #expect(
      try outcome(Frames.answer(1, status: "404", body: "<html>"))
        == .rejected(
          PushRejection(reason: RejectionReason(rawValue: ""), status: 404, apnsID: Bench.id(1))))
    guard
      case .unknown(let cause, retryMayDuplicate: true) = try outcome(
        Frames.answer(1, status: "504", body: "<html>"))
    else { return #expect(Bool(false), "no outcome to rely on") }
    #expect(cause.code == .answerNotUnderstood)
  }

  @Test("A server error with a reason is a rejection by the service")
  func serverError() throws {
    let bench = Bench { $0.retriesRefusals = false }
    try bench.send(1...1)
    let session = bench.connect()
    _ = bench.take(session)
    bench.give(session, Frames.answer(1, status: "503", body: #"{"reason":"ServiceUnavailable"}"#))
    guard case .rejected(let rejection) = bench.outcomes[1] else {
      return #expect(Bool(false), "a rejection")
    }
    #expect(rejection.reason.known == .serviceUnavailable)
    #expect(rejection.status == 503)
  }

  @Test("A reset stream leaves the outcome unknown")
  func reset() throws {
    guard
      case .unknown(let cause, retryMayDuplicate: true) = try outcome(Frames.reset(1, code: 2))
    else { return #expect(Bool(false), "no outcome to rely on") }
    #expect(cause.code == .requestReset)
  }
}
