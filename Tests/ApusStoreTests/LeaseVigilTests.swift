import Testing

@testable import ApusStore

@Suite("Whether the holder of a lease lives")
struct LeaseVigilTests {
  private func lease(_ counter: Int64, incarnation: Int64 = 1, released: Bool = false)
    -> PostgresLease
  {
    PostgresLease(incarnation: incarnation, counter: counter, isReleased: released)
  }

  @Test("No lease and a released one are free at once")
  func free() {
    var vigil = LeaseVigil(stillMilliseconds: 5000)
    #expect(vigil.see(nil, nowMilliseconds: 0) == .free)
    #expect(vigil.see(lease(7, released: true), nowMilliseconds: 1) == .free)
  }

  @Test("One that stands still for long enough is free, and no earlier")
  func still() {
    var vigil = LeaseVigil(stillMilliseconds: 5000)
    #expect(vigil.see(lease(7), nowMilliseconds: 100) == .unknown)
    #expect(vigil.see(lease(7), nowMilliseconds: 5099) == .unknown)
    #expect(vigil.see(lease(7), nowMilliseconds: 5100) == .free)
  }

  @Test("Two late renewals begin the wait again, a third shows life")
  func changes() {
    var vigil = LeaseVigil(stillMilliseconds: 5000)
    #expect(vigil.see(lease(7), nowMilliseconds: 0) == .unknown)
    #expect(vigil.see(lease(8), nowMilliseconds: 4000) == .unknown)
    #expect(vigil.see(lease(8), nowMilliseconds: 8999) == .unknown)
    #expect(vigil.see(lease(9), nowMilliseconds: 8999) == .unknown)
    #expect(vigil.see(lease(9), nowMilliseconds: 13_998) == .unknown)
    var other = vigil
    #expect(vigil.see(lease(9), nowMilliseconds: 13_999) == .free)
    #expect(other.see(lease(10), nowMilliseconds: 13_999) == .alive)
  }

  @Test("A new incarnation counts as a change")
  func incarnations() {
    var vigil = LeaseVigil(stillMilliseconds: 5000)
    #expect(vigil.see(lease(7), nowMilliseconds: 0) == .unknown)
    #expect(vigil.see(lease(7, incarnation: 2), nowMilliseconds: 5000) == .unknown)
    #expect(vigil.see(lease(7, incarnation: 2), nowMilliseconds: 10_000) == .free)
  }

  @Test("A holder that was found alive has changed its lease just then")
  func alive() {
    var vigil = LeaseVigil(stillMilliseconds: 5000)
    for counter in 7...9 {
      #expect(vigil.see(lease(Int64(counter)), nowMilliseconds: 90_000) == .unknown)
    }
    #expect(vigil.see(lease(10), nowMilliseconds: 91_000) == .alive)
    vigil.restart()
    #expect(vigil.stillMilliseconds(nowMilliseconds: 91_000) == 0)
    #expect(vigil.see(lease(10), nowMilliseconds: 91_250) == .unknown)
    #expect(vigil.stillMilliseconds(nowMilliseconds: 91_250) == 250)
    for counter in 11...12 {
      #expect(vigil.see(lease(Int64(counter)), nowMilliseconds: 92_000) == .unknown)
    }
    #expect(vigil.see(lease(13), nowMilliseconds: 92_000) == .alive)
  }
}
