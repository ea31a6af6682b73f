import ApusLease
import Testing

@Suite("Which lease a node takes")
struct LeaseSearchTests {
  private var search = LeaseSearch(
    node: "b", standsBy: true, count: 2,
    LeaseRules(stillMilliseconds: 5000, absenceMilliseconds: 2500))
  private var now: Int64 = 0

  private func lease(
    _ holder: String, _ counter: Int64 = 1, released: Bool = false
  ) -> Lease {
    Lease(incarnation: 1, counter: counter, isReleased: released, holder: holder)
  }

  /// A round of looks, of which some are asked about, and these processes have no connections.
  private mutating func look(_ leases: [Lease?], gone: Set<Int> = []) -> [Int] {
    now += 250
    var asked: [Int] = []
    for (place, lease) in leases.enumerated()
    where search.see(lease, at: place, nowMilliseconds: now) {
      asked.append(place)
      if gone.contains(place) { search.isGone(at: place) }
    }
    return asked
  }

  @Test("The first that nobody has, or that was released")
  mutating func free() {
    #expect(look([nil, nil]).isEmpty)
    #expect(search.decide(mayTake: true) == .take(place: 0, seen: nil))
    let released = lease("c", released: true)
    _ = look([lease("a"), released])
    #expect(search.decide(mayTake: true) == .take(place: 1, seen: released))
    // It drains, or another node is to serve.
    #expect(search.decide(mayTake: false) == .wait(holders: []))
  }

  @Test("After a crash the one that the node had")
  mutating func former() {
    let (other, own) = (lease("a", released: true), lease("b"))
    #expect(look([other, own], gone: [1]) == [1])
    #expect(search.decide(mayTake: true) == .take(place: 1, seen: own))
  }

  @Test("None while a process of the node may still run")
  mutating func twice() {
    let (other, own) = (lease("a", released: true), lease("b"))
    #expect(look([other, own]) == [1])
    #expect(search.decide(mayTake: true) == .wait(holders: []))
    for counter in 2...4 as ClosedRange<Int64> { _ = look([other, lease("b", counter)]) }
    #expect(search.decide(mayTake: true) == .refused(by: "b"))
  }

  @Test("None whose database is away, and what the node had there is given back first")
  mutating func away() {
    let (other, own) = (lease("a", released: true), lease("b"))
    // Whether its process runs is not known for as long as nobody can be asked.
    _ = look([other, own])
    search.isAway(at: 1)
    #expect(search.decide(mayTake: true) == .wait(holders: []))
    for _ in 0..<20 { _ = look([other, own]) }
    search.isAway(at: 1)
    #expect(search.decide(mayTake: false) == .wait(holders: []))
    #expect(search.decide(mayTake: true) == .giveBack(place: 1, seen: own))
    _ = look([other, lease("b", released: true)])
    search.isAway(at: 1)
    #expect(search.decide(mayTake: true) == .take(place: 0, seen: other))
    // That of another node stays its own.
    _ = look([lease("a"), lease("c", released: true)])
    search.isAway(at: 1)
    #expect(search.decide(mayTake: true) == .wait(holders: []))
  }

  @Test("That of another node without connections only once it was seen for long enough")
  mutating func absence() {
    let leases = [lease("a"), lease("c", released: true)].prefix(1) + [lease("c")]
    for _ in 0..<10 { #expect(look(Array(leases), gone: [0]).isEmpty) }
    #expect(look(Array(leases), gone: [0]) == [0, 1])
    #expect(search.decide(mayTake: true) == .take(place: 0, seen: lease("a")))
  }

  @Test("Who serves is known once each lease was found alive")
  mutating func holders() {
    for counter in 1...4 as ClosedRange<Int64> { _ = look([lease("a", counter), lease("c")]) }
    #expect(search.decide(mayTake: true) == .wait(holders: []))
    for counter in 2...4 as ClosedRange<Int64> { _ = look([lease("a", 4), lease("c", counter)]) }
    #expect(search.decide(mayTake: true) == .wait(holders: ["a", "c"]))
  }

  @Test("A service of its own is refused by any other")
  mutating func alone() {
    search = LeaseSearch(
      node: "b", standsBy: false, count: 1,
      LeaseRules(stillMilliseconds: 5000, absenceMilliseconds: 2500))
    for counter in 1...4 as ClosedRange<Int64> { _ = look([lease("a", counter)]) }
    #expect(search.decide(mayTake: true) == .refused(by: "a"))
  }

  @Test("Its own process says nothing more half a second before another one may take over")
  func validity() {
    for (still, absence, valid) in [(5000, 2500, 2000), (1000, 2500, 500), (300, 300, 0)] {
      let rules = LeaseRules(
        stillMilliseconds: Int64(still), absenceMilliseconds: Int64(absence))
      #expect(rules.validMilliseconds == UInt64(valid))
    }
  }
}
