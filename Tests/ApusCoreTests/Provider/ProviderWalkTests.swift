import ApusRandom
import ApusCore
import ApusModel
import Testing

/// A connection with random tokens, clocks and directories, checked against what must always hold.
struct ProviderWalkTests {
  struct Sent {
    var key: ShortID
    var team: ShortID
    var issuedAt: Int64
    var copy: Int
  }

  static let keys: [(ShortID, ShortID)] = [
    (World.teamKey, World.team), (World.secondTeamKey, World.team),
    (World.developmentKey, World.team), (World.revokedKey, World.team),
    (World.topicKey, World.team), (World.relatedTopicKey, World.team),
    (World.unrelatedTopicKey, World.team), (World.otherTeamKey, World.otherTeam),
    (World.unknownKey, World.team), (World.teamKey, World.otherTeam),
  ]

  @Test("Trust follows from the rules on every path", arguments: 1...15 as ClosedRange<UInt64>)
  func walk(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    var driver = try Driver()
    var generation: UInt64 = 1
    var first: ProviderKey?
    var lastTrusted: Sent?
    var changes: [Int64] = []
    for step in 0..<600 {
      let place = Comment("seed \(seed), step \(step)")
      if Int.random(in: 0..<50, using: &random) == 0 {
        generation += 1
        driver.directory = World.directory(generation: generation) {
          if Bool.random(using: &random) { $0.keys[1].isRevoked = true }
        }
      }
      driver.now += Int64.random(in: 0...400, using: &random)
      let sent = nextToken(lastTrusted, now: driver.now, using: &random)
      let before = driver.verifications
      let outcome = driver.present(
        sent.key, team: sent.team, issuedAt: sent.issuedAt, copy: sent.copy)
      guard case .trusted(let grant) = outcome else {
        expectBoundTokenStands(&driver, lastTrusted, place)
        continue
      }
      let key = try #require(driver.directory.key(sent.key), place)
      expectAllowed(key, sent, first: first, grant, driver, place)
      if lastTrusted?.key != sent.key || lastTrusted?.issuedAt != sent.issuedAt {
        changes.append(driver.now)
      }
      // Repeated at once: the same answer by a comparison.
      let again = driver.present(
        sent.key, team: sent.team, issuedAt: sent.issuedAt, copy: sent.copy)
      #expect(again == outcome, place)
      #expect(driver.verifications <= before + 1, place)
      first = first ?? key
      lastTrusted = sent
    }
    expectSlowChanges(changes, seed)
    #expect(driver.isTrusted == (lastTrusted != nil))
  }

  private func nextToken(
    _ last: Sent?, now: Int64, using random: inout SeededRandom
  ) -> Sent {
    if var last, Int.random(in: 0..<3, using: &random) > 0 {
      if Bool.random(using: &random) { last.copy = Int.random(in: 0..<3, using: &random) }
      if Int.random(in: 0..<4, using: &random) == 0 {
        last.issuedAt = now - Int64.random(in: -10...10, using: &random)
      }
      return last
    }
    let (key, team) = Self.keys[Int.random(in: 0..<Self.keys.count, using: &random)]
    return Sent(
      key: key, team: team, issuedAt: now - Int64.random(in: -4000...4000, using: &random),
      copy: 0)
  }

  private func expectAllowed(
    _ key: ProviderKey, _ sent: Sent, first: ProviderKey?, _ grant: Grant,
    _ driver: borrowing Driver, _ place: Comment
  ) {
    #expect(!key.isRevoked && key.team == sent.team, place)
    #expect(key.environments.contains(.production), place)
    #expect(abs(driver.now - sent.issuedAt) <= 3600, place)
    #expect(grant.team == key.team, place)
    #expect((grant.scope == .team) == key.isTeamScoped, place)
    guard let first else { return }
    #expect(first.team == key.team && first.isTeamScoped == key.isTeamScoped, place)
    let pair: Set = [World.topicKey, World.relatedTopicKey]
    #expect(
      key.isTeamScoped || first.id == key.id || pair == [first.id, key.id], place)
  }

  /// A rejected token does not affect the previous one: only that one's own age or key can.
  private func expectBoundTokenStands(_ driver: inout Driver, _ last: Sent?, _ place: Comment) {
    guard let last else { return }
    let outcome = driver.present(
      last.key, team: last.team, issuedAt: last.issuedAt, copy: last.copy)
    switch outcome {
    case .trusted: break
    case .refused(let refusal):
      switch refusal.explanation {
      case .tokenTooOld: #expect(driver.now - last.issuedAt > 3600, place)
      case .revokedKey: #expect(driver.directory.key(last.key)?.isRevoked == true, place)
      default: Issue.record("\(refusal) at \(place)")
      }
    }
  }

  /// Changes are 20 minutes apart by the tokens' own dates, the oldest of which is an hour old: any window contains at
  /// most three more than its length in units of 20 minutes, and the one that it begins with.
  private func expectSlowChanges(_ changes: [Int64], _ seed: UInt64) {
    for start in changes.indices {
      for end in start..<changes.count {
        let allowed = (changes[end] - changes[start]) / 1200 + 4
        #expect(Int64(end - start + 1) <= allowed, "seed \(seed), changes \(start) to \(end)")
      }
    }
  }
}
