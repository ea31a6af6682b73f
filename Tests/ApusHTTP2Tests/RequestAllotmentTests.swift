import ApusModel
import Testing

@testable import ApusHTTP2

@Suite("Allotment of a worker's requests")
struct RequestAllotmentTests {
  /// Takes as many as one more session of the party gets; returns them and the place of the account.
  @discardableResult
  private func fill(
    _ allotment: inout RequestAllotment, _ party: RequestParty, atMost limit: Int = .max
  ) -> (held: Int, place: Int32) {
    let place = allotment.openAccount(of: party)
    var held = 0
    while held < limit, allotment.take(place, held: held) { held += 1 }
    return (held, place)
  }

  private func team(_ number: UInt64) -> RequestParty { .team(high: number, low: 0) }

  private func address(
    _ number: UInt64, _ environment: Environment = .production
  ) -> RequestParty {
    .untrusted(high: 0, low: number, environment: environment)
  }

  // MARK: Teams

  @Test("Three hundred connections of one team leave another team more than its guarantee")
  func greedyTeam() {
    var allotment = RequestAllotment()
    for _ in 0..<300 {
      _ = fill(&allotment, team(1), atMost: Limits.openRequestsGuaranteed)
    }
    #expect(allotment.openCount < Limits.openRequests - Limits.openRequestsReserved)
    #expect(fill(&allotment, team(2)).held > 2 * Limits.openRequestsGuaranteed)
  }

  @Test("Thirty-two teams get their guarantee beside two that hold all that they can")
  func manyTeams() {
    var allotment = RequestAllotment()
    for number in 0..<2 {
      for _ in 0..<300 {
        _ = fill(&allotment, team(UInt64(number)), atMost: Limits.openRequestsGuaranteed)
      }
    }
    for number in 100..<132 {
      let held = fill(
        &allotment, team(UInt64(number)), atMost: Limits.openRequestsGuaranteed
      ).held
      #expect(held == Limits.openRequestsGuaranteed)
    }
  }

  @Test("One team alone gets three quarters of everything on full connections, and more on others")
  func alone() {
    var allotment = RequestAllotment()
    for _ in 0..<13 { _ = fill(&allotment, team(1), atMost: Limits.concurrentStreams) }
    #expect(allotment.openCount > Limits.openRequests * 3 / 4)
    let late = fill(&allotment, team(1), atMost: Limits.openRequestsGuaranteed).held
    #expect(late == Limits.openRequestsGuaranteed)
  }

  @Test("What a team gives back goes to the team that holds less")
  func sharing() {
    var allotment = RequestAllotment()
    var greedy: [Int32] = []
    for _ in 0..<300 {
      let (held, place) = fill(&allotment, team(1), atMost: Limits.openRequestsGuaranteed)
      greedy += Array(repeating: place, count: held)
    }
    var other = 0
    let place = allotment.openAccount(of: team(2))
    for account in greedy[..<(greedy.count / 2)] {
      allotment.give(account)
      if allotment.take(place, held: other) { other += 1 }
      _ = allotment.take(account, held: 0)
    }
    #expect(other > greedy.count / 4)
  }

  // MARK: Parties without a credential

  @Test("An address gets four fifths of the untrusted share, and each connection one beyond it")
  func untrusted() {
    var allotment = RequestAllotment()
    let first = fill(&allotment, address(1)).held
    #expect(first == (Limits.openRequestsUntrusted * 4 + 4) / 5)
    #expect(fill(&allotment, address(1)).held == 1)
    #expect(fill(&allotment, address(2)).held > 256)
    #expect(fill(&allotment, team(1), atMost: 1000).held == 1000)
  }

  @Test("Untrusted connections of one environment leave requests for the other one")
  func environments() {
    var allotment = RequestAllotment()
    for number in 0..<20_000 { _ = fill(&allotment, address(UInt64(number))) }
    let other = fill(&allotment, address(1, .development)).held
    #expect(other > 0)
    for number in 2..<200 { _ = fill(&allotment, address(UInt64(number), .development)) }
    #expect(allotment.untrustedCount > Limits.openRequests - Limits.openRequestsReserved)
  }

  @Test("Half of the reserve stays free for teams, whatever the number of untrusted connections")
  func crowd() {
    var allotment = RequestAllotment()
    for number in 0..<20_000 {
      let environment = number % 2 == 0 ? Environment.production : .development
      _ = fill(&allotment, address(UInt64(number), environment))
    }
    let free = Limits.openRequestsReserved / 2
    #expect(allotment.openCount <= Limits.openRequests - free)
    for number in 0..<free / Limits.openRequestsGuaranteed {
      let held = fill(&allotment, team(UInt64(number)), atMost: 64).held
      #expect(held == Limits.openRequestsGuaranteed)
    }
  }

  @Test("A provider without a token yet may send its first request while a team holds all it can")
  func first() {
    var allotment = RequestAllotment()
    for _ in 0..<300 {
      _ = fill(&allotment, team(1), atMost: Limits.openRequestsGuaranteed)
    }
    #expect(fill(&allotment, address(1), atMost: 1).held == 1)
  }

