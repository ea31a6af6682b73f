import ApusModel
import ApusServer
import Foundation
#if canImport(FoundationXML)
  import FoundationXML
#endif
import Testing

@testable import ApusDev

@Suite("Violations in the way providers send")
struct ViolationTests {
  /// A typical push of a provider.
  static func exchange(
    connection: UInt64 = 1, at milliseconds: Int64 = 1000, token: String = "ab", status: Int = 200,
    issuedAt: Int64? = nil, payload: String = #"{"aps":{"alert":"A"}}"#
  ) -> ProviderExchange {
    var request = ProviderRequest(
      connection: InterceptedConnection(
        number: connection, interface: .http2, environment: .production, peer: "127.0.0.1:4000",
        credential: nil), receivedMilliseconds: milliseconds)
    request.token = token
    request.topic = "com.example.app"
    request.pushType = "alert"
    request.payload = Array(payload.utf8)
    request.credential = issuedAt == nil ? nil : "key ABC123DEFG of team TEAM123456"
    request.tokenIssuedAtSeconds = issuedAt
    return ProviderExchange(
      request: request, status: status, answeredMilliseconds: milliseconds + 5)
  }

  static func rules(_ violations: [Violation]) -> [String] { violations.map(\.rule) }

  @Test("The third connection with a single push in a minute is a violation")
  func connections() {
    var watch = ConnectionWatch()
    var found: [UInt64] = []
    for number in UInt64(1)...5 {
      let exchange = Self.exchange(connection: number, at: Int64(number) * 1000)
      _ = watch.check(exchange, number: number)
      if let (push, violation) = watch.closed(
        exchange.request.connection, nowMilliseconds: Int64(number) * 1000)
      {
        #expect(violation.rule == "connection-per-push")
        found.append(push)
      }
    }
    #expect(found == [3, 4, 5])
    // No violation: a connection with two pushes, and one after a pause of a minute.
    let pair = Self.exchange(connection: 6, at: 6000)
    _ = watch.check(pair, number: 6)
    _ = watch.check(pair, number: 7)
    #expect(watch.closed(pair.request.connection, nowMilliseconds: 6000) == nil)
    let rested = Self.exchange(connection: 8, at: 99_000)
    _ = watch.check(rested, number: 8)
    #expect(watch.closed(rested.request.connection, nowMilliseconds: 99_000) == nil)
  }

  @Test("A provider token refreshed too early is a violation on any connection")
  func providerTokens() {
    var watch = ConnectionWatch()
    func note(_ issuedAt: Int64, _ connection: UInt64) -> [String] {
      Self.rules(
        watch.check(Self.exchange(connection: connection, issuedAt: issuedAt), number: 1))
    }
    #expect(note(10_000, 1).isEmpty)
    #expect(note(10_000, 2).isEmpty)
    #expect(note(11_199, 2) == ["provider-token-refreshed-early"])
    #expect(note(12_399, 3).isEmpty)
    #expect(note(11_199, 4).isEmpty)
  }

  @Test(
    "A retry that is too fast, and reuse of an invalid token, are violations")
  func refusals() {
    var watch = ConnectionWatch()
    func note(_ milliseconds: Int64, _ status: Int, _ payload: String = "{}") -> [String] {
      Self.rules(
        watch.check(
          Self.exchange(at: milliseconds, status: status, payload: payload), number: 1))
    }
    #expect(note(1000, 503).isEmpty)
    #expect(note(1500, 503) == ["retried-at-once"])
    #expect(note(9000, 200).isEmpty)
    #expect(note(10_000, 429).isEmpty)
    #expect(note(10_100, 200, #"{"aps":{}}"#).isEmpty)
    #expect(note(20_000, 410).isEmpty)
    #expect(note(30_000, 410) == ["dead-token-used"])
    #expect(note(40_000, 200).isEmpty)
    #expect(note(50_000, 410).isEmpty)
  }

  private func state(_ payloads: [String]) -> RecorderState {
    var state = RecorderState(keep: 10, keepBytes: 1 << 20, firstEvent: 1)
    for payload in payloads {
      let push = CapturedPush(
        number: state.inbox.nextNumber, exchange: Self.exchange(payload: payload))
      state.add(push)
    }
    return state
  }

  @Test("The report counts by severity, and survives the clearing of the inbox")
  func report() {
    var state = state([
      #"{"aps":{"alert":"A"}}"#, #"{"aps":{"alert":"A","sounds":"x"}}"#, #"[]"#,
    ])
    state.clear()
    #expect(state.inbox.count == 0)
    #expect(state.report.count(.error) == 1)
    #expect(state.report.count(atLeast: .error) == 1)
    #expect(state.report.count(atLeast: .note) == state.report.total)
    #expect(state.report.count(atLeast: .note) > state.report.count(atLeast: .error))
  }

  @Test("JUnit XML always has the same cases, is well-formed, and fails broken rules")
  func junit() throws {
    let clean = state([#"{"aps":{"alert":"A"}}"#]).report.junit()
    let broken = state([#"{"aps":{"alert":"A","a<b>&\"\u0001":1}}"#, "[]"]).report.junit()
    for text in [clean, broken] {
      let parser = XMLParser(data: Data(text.utf8))
      let counter = Counter()
      parser.delegate = counter
      #expect(parser.parse(), "\(text)")
      #expect(
        counter.cases == LintRule.allCases.count + ConnectionRule.allCases.count, "\(text)")
      #expect(text.contains("tests=\"\(counter.cases)\" failures=\"\(counter.failures)\""))
      #expect((counter.failures == 0) == (text == clean))
    }
  }

  private final class Counter: NSObject, XMLParserDelegate {
    var cases = 0
    var failures = 0

    func parser(
      _ parser: XMLParser, didStartElement name: String, namespaceURI: String?,
      qualifiedName: String?, attributes: [String: String]
    ) {
      if name == "testcase" { cases += 1 }
      if name == "failure" { failures += 1 }
    }
  }
}
