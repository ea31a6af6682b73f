import ApusRandom
import ApusCore
import ApusModel
import Testing

/// A token as it might be sent: its key, its time, and one of many signatures.
private func field(_ key: ShortID, at seconds: Int64, signature: Int = 0) -> String {
  "bearer \(key.text).\(seconds).\(signature)"
}

extension Driver {
  /// Sends a token issued at a time; `copy` distinguishes signatures over the same claims.
  mutating func present(
    _ key: ShortID, team: ShortID = World.team, issuedAt: Int64, copy: Int = 0
  ) -> Authentication {
    var request = Request()
    request.set(.authorization, field(key, at: issuedAt, signature: copy))
    let token = VerifiedToken(keyID: key, issuer: team, issuedAtSeconds: issuedAt)
    return authenticate(request.requestFields(), token)
  }

  mutating func explanation(
    _ key: ShortID, team: ShortID = World.team, issuedAt: Int64, copy: Int = 0
  ) -> Explanation? {
    guard
      case .refused(let refusal) = present(key, team: team, issuedAt: issuedAt, copy: copy)
    else { return nil }
    return refusal.explanation
  }
}

struct ProviderTokenTests {
  let now = World.now

  @Test("A trusted token is verified once, and then compared")
  func cached() throws {
    var driver = try Driver()
    #expect(driver.isTrusted == false)
    let grant = Authentication.trusted(Grant(team: World.team, scope: .team))
    #expect(driver.present(World.teamKey, issuedAt: now) == grant)
    #expect(driver.isTrusted == true)
    for _ in 0..<3 { #expect(driver.present(World.teamKey, issuedAt: now) == grant) }
    #expect(driver.verifications == 1)
  }

  @Test("A topic-specific key is trusted for its own topics")
  func topicScope() throws {
    var driver = try Driver()
    #expect(
      driver.present(World.topicKey, issuedAt: now)
        == .trusted(Grant(team: World.team, scope: .key(World.topicKey))))
  }

  @Test("A rejected request never makes a connection trusted")
  func untrusted() throws {
    var driver = try Driver()
    _ = driver.present(World.revokedKey, issuedAt: now)
    _ = driver.present(World.teamKey, issuedAt: now - 4000)
    var request = Request()
    request.provider = nil
    _ = driver.authenticate(request.requestFields(), nil)
    #expect(driver.isTrusted == false)
    #expect(driver.reexamine() == nil)
  }