  @Test("Nothing remains of parties whose sessions and requests are over")
  func end() {
    var allotment = RequestAllotment()
    let (held, place) = fill(&allotment, address(1))
    let team = allotment.openAccount(of: team(1))
    for _ in 0..<held {
      allotment.give(place)
      allotment.join(team)
    }
    allotment.closeAccount(place)
    #expect(allotment.untrustedCount == 0)
    #expect(allotment.partyCount == 1)
    allotment.closeAccount(team)
    // Requests may outlast their session.
    for _ in 0..<held { allotment.give(team) }
    #expect(allotment.partyCount == 0)
    #expect(allotment.openCount == 0)
  }

  // MARK: Sessions

  @Test("Forty untrusted connections with all their streams take no request from a provider")
  func sessions() {
    let pool = HTTP2RequestPool()
    func session(_ configuration: HTTP2ServerSession.Configuration) -> HTTP2ServerSession {
      HTTP2ServerSession(configuration: configuration, pool: pool, nowMilliseconds: 0)
    }
    // Before SETTINGS are acknowledged, as for a client that never acknowledges them.
    let streams = (0..<1000).flatMap { headers(UInt32($0) * 2 + 1, requestBlock()) }
    let opening = preface + frame(Kind.settings) + streams
    let untrustedClients = (0..<40).map { _ in session(.untrusted) }
    for untrusted in untrustedClients { _ = untrusted.receive(opening.span, nowMilliseconds: 0) }
    #expect(pool.openCount <= Limits.openRequestsUntrusted + untrustedClients.count)
    let provider = session(.trusted)
    #expect(provider.receive(opening.span, nowMilliseconds: 0) == .ok)
    #expect(provider.openStreamCount == 1000)
    var output: [UInt8] = []
    provider.pendingOutput(into: &output, limit: .max)
    #expect(frames(output)?.contains { $0.type == Kind.reset || $0.type == Kind.goAway } == false)
  }

  @Test("A refusal because others hold the requests does not end the connection")
  func victim() {
    let pool = HTTP2RequestPool()
    let untrustedClients = (0..<9).map { _ in
      HTTP2ServerSession(configuration: .untrusted, pool: pool, nowMilliseconds: 0)
    }
    let streams = (0..<Limits.streamsBeforeSettings).flatMap {
      headers(UInt32($0) * 2 + 1, requestBlock())
    }
    for untrusted in untrustedClients {
      let result = untrusted.receive(
        (preface + frame(Kind.settings) + streams).span, nowMilliseconds: 0)
      #expect(result == .ok)
    }
    #expect(pool.refusedCount > 0)
  }

  @Test("The memory of a crowd's requests is returned once, when they are back")
  func shrinking() {
    let pool = HTTP2RequestPool()
    var taken: [HTTP2Request] = []
    let account = pool.openAccount(of: .sole)
    for held in 0..<3 * Limits.pooledRequests {
      guard let request = pool.take(account, held: held) else { break }
      taken.append(request)
    }
    #expect(!pool.hasShrunk())
    for request in taken { pool.give(request) }
    #expect(pool.hasShrunk())
    #expect(!pool.hasShrunk())
  }

  @Test("The same of the most requests that untrusted clients of one address hold on an acceptor")
  func shrinkingAcceptor() {
    let pool = HTTP2RequestPool(keptCount: Limits.pooledUntrustedRequests)
    var taken: [HTTP2Request] = []
    for _ in 0..<40 {
      let account = pool.openAccount(of: address(1))
      for held in 0..<Limits.streamsBeforeSettings {
        guard let request = pool.take(account, held: held) else { break }
        taken.append(request)
      }
    }
    #expect(taken.count > 1000)
    for request in taken { pool.give(request) }
    #expect(pool.hasShrunk())
  }

  @Test("Incomplete header blocks of an address have a bound for all its connections together")
  func headerBytes() {
    let pool = HTTP2RequestPool()
    func open(_ party: RequestParty) -> (session: HTTP2ServerSession, isTaken: Bool) {
      var configuration = HTTP2ServerSession.Configuration.untrusted
      configuration.party = party
      let session = HTTP2ServerSession(
        configuration: configuration, pool: pool, nowMilliseconds: 0)
      let fragment = frame(Kind.continuation, 0, stream: 1, literal("x", "y"))
      let bytes =
        preface + frame(Kind.settings) + frame(Kind.headers, 0, stream: 1, requestBlock())
        + fragment + fragment + fragment
      return (session, session.receive(bytes.span, nowMilliseconds: 0) == .ok)
    }
    var sessions: [HTTP2ServerSession] = []
    while sessions.count < 2000 {
      let (session, isTaken) = open(address(1))
      guard isTaken else {
        var output: [UInt8] = []
        session.pendingOutput(into: &output, limit: .max)
        #expect(GoAway(frames(output) ?? [])?.code == 0xb)
        break
      }
      sessions.append(session)
    }
    // Four fifths of 2,048, three for each connection.
    #expect(sessions.count > 500 && sessions.count < 2000)
    #expect(open(address(2)).isTaken)
    #expect(open(.team(high: 1, low: 0)).isTaken)
    // A block that is complete counts no longer, nor does one whose connection has ended.
    let end = frame(Kind.continuation, Flag.endHeaders, stream: 1, [])
    #expect(sessions[0].receive(end.span, nowMilliseconds: 0) == .ok)
    #expect(pool.openCount == 3 * (sessions.count - 1) + 1)
    sessions = []
    #expect(pool.openCount == 0)
  }
}
