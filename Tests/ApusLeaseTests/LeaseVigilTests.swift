import ApusLease
import Testing

@Suite("Whether the holder of a lease lives")
struct LeaseVigilTests {
  private func lease(_ counter: Int64, incarnation: Int64 = 1, released: Bool = false)
    -> Lease
  {
    Lease(incarnation: incarnation, counter: counter, isReleased: released)
  }

  @Test("No lease and a released one are free at once")
  func free() {
    var vigil = LeaseVigil(stillMilliseconds: 5000)
    #expect(vigil.see(nil, nowMilliseconds: 0) == .free)
    #expect(vigil.see(lease(7, released: true), nowMilliseconds: 1) == .free)
  }

  /// Looks four times a second, from `start` to `end`, and returns the last finding.
  private func watch(
    _ vigil: inout LeaseVigil, _ lease: Lease, _ start: Int64, _ end: Int64
  ) -> LeaseVigil.Finding {
    var finding = LeaseVigil.Finding.unknown
    for now in stride(from: start, through: end, by: 250) {
      finding = vigil.see(lease, nowMilliseconds: now)
    }
    return finding
  }

  @Test("One that stands still for long enough is free, and no earlier")
  func still() {
    var vigil = LeaseVigil(stillMilliseconds: 5000)
    #expect(watch(&vigil, lease(7), 100, 4850) == .unknown)
    #expect(vigil.see(lease(7), nowMilliseconds: 5099) == .unknown)
    #expect(vigil.see(lease(7), nowMilliseconds: 5100) == .free)
  }

  @Test("Two late renewals begin the wait again, a third shows life")
  func changes() {
    var vigil = LeaseVigil(stillMilliseconds: 5000)
    #expect(watch(&vigil, lease(7), 0, 3750) == .unknown)
    #expect(watch(&vigil, lease(8), 4000, 8750) == .unknown)
    #expect(watch(&vigil, lease(9), 9000, 13_750) == .unknown)
    var other = vigil
    #expect(vigil.see(lease(9), nowMilliseconds: 14_000) == .free)
    #expect(other.see(lease(10), nowMilliseconds: 14_000) == .alive)
    other.restart()
    #expect(other.see(lease(10), nowMilliseconds: 14_100) == .unknown)
  }

  @Test("A new incarnation counts as a change")
  func incarnations() {
    var vigil = LeaseVigil(stillMilliseconds: 5000)
    #expect(watch(&vigil, lease(7), 0, 4750) == .unknown)
    #expect(watch(&vigil, lease(7, incarnation: 2), 5000, 9750) == .unknown)
    #expect(vigil.see(lease(7, incarnation: 2), nowMilliseconds: 10_000) == .free)
  }

  @Test("Time without looks does not count: neither side may have reached the database")
  func gaps() {
    var vigil = LeaseVigil(stillMilliseconds: 5000)
    #expect(watch(&vigil, lease(7), 0, 1000) == .unknown)
    #expect(vigil.see(lease(7), nowMilliseconds: 61_000) == .unknown)
    #expect(vigil.observedMilliseconds == 1000)
    #expect(watch(&vigil, lease(7), 61_000, 64_750) == .unknown)
    #expect(vigil.see(lease(7), nowMilliseconds: 65_000) == .free)
  }

  @Test("A holder that was found alive has changed its lease just then")
  func alive() {
    var vigil = LeaseVigil(stillMilliseconds: 5000)
    for counter in 7...9 {
      #expect(vigil.see(lease(Int64(counter)), nowMilliseconds: 90_000) == .unknown)
    }
    #expect(vigil.see(lease(10), nowMilliseconds: 91_000) == .alive)
    vigil.restart()
    #expect(vigil.observedMilliseconds == 0)
    #expect(vigil.see(lease(10), nowMilliseconds: 91_250) == .unknown)
    #expect(vigil.observedMilliseconds == 250)
    for counter in 11...12 {
      #expect(vigil.see(lease(Int64(counter)), nowMilliseconds: 92_000) == .unknown)
    }
    #expect(vigil.see(lease(13), nowMilliseconds: 92_000) == .alive)
  }
}
