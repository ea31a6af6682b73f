import ApusModel
import Testing

@testable import ApusCore

@Suite("Budget of connections")
struct ConnectionBudgetTests {
  typealias Budget = ConnectionBudget<Int>

  private func listener(
    _ kind: Int, _ environment: Environment = .production
  ) -> Budget.Listener {
    Budget.Listener(kind: kind, environment: environment)
  }

  private static func team(_ number: Int) -> ConnectionHolder {
    .provider(ShortID(high: UInt64(number), low: 0))
  }

  /// Opens trusted connections of a team, each from a site of its own, until one is refused.
  private func fill(_ budget: inout Budget, _ holder: ConnectionHolder) -> Int {
    var count = 0
    while count < 100_000 {
      guard budget.accept(from: -1, listener: listener(0)) else { return count }
      guard budget.trust(-1, listener: listener(0), as: holder) else {
        budget.close(-1, listener: listener(0), holder: nil)
        return count
      }
      count += 1
    }
    return count
  }

  /// Opens as many connections for a site as allowed.
  private func fill(_ budget: inout Budget, _ site: Int) -> Int {
    var count = 0
    while budget.accept(from: site, listener: listener(0)) { count += 1 }
    return count
  }

  @Test(
    "256 descriptors, or a quarter of a small number, are reserved",
    arguments: [(1024, 768), (20_000, 19_744), (1000, 750), (64, 48)])
  func descriptors(count: Int, capacity: Int) {
    #expect(ConnectionBudget<String>.capacity(ofDescriptors: count) == capacity)
  }

  @Test("A single address gets four fifths of all connections")
  func alone() {
    var budget = Budget(capacity: 1000)
    let count = fill(&budget, 1)
    #expect(count == 800)
  }

  @Test("An address that uses its whole share leaves room for another one")
  func greedyAddress() {
    var budget = Budget(capacity: 1000)
    _ = fill(&budget, 1)
    let count = fill(&budget, 2)
    #expect(count >= 80)
  }

  @Test("Two hundred addresses that use their whole share leave room for one more")
  func manyGreedyAddresses() {
    var budget = Budget(capacity: 20_000)
    for site in 0..<200 { _ = fill(&budget, site) }
    let isTaken = budget.accept(from: 1000, listener: listener(0))
    #expect(isTaken)
  }

  @Test("Untrusted connections of one listener leave room for another listener")
  func listeners() {
    var budget = Budget(capacity: 650)
    var site = 0
    while budget.accept(from: site, listener: listener(0)) { site += 1 }
    #expect(site == 640)
    let isTaken = budget.accept(from: 5000, listener: listener(1))
    #expect(isTaken)
  }

  @Test("Untrusted connections of one environment leave room for the other one")
  func environments() {
    // The first connection of an address: 128 of 129.
    var budget = Budget(capacity: 1290)
    var site = 0
    while budget.accept(from: site, listener: listener(site % 4)) { site += 1 }
    #expect(site == 1280)
    let isTaken = budget.accept(from: 5000, listener: listener(0, .development))
    #expect(isTaken)
  }

  @Test(
    "Addresses that have connections get eight ninths for one listener, 16 of 17 for all of them",
    arguments: [(1, 900, 800), (4, 1700, 1600)])
  func further(listeners: Int, capacity: Int, most: Int) {
    var budget = Budget(capacity: capacity)
    // The first connection of each address, then one after the other.
    for site in 0..<200 { _ = budget.accept(from: site, listener: listener(site % listeners)) }
    var site = 0
    while budget.accept(from: site % 200, listener: listener(site % listeners)) { site += 1 }
    #expect(budget.untrustedCount == most)
    // An address without a connection still gets one.
    let isTaken = budget.accept(from: 1000, listener: listener(0))
    #expect(isTaken)
  }

