import ApusCore
import ApusDirectory
import ApusModel
import ApusRelay
import ApusServer
import ApusTesting
import Glibc
import Testing

@Suite("Quotas of apps and teams")
struct QuotaTests {
  private let bench: RelayBench

  init() throws { bench = try RelayBench() }

  private static let good = PlannedFault.Effect.respond(.init(status: 200, reason: ""))

  /// The statuses of so many requests in a row, and `retry-after` of the last.
  private func statuses(
    _ count: Int, _ text: String
  ) throws -> (statuses: [Int], retryAfter: String?) {
    let provider = try bench.gateway.provider(.development)
    var last: RawResponse?
    var statuses: [Int] = []
    for _ in 0..<count {
      let response = try provider.exchange(bench.push(to: text), body: TestService.payload)
      statuses.append(try #require(response.status))
      last = response
    }
    return (statuses, last?["retry-after"])
  }

  @Test("A request beyond the app's quota gets 429, and does not go upstream")
  func app() throws {
    let (_, text) = LegacyFrame.token(0xc1)
    bench.script.answer(text, Self.good)
    try bench.edit("upstream-per-second", to: "1")
    let (found, retryAfter) = try statuses(4, text)
    // A slow machine may let a second pass between two of them.
    #expect(found.first == 200)
    #expect(found.contains(429))
    #expect(retryAfter == "1" || found.last == 200)
    #expect(bench.script.requests(text).count == found.count { $0 == 200 })
  }

  @Test("A team's quota is that of its apps together")
  func team() throws {
    let (_, text) = LegacyFrame.token(0xc2)
    bench.script.answer(text, Self.good)
    let data = bench.gateway.directory.data
    let team = bench.gateway.directory.key.team.text
    try data.edit { records, sections in
      records.set("upstream-per-second", to: "1", in: try data.section("team", team, of: sections))
    }
    bench.gateway.service.reload()
    #expect(try statuses(4, text).statuses.contains(429))
  }

  @Test("A legacy sender is not read from until it may send again; nothing is lost")
  func legacy() throws {
    let (bytes, text) = LegacyFrame.token(0xc3)
    bench.script.answer(text, Self.good)
    try bench.edit("upstream-per-second", to: "2")
    let sender = try bench.sender(confirms: true)
    let start = ContinuousClock.now
    for number: UInt32 in 1...6 {
      try sender.send(LegacyFrame.framed(number, bytes))
      #expect(try sender.packet() == [8, 0, 0, 0, 0, UInt8(number)])
    }
    // Two at once, and four within two seconds, of which the last pause is not over.
    #expect(ContinuousClock.now - start > .milliseconds(1500))
    try bench.drain()
    #expect(bench.script.requests(text).count == 6)
  }

  @Test("Trust data that change while a legacy sender waits do not make it wait for longer")
  func reload() throws {
    let (bytes, text) = LegacyFrame.token(0xc4)
    bench.script.answer(text, Self.good)
    try bench.edit("upstream-per-second", to: "1")
    let sender = try bench.sender(confirms: true)
    for number: UInt32 in 1...2 {
      try sender.send(LegacyFrame.framed(number, bytes))
      #expect(try sender.packet() == [8, 0, 0, 0, 0, UInt8(number)])
      // Until the second is over for which it waits.
      for _ in 0..<60 {
        bench.gateway.service.reload()
        usleep(20_000)
      }
    }
    try sender.send(LegacyFrame.framed(3, bytes))
    #expect(try sender.packet() == [8, 0, 0, 0, 0, 3])
  }
}