  @Test("Tokens of unusable keys are rejected")
  func keys() throws {
    var driver = try Driver()
    #expect(
      driver.explanation(World.unknownKey, issuedAt: now) == .unknownKey(World.unknownKey))
    #expect(
      driver.explanation(World.teamKey, team: World.otherTeam, issuedAt: now)
        == .keyOfOtherTeam(key: World.teamKey, owner: World.team, issuer: World.otherTeam))
    #expect(
      driver.explanation(World.revokedKey, issuedAt: now) == .revokedKey(World.revokedKey))
    #expect(
      driver.explanation(World.developmentKey, issuedAt: now)
        == .keyEnvironment(key: World.developmentKey, listener: .production))
  }

  @Test("An unknown key is rejected even if the driver did not check it")
  func verifiedUnknown() throws {
    var driver = try Driver()
    let token = VerifiedToken(
      keyID: World.unknownKey, issuer: World.team, issuedAtSeconds: now)
    let fields = Request().requestFields()
    let directory = driver.directory
    let refusal = #expect(throws: Refusal.self) {
      _ = try driver.connection.authenticate(fields, directory: directory, nowSeconds: now) { _ in
        token
      }
    }
    #expect(refusal == Refusal(.unknownKey(World.unknownKey)))
  }

  @Test(
    "A token is valid for an hour, and may be two minutes ahead",
    arguments: [
      (3600, nil), (3601, .tokenTooOld(seconds: 3601)), (-120, nil),
      (-121, .tokenInFuture(seconds: 121)), (-3600, .tokenInFuture(seconds: 3600)),
      (.max - World.now, .tokenTooOld(seconds: .max - World.now)),
      (World.now, .tokenTooOld(seconds: World.now)),
    ] as [(Int64, Explanation?)])
  func age(_ seconds: Int64, _ expected: Explanation?) throws {
    var driver = try Driver()
    #expect(driver.explanation(World.teamKey, issuedAt: now - seconds) == expected)
  }

  @Test("An extreme date is rejected and does not trap", arguments: [Int64.min, .max])
  func extremeDates(_ date: Int64) throws {
    var driver = try Driver()
    let reason: Reason = date < 0 ? .expiredProviderToken : .invalidProviderToken
    #expect(driver.explanation(World.teamKey, issuedAt: date)?.reason == reason)
  }

  @Test("A cached token expires without another signature check")
  func cachedAge() throws {
    var driver = try Driver()
    #expect(driver.explanation(World.teamKey, issuedAt: now) == nil)
    driver.now += 3600
    #expect(driver.explanation(World.teamKey, issuedAt: now) == nil)
    driver.now += 1
    #expect(
      driver.explanation(World.teamKey, issuedAt: now) == .tokenTooOld(seconds: 3601))
    #expect(driver.verifications == 1)
    #expect(driver.explanation(World.teamKey, issuedAt: driver.now) == nil)
  }

  static let relations: [(ShortID, ShortID, ShortID, Explanation?)] = [
    (World.teamKey, World.secondTeamKey, World.team, nil),
    (World.topicKey, World.relatedTopicKey, World.team, nil),
    (World.relatedTopicKey, World.topicKey, World.team, nil),
    (
      World.topicKey, World.unrelatedTopicKey, World.team,
      .unrelatedKey(first: World.topicKey, now: World.unrelatedTopicKey)
    ),
    (
      World.topicKey, World.teamKey, World.team,
      .otherKeyKind(first: World.topicKey, now: World.teamKey)
    ),
    (
      World.teamKey, World.topicKey, World.team,
      .otherKeyKind(first: World.teamKey, now: World.topicKey)
    ),
    (
      World.teamKey, World.otherTeamKey, World.otherTeam,
      .otherTeam(first: World.team, now: World.otherTeam)
    ),
  ]

  @Test("A later key must be related to that of the first push", arguments: relations)
  func relation(
    _ first: ShortID, _ second: ShortID, _ team: ShortID, _ expected: Explanation?
  ) throws {
    var driver = try Driver()
    #expect(driver.explanation(first, issuedAt: now) == nil)
    // Long enough that the other rule about changes does not apply.
    driver.now += 1200
    #expect(driver.explanation(second, team: team, issuedAt: driver.now) == expected)
    #expect(driver.explanation(first, issuedAt: now) == nil || expected == nil)
  }

  @Test("The relation is to the first push, not to the last")
  func relationToFirst() throws {
    // 02 is related to 01; a third key is no longer related to 02, so only the first push counts.
    var driver = try Driver()
    #expect(driver.explanation(World.topicKey, issuedAt: now) == nil)
    driver.now += 1200
    #expect(driver.explanation(World.relatedTopicKey, issuedAt: driver.now) == nil)
    driver.now += 1200
    #expect(driver.explanation(World.topicKey, issuedAt: driver.now) == nil)
    driver.now += 1200
    #expect(
      driver.explanation(World.unrelatedTopicKey, issuedAt: driver.now)
        == .unrelatedKey(first: World.topicKey, now: World.unrelatedTopicKey))
  }

  @Test("A relation registered after the first push counts")
  func laterRelation() throws {
    var driver = try Driver()
    #expect(driver.explanation(World.unrelatedTopicKey, issuedAt: now) == nil)
    driver.now += 1200
    #expect(driver.explanation(World.topicKey, issuedAt: driver.now) != nil)
    driver.directory = World.directory(generation: 2) {
      $0.keys[5].relatedKey = nil
      $0.keys[6].relatedKey = World.topicKey
    }
    #expect(driver.explanation(World.topicKey, issuedAt: driver.now) == nil)
  }
}

struct ProviderTokenUpdateTests {
  let now = World.now