  @Test("A fleet behind one address connects as its devices become trusted")
  func fleet() {
    var budget = Budget(capacity: 1000)
    for _ in 0..<990 {
      let isTaken = budget.accept(from: 1, listener: listener(0))
      #expect(isTaken)
      let isTrusted = budget.trust(1, listener: listener(0), as: .device)
      #expect(isTrusted)
    }
    #expect(budget.trustedCount == 990)
    #expect(budget.untrustedCount(of: 1) == 0)
  }

  @Test("A single team gets three quarters of all connections, and leaves the rest to others")
  func greedyTeam() {
    var budget = Budget(capacity: 1000)
    let first = fill(&budget, Self.team(1))
    #expect((750..<875).contains(first))
    let other = fill(&budget, Self.team(2))
    #expect(other > Limits.providersGuaranteed)
    #expect(fill(&budget, .device) > 0)
  }

  @Test("Sixteen teams have their guaranteed connections beside four that hold all that they can")
  func manyTeams() {
    var budget = Budget(capacity: 20_000)
    for number in 0..<4 { _ = fill(&budget, Self.team(number)) }
    for number in 10..<26 {
      let held = fill(&budget, Self.team(number))
      #expect(held == Limits.providersGuaranteed, "team \(number)")
    }
  }

  @Test("Untrusted connections do not lower what a team may have")
  func untrustedBesideTeam() {
    var budget = Budget(capacity: 1000)
    for site in 0..<980 {
      let isTaken = budget.accept(from: site, listener: listener(0))
      #expect(isTaken)
    }
    for site in 0..<700 {
      let isTrusted = budget.trust(site, listener: listener(0), as: Self.team(1))
      #expect(isTrusted)
    }
  }

  @Test("A connection that its team has no room for remains untrusted")
  func refusedTeam() {
    var budget = Budget(capacity: 100)
    let held = fill(&budget, Self.team(1))
    _ = budget.accept(from: 7, listener: listener(0))
    let isTrusted = budget.trust(7, listener: listener(0), as: Self.team(1))
    #expect(!isTrusted)
    #expect(budget.untrustedCount(of: 7) == 1)
    #expect(budget.trustedCount == held)
    budget.close(-1, listener: listener(0), holder: Self.team(1))
    let isTrustedNow = budget.trust(7, listener: listener(0), as: Self.team(1))
    #expect(isTrustedNow)
  }

  @Test("Ten thousand devices behind one address connect in crowds, and leave room for others")
  func largeFleet() {
    // As many descriptors as such a service needs, with the reserve.
    var budget = Budget(capacity: Budget.capacity(ofDescriptors: 16_384))
    var waiting = 10_000
    var rounds = 0
    while waiting > 0 {
      // All that wait connect at once; then those with a connection prove who they are.
      var there = 0
      while there < waiting, budget.accept(from: 1, listener: listener(0)) { there += 1 }
      let isTaken = budget.accept(from: 2, listener: listener(0))
      #expect(isTaken, "no room for another address beside \(budget.trustedCount) devices")
      budget.close(2, listener: listener(0), holder: nil)
      for _ in 0..<there { _ = budget.trust(1, listener: listener(0), as: .device) }
      waiting -= there
      rounds += 1
      guard there > 0 else { break }
    }
    #expect(budget.trustedCount == 10_000)
    #expect(budget.untrustedCount == 0)
    // Nobody has to come a second time: four fifths of what is free is more than all of them.
    #expect(rounds == 1)
  }

  @Test("Ten thousand devices behind one address connect where there is hardly more room for them")
  func tightFleet() {
    var budget = Budget(capacity: 10_100)
    var waiting = 10_000
    for _ in 0..<20 {
      var there = 0
      while there < waiting, budget.accept(from: 1, listener: listener(0)) { there += 1 }
      for _ in 0..<there { _ = budget.trust(1, listener: listener(0), as: .device) }
      waiting -= there
    }
    #expect(waiting == 0)
    #expect(budget.trustedCount == 10_000)
  }

