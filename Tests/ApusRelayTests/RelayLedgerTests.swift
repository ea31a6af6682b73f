import ApusCore
import ApusDirectory
import ApusModel
import ApusRelay
import ApusServer
import ApusStore
import ApusTesting
import ApusWebhooks
import ApusWire
import Testing

@Suite("The ledger has the states of notifications for upstream")
struct RelayLedgerTests {
  private let bench: RelayBench

  init() throws { bench = try RelayBench() }

  private static let good = PlannedFault.Effect.respond(.init(status: 200, reason: ""))
  private static let dead = PlannedFault.Effect.respond(
    .init(status: 410, reason: "Unregistered", timestampMilliseconds: 1_700_000_000_000))

  /// The lines about a token, once there are as many: they may come a second late.
  private func lines(
    _ token: [UInt8], _ count: Int, of bench: RelayBench? = nil
  ) throws -> [LedgerEvent] {
    var query = LedgerQuery()
    query.tokenPrefix = token.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    let log = try LedgerLog((bench ?? self.bench).gateway.directory.data)
    var found: [LedgerEvent] = []
    try waitFor {
      found += try log.read(query, limit: 1000).map(\.event)
      return found.count >= count
    }
    return found
  }

  private func topicCounters(_ bench: RelayBench? = nil) -> TopicCounters? {
    (bench ?? self.bench).gateway.service.topicCounters().first
  }

  // MARK: Kept notifications

  @Test("An accepted one: received, sent, accepted, under the id that upstream got")
  func accepted() throws {
    let (bytes, text) = LegacyFrame.token(0xb1)
    bench.script.answer(text, Self.good)
    try bench.accept(LegacyFrame.framed(1, bytes, priority: 5))
    try bench.drain()
    let lines = try lines(bytes, 3)
    #expect(lines.map(\.state) == [.received, .sentUpstream, .acceptedUpstream])
    let facts = try #require(lines.first).facts
    let request = try #require(bench.script.requests(text).first)
    let sent = request.headers.first { $0.name == "apns-id" }
    #expect(sent?.value.lowercased() == facts.id.text.lowercased())
    #expect(facts.interface == .binary)
    #expect(facts.priority == .powerSaving)
    #expect(facts.pushType == .alert)
    #expect(facts.device == .none)
    let counters = try #require(topicCounters())
    #expect(counters.accepted == 1 && counters.pending == 0 && counters.isBalanced)
    #expect(counters[.acceptedUpstream] == 1)
  }