  @Test(
    "A second token within 20 minutes is rejected", arguments: [0, 1, 600, 1199] as [Int64])
  func tooSoon(_ seconds: Int64) throws {
    var driver = try Driver()
    #expect(driver.explanation(World.teamKey, issuedAt: now) == nil)
    driver.now += seconds
    #expect(
      driver.explanation(World.teamKey, issuedAt: now + seconds + 1)
        == .tokenChangedTooSoon(secondsLeft: 1200 - seconds))
    // A rejected token replaces nothing.
    #expect(driver.explanation(World.teamKey, issuedAt: now) == nil)
    #expect(driver.verifications == 2)
  }

  @Test("After 20 minutes a token may change, and the next must wait as long")
  func afterTwentyMinutes() throws {
    var driver = try Driver()
    #expect(driver.explanation(World.teamKey, issuedAt: now) == nil)
    driver.now += 1200
    #expect(driver.explanation(World.teamKey, issuedAt: now + 1200) == nil)
    driver.now += 1
    #expect(
      driver.explanation(World.teamKey, issuedAt: now) == .tokenChangedTooSoon(secondsLeft: 1199))
    #expect(driver.explanation(World.teamKey, issuedAt: now + 1200) == nil)
  }

  @Test("Another signature over the same claims is the same token")
  func sameIssue() throws {
    var driver = try Driver()
    for copy in 0..<4 {
      #expect(driver.explanation(World.teamKey, issuedAt: now, copy: copy) == nil)
    }
    #expect(driver.verifications == 4)
  }

  @Test("Two processes that alternate with their signatures cause no further checks")
  func turns() throws {
    var driver = try Driver()
    for turn in 0..<10 {
      #expect(driver.explanation(World.teamKey, issuedAt: now, copy: turn % 2) == nil)
    }
    #expect(driver.verifications == 2)
  }

  @Test("The same date with another key is another token")
  func otherKey() throws {
    var driver = try Driver()
    #expect(driver.explanation(World.teamKey, issuedAt: now) == nil)
    #expect(
      driver.explanation(World.secondTeamKey, issuedAt: now)
        == .tokenChangedTooSoon(secondsLeft: 1200))
  }

  @Test("A token that was not new when it came may soon be followed by the next")
  func oldFirstToken() throws {
    var driver = try Driver()
    #expect(driver.explanation(World.teamKey, issuedAt: now - 3000) == nil)
    driver.now += 60
    #expect(driver.explanation(World.teamKey, issuedAt: driver.now) == nil)
    driver.now += 60
    #expect(
      driver.explanation(World.teamKey, issuedAt: driver.now)
        == .tokenChangedTooSoon(secondsLeft: 1140))
  }

  @Test("After the clock is set back the next token waits for at most 20 minutes")
  func clockSetBack() throws {
    var driver = try Driver()
    #expect(driver.explanation(World.teamKey, issuedAt: now) == nil)
    driver.now -= 86_400
    let later = driver.now
    #expect(
      driver.explanation(World.teamKey, issuedAt: later) == .tokenChangedTooSoon(secondsLeft: 1200))
    driver.now += 1200
    #expect(driver.explanation(World.teamKey, issuedAt: later) == nil)
  }

  /// A provider that issues a token at most every 20 minutes and uses its newest keeps the rule, however long after
  /// the issue each request comes.
  @Test(
    "A provider that keeps to 20 minutes is never rejected", arguments: [1, 2, 3, 4, 5] as [UInt64])
  func disciplined(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    var driver = try Driver()
    var issued = now
    for step in 0..<2000 {
      driver.now += Int64.random(in: 0...1500, using: &random)
      if driver.now - issued >= 3600 || driver.now - issued >= 1200 && Bool.random(using: &random) {
        // Issued between the first allowed moment and now.
        issued = Int64.random(
          in: max(issued + 1200, driver.now - 3600)...driver.now, using: &random)
      }
      let explanation = driver.explanation(World.teamKey, issuedAt: issued)
      #expect(explanation == nil, "seed \(seed), step \(step)")
    }
  }
}

