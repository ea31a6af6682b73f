import ApusCore
import ApusModel
import ApusRandom
import Testing

@Suite("Tokens that upstream declared dead")
struct DeadTokensTests {
  private let day: Int64 = 86_400

  private func token(_ number: UInt64, app: UInt32 = 1) -> RelayedToken {
    RelayedToken(
      app: AppID(app), environment: .production, digest: RelayDigest(high: 7, low: number))
  }

  @Test("A dead token is kept back for a day, from the first answer on")
  func oneDay() {
    var dead = DeadTokens()
    #expect(dead.sinceMilliseconds(of: token(1), nowSeconds: 1000) == nil)
    _ = dead.note(token(1), sinceMilliseconds: 5, notedSeconds: 1000)
    #expect(dead.sinceMilliseconds(of: token(1), nowSeconds: 1000) == 5)
    #expect(dead.sinceMilliseconds(of: token(1, app: 2), nowSeconds: 1000) == nil)
    // A second push was on its way.
    _ = dead.note(token(1), sinceMilliseconds: 6, notedSeconds: 2000)
    #expect(dead.sinceMilliseconds(of: token(1), nowSeconds: 1000 + day - 1) == 6)
    #expect(dead.sinceMilliseconds(of: token(1), nowSeconds: 1000 + day) == nil)
    // Upstream is asked again, and says the same.
    _ = dead.note(token(1), sinceMilliseconds: 6, notedSeconds: 1000 + day)
    #expect(dead.sinceMilliseconds(of: token(1), nowSeconds: 999 + 2 * day) == 6)
    #expect(dead.count == 1)
  }

  @Test("A clock that is set back by less than a day changes nothing, by more it ends the day")
  func clock() {
    var dead = DeadTokens()
    _ = dead.note(token(1), sinceMilliseconds: 5, notedSeconds: 1_000_000)
    #expect(dead.sinceMilliseconds(of: token(1), nowSeconds: 1_000_001 - day) == 5)
    #expect(dead.sinceMilliseconds(of: token(1), nowSeconds: 1_000_000 - day) == nil)
    _ = dead.note(token(2), sinceMilliseconds: 5, notedSeconds: -1)
    #expect(dead.sinceMilliseconds(of: token(2), nowSeconds: .max) == nil)
    #expect(dead.sinceMilliseconds(of: token(2), nowSeconds: .min) == nil)
  }

  @Test("The oldest makes room, and is named so that its row can be deleted")
  func bounded() {
    var dead = DeadTokens(capacity: 2)
    let displaced = (1...4).map { number in
      dead.note(token(number), sinceMilliseconds: 5, notedSeconds: Int64(number))
    }
    #expect(displaced == [nil, nil, token(1), token(2)])
    #expect(dead.count == 2)
    #expect(dead.sinceMilliseconds(of: token(1), nowSeconds: 4) == nil)
    #expect(dead.sinceMilliseconds(of: token(4), nowSeconds: 4) == 5)
  }

  @Test("Expired tokens are removed, the oldest first")
  func expiry() {
    var dead = DeadTokens()
    for number in 1...4 as ClosedRange<UInt64> {
      _ = dead.note(token(number), sinceMilliseconds: 5, notedSeconds: Int64(number))
    }
    let early = dead.removeExpired(nowSeconds: day)
    #expect(early == nil)
    var removed: [RelayedToken] = []
    while let token = dead.removeExpired(nowSeconds: 3 + day) { removed.append(token) }
    #expect(removed == [token(1), token(2), token(3)])
    #expect(dead.count == 1)
    _ = dead.note(token(1), sinceMilliseconds: 6, notedSeconds: 3 + day)
    #expect(dead.sinceMilliseconds(of: token(1), nowSeconds: 3 + day) == 6)
  }

  @Test(
    "Random tokens: the table says what a list of all answers says",
    arguments: 0..<40 as Range<UInt64>)
  func walk(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    let capacity = 1 + random.below(12)
    var dead = DeadTokens(capacity: capacity)
    var list: [(token: RelayedToken, since: Int64, noted: Int64)] = []
    var now: Int64 = 1_000_000
    for step in 0..<2000 {
      now += Int64(random.below(20_000))
      let one = token(UInt64(random.below(16)))
      var removed: [RelayedToken] = []
      while let token = dead.removeExpired(nowSeconds: now) { removed.append(token) }
      #expect(
        removed == list.filter { now - $0.noted >= day }.map(\.token), "seed \(seed), step \(step)")
      list.removeAll { now - $0.noted >= day }
      if random.chance(3, in: 4) {
        let displaced = dead.note(one, sinceMilliseconds: Int64(step), notedSeconds: now)
        var expected: RelayedToken?
        if let index = list.firstIndex(where: { $0.token == one }) {
          list[index].since = Int64(step)
        } else {
          if list.count == capacity { expected = list.removeFirst().token }
          list.append((one, Int64(step), now))
        }
        #expect(displaced == expected, "seed \(seed), step \(step)")
      }
      let since = list.first { $0.token == one && now - $0.noted < day }?.since
      #expect(
        dead.sinceMilliseconds(of: one, nowSeconds: now) == since, "seed \(seed), step \(step)")
      #expect(dead.count == list.count)
    }
  }
}