  @Test("Without free descriptors no connection is accepted")
  func full() {
    var budget = Budget(capacity: 2)
    let count = fill(&budget, .device)
    #expect(count == 2)
    let isTakenWhileFull = budget.accept(from: 1, listener: listener(0))
    budget.close(-1, listener: listener(0), holder: .device)
    let isTakenBehind = budget.accept(from: 1, listener: listener(0))
    #expect(!isTakenWhileFull && isTakenBehind)
  }

  @Test(
    "Connections whose proxy has not named the client count for no site, but for their listener")
  func unnamed() {
    var budget = Budget(capacity: 1000)
    var count = 0
    while budget.accept(from: nil, listener: listener(0)) { count += 1 }
    // 64 of 65, as for the first connection of each site.
    #expect(count == 985)
    #expect(budget.untrustedCount == count)
    for _ in 0..<count { budget.close(nil, listener: listener(0), holder: nil) }
    #expect(budget.untrustedCount == 0)
    let alone = fill(&budget, 1)
    #expect(alone == 800)
  }

  @Test("A named client's connection counts for its site, within the site's share")
  func named() {
    var budget = Budget(capacity: 1000)
    let count = fill(&budget, 1)
    _ = budget.accept(from: nil, listener: listener(0))
    let another = budget.assign(1, listener: listener(0))
    #expect(!another && budget.untrustedCount(of: 1) == count)
    #expect(budget.untrustedCount == count + 1, "it still counts for none")
    let first = budget.assign(2, listener: listener(0))
    #expect(first && budget.untrustedCount(of: 2) == 1)
    #expect(budget.untrustedCount == count + 1)
    budget.close(2, listener: listener(0), holder: nil)
    #expect(budget.untrustedCount == count)
  }

  @Test("With unbounded capacity no connection is refused")
  func unbounded() {
    var budget = Budget(capacity: .max)
    for _ in 0..<10_000 { _ = budget.accept(from: 1, listener: listener(0)) }
    #expect(budget.untrustedCount == 10_000)
  }

  @Test("The counts equal the open connections, whatever the order of events")
  func walk() {
    var generator = SystemRandomNumberGenerator()
    var budget = Budget(capacity: 50)
    var there: [(site: Int?, listener: Int, holder: ConnectionHolder?)] = []
    for _ in 0..<20_000 {
      switch Int.random(in: 0..<5, using: &generator) {
      case 0, 1:
        let isNamed = Bool.random(using: &generator)
        let site = isNamed ? Int.random(in: 0..<9, using: &generator) : nil
        let listener = Int.random(in: 0..<3, using: &generator)
        if budget.accept(from: site, listener: self.listener(listener)) {
          there.append((site, listener, nil))
        }
      case 2:
        guard let index = there.indices.randomElement(using: &generator),
          there[index].holder == nil, let site = there[index].site
        else { continue }
        let holder =
          Bool.random(using: &generator)
          ? .device : Self.team(Int.random(in: 0..<2, using: &generator))
        let listener = listener(there[index].listener)
        if budget.trust(site, listener: listener, as: holder) {
          there[index].holder = holder
        }
      case 3:
        guard let index = there.indices.randomElement(using: &generator), there[index].site == nil
        else { continue }
        let site = Int.random(in: 0..<9, using: &generator)
        if budget.assign(site, listener: listener(there[index].listener)) {
          there[index].site = site
        }
      default:
        guard let index = there.indices.randomElement(using: &generator) else { continue }
        let gone = there.remove(at: index)
        budget.close(gone.site, listener: listener(gone.listener), holder: gone.holder)
      }
      #expect(there.count <= 50)
      #expect(budget.trustedCount == there.count { $0.holder != nil })
      #expect(budget.untrustedCount == there.count { $0.holder == nil })
      for site in 0..<9 {
        let count = there.count { $0.site == site && $0.holder == nil }
        #expect(budget.untrustedCount(of: site) == count)
      }
      for number in 0..<2 {
        let count = there.count { $0.holder == Self.team(number) }
        #expect(budget.trustedCount(of: ShortID(high: UInt64(number), low: 0)) == count)
      }
    }
  }
}
