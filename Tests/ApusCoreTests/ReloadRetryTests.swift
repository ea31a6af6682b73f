import Testing

@testable import ApusCore

@Suite("Retrying a failed reload")
struct ReloadRetryTests {
  @Test("A retry is due neither before a failure nor after a success")
  func onlyAfterFailure() {
    var retry = ReloadRetry()
    #expect(!retry.isDue(nowMilliseconds: .max))
    retry.failed(nowMilliseconds: 0)
    #expect(retry.isDue(nowMilliseconds: 60_000))
    retry.succeeded()
    #expect(!retry.isDue(nowMilliseconds: .max))
  }

  @Test("Retries are due after pauses that double up to four seconds")
  func pauses() {
    var retry = ReloadRetry()
    var pauses: [UInt64] = []
    for now in [0, 10_000, 20_000, 30_000, 40_000, 50_000, 60_000] as [UInt64] {
      retry.failed(nowMilliseconds: now)
      pauses.append((0...20_000).first { retry.isDue(nowMilliseconds: now + $0) } ?? 0)
    }
    #expect(pauses == [250, 500, 1000, 2000, 4000, 4000, 4000])
  }
}
