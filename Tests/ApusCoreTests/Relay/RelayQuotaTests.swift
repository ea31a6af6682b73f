import ApusCore
import Testing

@Suite("How many notifications may go upstream")
struct RelayQuotaTests {
  /// What it says after so many were taken.
  private func wait(_ quota: inout RelayQuota, after count: Int, at now: UInt64) -> Int {
    for _ in 0..<count { quota.take() }
    return quota.waitSeconds(nowMilliseconds: now)
  }

  @Test("A second's worth at once, then as they come")
  func burst() {
    var quota = RelayQuota(perSecond: 10, nowMilliseconds: 1000)
    var waits = [wait(&quota, after: 9, at: 1000), wait(&quota, after: 1, at: 1000)]
    waits.append(wait(&quota, after: 0, at: 1099))
    waits.append(wait(&quota, after: 0, at: 1100))
    waits.append(wait(&quota, after: 1, at: 1100))
    waits.append(wait(&quota, after: 0, at: 1200))
    #expect(waits == [0, 1, 1, 0, 1, 0])
  }

  @Test("Nothing is saved up beyond a second's worth")
  func capacity() {
    var quota = RelayQuota(perSecond: 2, nowMilliseconds: 0)
    let waits = [
      wait(&quota, after: 1, at: 3_600_000), wait(&quota, after: 1, at: 3_600_000),
      wait(&quota, after: 1, at: 3_600_000),
    ]
    #expect(waits == [0, 0, 1])
  }

  @Test("What went in any case has to be waited for")
  func debt() {
    var quota = RelayQuota(perSecond: 2, nowMilliseconds: 0)
    let waits = [
      wait(&quota, after: 12, at: 0), wait(&quota, after: 0, at: 3000),
      wait(&quota, after: 0, at: 5499), wait(&quota, after: 0, at: 5500),
    ]
    #expect(waits == [6, 3, 1, 0])
  }

  @Test("A clock that stands still or goes back adds nothing")
  func clock() {
    var quota = RelayQuota(perSecond: 1, nowMilliseconds: 5000)
    let waits = [wait(&quota, after: 1, at: 5000), wait(&quota, after: 0, at: 4000)]
    #expect(waits == [1, 1])
  }
}
