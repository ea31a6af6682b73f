import ApusModel
import Testing

@testable import ApusClient

@Suite("Pushes that a busy service rejected are sent again in time")
struct RefusalTests {
  private func refused(
    _ status: String, _ reason: String, retryAfter: String? = nil, entropy: UInt64 = 0,
    _ change: (inout DispatcherSettings) -> Void = { _ in }
  ) throws -> (Bench, ProviderSession) {
    let bench = Bench(entropy: entropy, change)
    try bench.send(1...1)
    let session = bench.connect()
    _ = bench.take(session)
    let body = "{\"reason\":\"\(reason)\"}"
    if let retryAfter {
      bench.give(
        session,
        Frames.answer(1, status: status, field: "retry-after", retryAfter, body: body))
    } else {
      bench.give(session, Frames.answer(1, status: status, body: body))
    }
    return (bench, session)
  }

  @Test(
    "Temporary rejections are retried after a pause; others are reported",
    arguments: [
      ("429", "TooManyRequests", true), ("500", "InternalServerError", true),
      ("503", "ServiceUnavailable", true), ("429", "TooManyProviderTokenUpdates", false),
      ("400", "BadDeviceToken", false), ("413", "PayloadTooLarge", false),
      ("503", "SomethingNew", false),
    ])
  func again(status: String, reason: String, isAgain: Bool) throws {
    let (bench, session) = try refused(status, reason)
    #expect((bench.outcomes[1] == nil) == isAgain)
    guard isAgain else { return }
    bench.wait(milliseconds: 499)
    #expect(Frames.opened(bench.take(session)) == [])
    bench.wait(milliseconds: 1)
    #expect(Frames.opened(bench.take(session)) == [3])
    bench.give(session, Frames.ok(3))
    #expect(bench.accepted(1))
  }

  @Test("Pauses double, and the fourth rejection is reported")
  func lastRefusal() throws {
    let (bench, session) = try refused("429", "TooManyRequests")
    for (stream, pause) in [(3, 500), (5, 1000), (7, 2000)] as [(UInt8, UInt64)] {
      bench.wait(milliseconds: pause - 1)
      #expect(Frames.opened(bench.take(session)) == [])
      bench.wait(milliseconds: 1)
      #expect(Frames.opened(bench.take(session)) == [UInt32(stream)])
      bench.give(
        session, Frames.answer(stream, status: "429", body: #"{"reason":"TooManyRequests"}"#))
    }
    guard case .rejected(let rejection) = bench.outcomes[1] else {
      return #expect(Bool(false), "a rejection")
    }
    #expect(rejection.reason.known == .tooManyRequests)
  }

  @Test("The service's retry time is used, and with 5xx it holds for all pushes")
  func retryAfter() throws {
    let (bench, session) = try refused("503", "ServiceUnavailable", retryAfter: "7")
    try bench.send(2...2)
    bench.fill()
    bench.wait(milliseconds: 6999)
    #expect(Frames.opened(bench.take(session)) == [])
    #expect(bench.dispatcher.hindrance == .service)
    bench.wait(milliseconds: 1)
    #expect(Frames.opened(bench.take(session)) == [3, 5])
  }

  @Test("With 429 it holds for that push only")
  func retryAfterForOne() throws {
    let (bench, session) = try refused("429", "TooManyRequests", retryAfter: "7")
    try bench.send(2...2)
    bench.fill()
    #expect(Frames.opened(bench.take(session)) == [3])
  }

  @Test("A retry time beyond the push's timeout is reported with the rejection")
  func tooLate() throws {
    let (bench, _) = try refused("503", "ServiceUnavailable", retryAfter: "30")
    guard case .rejected(let rejection) = bench.outcomes[1] else {
      return #expect(Bool(false), "a rejection")
    }
    #expect(rejection.retryAfterSeconds == 30)
  }

  @Test("Rejections are reported immediately if retries are off")
  func off() throws {
    let (bench, _) = try refused("429", "TooManyRequests") { $0.retriesRefusals = false }
    #expect(bench.outcomes.count == 1)
  }

  @Test(
    "Shutdown concerns the connection: the push is sent on another, also if retries are off",
    arguments: [true, false])
  func shutdown(retries: Bool) throws {
    let (bench, session) = try refused("503", "Shutdown") { $0.retriesRefusals = retries }
    #expect(bench.outcomes.isEmpty)
    #expect(session.isDone)
    #expect(Frames.opened(bench.take(bench.connect())) == [1])
  }

  @Test(
    "An expired provider token is replaced once, if a newer one can be created, also if retries are off",
    arguments: [true, false])
  func expiredToken(retries: Bool) throws {
    let (bench, session) = try refused("400", "BadDeviceToken") { $0.retriesRefusals = retries }
    #expect(bench.outcomes.count == 1)
    var renewals = 0
    bench.renew = {
      renewals += 1
      return true
    }
    try bench.send(2...2)
    bench.fill()
    _ = bench.take(session)
    let expired = #"{"reason":"ExpiredProviderToken"}"#
    bench.give(session, Frames.answer(3, status: "403", body: expired))
    #expect(bench.outcomes[2] == nil && renewals == 1)
    _ = bench.take(session)
    bench.give(session, Frames.answer(5, status: "403", body: expired))
    #expect(bench.outcomes[2] != nil && renewals == 1)
  }
}
