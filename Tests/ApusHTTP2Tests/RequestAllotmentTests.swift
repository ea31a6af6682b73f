import ApusModel
import Testing

@testable import ApusHTTP2

@Suite("Allotment of a worker's requests")
struct RequestAllotmentTests {
  /// Takes as many as one connection gets.
  private func fill(
    _ allotment: inout RequestAllotment, isTrusted: Bool, atMost limit: Int = .max
  ) -> Int {
    var held = 0
    while held < limit, allotment.take(held: held, isTrusted: isTrusted) { held += 1 }
    return held
  }

  @Test("Untrusted connections share a part, and each may have one request beyond it")
  func strangers() {
    var allotment = RequestAllotment()
    #expect(fill(&allotment, isTrusted: false) == Limits.openRequestsUntrusted)
    #expect(fill(&allotment, isTrusted: false) == 1)
    #expect(fill(&allotment, isTrusted: true, atMost: 1000) == 1000)
  }

  @Test(
    "Half of the reserve stays free for trusted connections, whatever the number of untrusted ones")
  func crowd() {
    var allotment = RequestAllotment()
    while allotment.take(held: 0, isTrusted: false) {}
    #expect(allotment.openCount == Limits.openRequests - Limits.openRequestsReserved / 2)
    for _ in 0..<Limits.openRequestsReserved / 2 / Limits.openRequestsGuaranteed {
      #expect(fill(&allotment, isTrusted: true) == Limits.openRequestsGuaranteed)
    }
    #expect(allotment.openCount == Limits.openRequests)
  }

  @Test("A connection may send its first request while a team holds all that it can")
  func first() {
    var allotment = RequestAllotment()
    while allotment.take(held: Limits.openRequestsGuaranteed, isTrusted: true) {}
    let held = allotment.openCount
    let isFirstTaken = allotment.take(held: 0, isTrusted: false)
    #expect(isFirstTaken)
    let isSecondTaken = allotment.take(held: 1, isTrusted: false)
    #expect(!isSecondTaken)
    #expect(allotment.openCount == held + 1)
  }

  @Test("A trusted connection may use all free requests, and the others keep their guarantee")
  func greed() {
    var allotment = RequestAllotment()
    let most = Limits.openRequests - Limits.openRequestsReserved
    #expect(fill(&allotment, isTrusted: true) == most)
    #expect(fill(&allotment, isTrusted: true) == Limits.openRequestsGuaranteed)
  }

  @Test("Requests of a connection that becomes trusted leave the untrusted share")
  func promotion() {
    var allotment = RequestAllotment()
    let count = fill(&allotment, isTrusted: false)
    for _ in 0..<count { allotment.trust() }
    #expect(allotment.untrustedCount == 0)
    for _ in 0..<count { allotment.give(isTrusted: true) }
    #expect(allotment == RequestAllotment())
  }

  @Test("Forty untrusted connections with all their streams take no request from a provider")
  func sessions() {
    let pool = HTTP2RequestPool()
    func session(_ configuration: HTTP2ServerSession.Configuration) -> HTTP2ServerSession {
      HTTP2ServerSession(configuration: configuration, pool: pool, nowMilliseconds: 0)
    }
    // Before SETTINGS are acknowledged, as for a client that never acknowledges them.
    let streams = (0..<1000).flatMap { headers(UInt32($0) * 2 + 1, requestBlock()) }
    let opening = preface + frame(Kind.settings) + streams
    let strangers = (0..<40).map { _ in session(.untrusted) }
    for stranger in strangers { _ = stranger.receive(opening.span, nowMilliseconds: 0) }
    #expect(pool.openCount <= Limits.openRequestsUntrusted + strangers.count)
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
    let strangers = (0..<9).map { _ in
      HTTP2ServerSession(configuration: .untrusted, pool: pool, nowMilliseconds: 0)
    }
    let streams = (0..<Limits.streamsBeforeSettings).flatMap {
      headers(UInt32($0) * 2 + 1, requestBlock())
    }
    for stranger in strangers {
      let result = stranger.receive(
        (preface + frame(Kind.settings) + streams).span, nowMilliseconds: 0)
      #expect(result == .ok)
    }
    #expect(pool.refusedCount > 0)
  }

  @Test("The memory of a crowd's requests is returned once, when they are back")
  func shrinking() {
    let pool = HTTP2RequestPool()
    var taken: [HTTP2Request] = []
    for held in 0..<3 * Limits.pooledRequests {
      guard let request = pool.take(held: held, isTrusted: true) else { break }
      taken.append(request)
    }
    #expect(!pool.hasShrunk())
    for request in taken { pool.give(request) }
    #expect(pool.hasShrunk())
    #expect(!pool.hasShrunk())
  }
}