struct ProviderSnapshotTests {
  let now = World.now

  @Test("A key revoked by a new directory ends trust at the next request, and for good")
  func revoked() throws {
    var driver = try Driver()
    #expect(driver.explanation(World.teamKey, issuedAt: now) == nil)
    #expect(driver.reexamine() == nil)
    driver.directory = World.directory(generation: 2) { $0.keys[0].isRevoked = true }
    #expect(driver.explanation(World.teamKey, issuedAt: now) == .revokedKey(World.teamKey))
    #expect(driver.explanation(World.teamKey, issuedAt: now) == .revokedKey(World.teamKey))
    #expect(
      driver.reexamine()
        == Refusal(.revokedKey(World.teamKey)))
    #expect(driver.verifications == 1)
  }

  @Test("A key that is removed, or moved to another team or environment, loses trust")
  func changed() throws {
    var driver = try Driver()
    #expect(driver.explanation(World.teamKey, issuedAt: now) == nil)
    driver.directory = World.directory(generation: 2) { $0.keys.remove(at: 0) }
    #expect(driver.explanation(World.teamKey, issuedAt: now) == .unknownKey(World.teamKey))
    driver.directory = World.directory(generation: 3) { $0.keys[0].team = World.otherTeam }
    #expect(
      driver.explanation(World.teamKey, issuedAt: now)
        == .keyOfOtherTeam(key: World.teamKey, owner: World.otherTeam, issuer: World.team))
    driver.directory = World.directory(generation: 4) { $0.keys[0].environments = .development }
    #expect(
      driver.explanation(World.teamKey, issuedAt: now)
        == .keyEnvironment(key: World.teamKey, listener: .production))
    #expect(
      driver.reexamine()
        == Refusal(.keyEnvironment(key: World.teamKey, listener: .production)))
    driver.directory = World.directory(generation: 5)
    #expect(driver.explanation(World.teamKey, issuedAt: now) == nil)
    #expect(driver.verifications == 1)
  }

  @Test("With another public key under the same id and index the token is verified again")
  func otherPublicKey() throws {
    var driver = try Driver()
    #expect(driver.explanation(World.teamKey, issuedAt: now) == nil)
    driver.directory = World.directory(generation: 2) { $0.keys[0].publicKey = 99 }
    #expect(
      driver.reexamine() == Refusal(.signature(key: World.teamKey, issuer: World.team)))
    #expect(driver.explanation(World.teamKey, issuedAt: now) == nil)
    #expect(driver.verifications == 2)
    // Valid with the new key.
    #expect(driver.reexamine() == nil)
    #expect(driver.explanation(World.teamKey, issuedAt: now) == nil)
    #expect(driver.verifications == 2)
  }

  @Test("The same public key at another index is the same key")
  func otherSlot() throws {
    var driver = try Driver()
    #expect(driver.explanation(World.teamKey, issuedAt: now) == nil)
    driver.directory = World.directory(generation: 2) { $0.keys[0].index = 99 }
    #expect(driver.reexamine() == nil)
    #expect(driver.explanation(World.teamKey, issuedAt: now) == nil)
    #expect(driver.verifications == 1)
  }

  @Test("A key narrowed to topics narrows what its cached token permits")
  func narrowed() throws {
    var driver = try Driver()
    var request = Request()
    request.set(.apnsTopic, "com.example.chat")
    request.claims = World.claims(World.secondApp)
    #expect(driver.reason(request) == nil)
    driver.directory = World.directory(generation: 2) { $0.keys[0].topics = [World.app] }
    #expect(driver.reason(request) == .topicDisallowed)
    #expect(driver.verifications == 1)
    #expect(driver.reason(Request()) == nil)
  }

  @Test("An app that moved to another team is inaccessible at once")
  func transferred() throws {
    var driver = try Driver()
    #expect(driver.reason(Request()) == nil)
    driver.directory = World.directory(generation: 2) {
      $0.apps[0].team = World.otherTeam
      $0.keys.removeSubrange(4...6)
    }
    #expect(driver.reason(Request()) == .topicDisallowed)
  }
}