  @Test("Every attempt has a line, and what upstream said to it")
  func attempts() throws {
    let (bytes, text) = LegacyFrame.token(0xb2)
    bench.script.answer(
      text, .respond(.init(status: 503, reason: "ServiceUnavailable", retryAfterSeconds: 1)),
      .respond(.init(status: 429, reason: "SomethingNew", retryAfterSeconds: 1)), Self.good)
    try bench.accept(LegacyFrame.framed(1, bytes))
    try bench.drain()
    let lines = try lines(bytes, 7)
    #expect(
      lines.map(\.state) == [
        .received, .sentUpstream, .deferredUpstream, .sentUpstream, .deferredUpstream,
        .sentUpstream, .acceptedUpstream,
      ])
    let deferred = lines.filter { $0.state == .deferredUpstream }
    #expect(
      deferred.map(\.causeText) == ["ServiceUnavailable", "upstream's reason is in the log"])
  }

  @Test("A dead token: upstream's reason, and for the next one that it was not sent")
  func dead() throws {
    let (bytes, text) = LegacyFrame.token(0xb3)
    bench.script.answer(text, Self.dead)
    try bench.accept(LegacyFrame.framed(1, bytes))
    try bench.drain()
    try bench.accept(LegacyFrame.framed(2, bytes))
    try bench.drain()
    let lines = try lines(bytes, 5)
    #expect(
      lines.map(\.state) == [
        .received, .sentUpstream, .rejectedUpstream, .received, .discardedTokenUnregistered,
      ])
    #expect(lines[2].causeText == "Unregistered")
    #expect(lines[4].causeText == "upstream declared the token dead within the last day")
  }

  @Test("A rejected one, and one after it that is sent again and suppressed by name")
  func resent() throws {
    let (bad, next) = (LegacyFrame.token(0xb4), LegacyFrame.token(0xb5))
    let rejection = PlannedFault.Effect.respond(.init(status: 400, reason: "BadDeviceToken"))
    bench.script.answer(bad.text, .delay(milliseconds: 300, then: rejection))
    bench.script.answer(next.text, Self.good)
    let identity = try bench.gateway.directory.providerIdentity()
    let sender = try bench.sender(identity)
    try sender.send(LegacyFrame.framed(1, bad.bytes), LegacyFrame.framed(2, next.bytes))
    #expect(try sender.packet() == [8, 8, 0, 0, 0, 1])
    try bench.accept(LegacyFrame.framed(2, next.bytes), identity)
    try bench.drain()
    let rejected = try lines(bad.bytes, 3)
    #expect(rejected.map(\.state) == [.received, .sentUpstream, .rejectedUpstream])
    #expect(rejected[2].causeText == "BadDeviceToken")
    let resent = try lines(next.bytes, 4)
    #expect(Set(resent.map(\.state)).contains(.resentAfterError))
    #expect(Set(resent.map(\.facts.id)).count == 1)
    let counters = try #require(topicCounters())
    #expect(counters.accepted == 2 && counters.pending == 0 && counters.isBalanced)
  }

  @Test("What waits is pending, also after a restart, and ends once")
  func restart() throws {
    let (bytes, text) = LegacyFrame.token(0xb6)
    bench.script.answer(text, Self.good)
    bench.relay.obey(.pause, AppID(1))
    try bench.accept(LegacyFrame.framed(1, bytes))
    try bench.accept(LegacyFrame.framed(2, bytes))
    let before = try #require(topicCounters())
    #expect(before.accepted == 2 && before.pending == 2 && before.isBalanced)
    try bench.restart()
    try bench.drain()
    let after = try #require(topicCounters())
    #expect(after.accepted == 2 && after.pending == 0 && after.isBalanced)
    #expect(after[.acceptedUpstream] == 2)
    try bench.restart()
    #expect(topicCounters() == after)
    #expect(try lines(bytes, 6).filter { $0.state == .received }.count == 2)
  }

  // MARK: A store that fails

  @Test("One that the store does not take is discarded")
  func failed() throws {
    let store = MemoryStore()
    let bench = try RelayBench(store: store)
    let (bytes, _) = LegacyFrame.token(0xb7)
    let sender = try bench.sender()
    try waitFor { store.pendingCommitCount == 0 }
    store.failNextCommits(1, with: .diskFull(path: "store", detail: "on purpose"))
    try sender.send(LegacyFrame.framed(1, bytes))
    #expect(try sender.packet() == [8, 1, 0, 0, 0, 1])
    let counters = try #require(topicCounters(bench))
    #expect(counters.accepted == 1 && counters.pending == 0 && counters.isBalanced)
    #expect(counters[.discardedStoreFailed] == 1)
  }

  // MARK: Requests that pass through

  @Test("What passed through: accepted, rejected, or without an answer")
  func forwarded() throws {
    let tokens = [LegacyFrame.token(0xb9), LegacyFrame.token(0xba), LegacyFrame.token(0xbb)]
    bench.script.answer(tokens[0].text, Self.good)
    bench.script.answer(tokens[1].text, Self.dead)
    bench.script.answer(tokens[2].text, .resetStream(code: 2))
    var causes: [String] = []
    for (bytes, text) in tokens {
      _ = try? bench.gateway.provider(.development).exchange(
        bench.push(to: text), body: TestService.payload)
      let lines = try lines(bytes, 2)
      #expect(lines.first?.state == .received)
      #expect(lines.first?.facts.interface == .http2)
      causes.append(try #require(lines.last).causeText)
    }
    #expect(causes == ["", "Unregistered", "upstream did not answer; it may have arrived"])
    let counters = try #require(topicCounters())
    #expect(counters.accepted == 3 && counters.isBalanced)
    #expect(counters[.acceptedUpstream] == 1)
    #expect(counters[.rejectedUpstream] == 1)
    #expect(counters[.unansweredUpstream] == 1)
  }

  @Test("Where upstream cannot be reached, the provider learns that, and the ledger has nothing")
  func unreachable() throws {
    let (_, text) = LegacyFrame.token(0xbc)
    try bench.edit("upstream", to: "https://localhost:1")
    let response = try bench.gateway.provider(.development).exchange(
      bench.push(to: text), body: TestService.payload)
    #expect(response.status == 503)
    #expect((topicCounters()?.accepted ?? 0) == 0)
  }

  // MARK: Webhooks

  @Test("A webhook hears how each notification ended, and once that upstream rejects the gateway")
  func webhook() throws {
    let receiver = try WebhookReceiver()
    let bench = try RelayBench(
      webhook: Webhook(name: "one", url: receiver.url, events: .all, secrets: ["secret"]))
    defer { bench.gateway.stop() }
    let file = "\(bench.gateway.directory.data.webhookFolder)/one.state"
    try waitFor { Files.exists(file) }
    let (bytes, text) = LegacyFrame.token(0xbd)
    bench.script.answer(
      text, .respond(.init(status: 403, reason: "InvalidProviderToken")),
      .respond(.init(status: 403, reason: "InvalidProviderToken")), Self.good)
    try bench.accept(LegacyFrame.framed(1, bytes))
    func events(_ kind: EventKind) -> [JSONValue] {
      func found(_ requests: [WebhookReceiver.Request]) -> [JSONValue] {
        requests.flatMap(\.events).filter { $0["event"]?.string == kind.rawValue }
      }
      return found(receiver.wait { !found($0).isEmpty })
    }
    let finished = try #require(events(.notificationFinished).first)
    #expect(finished["state"]?.string == "Accepted Upstream")
    let failing = events(.upstreamFailing)
    #expect(failing.map { $0["reason"]?.string } == ["403 InvalidProviderToken"])
    #expect(failing.first?["topic"]?.string == TestDirectory.topic)
  }
}
