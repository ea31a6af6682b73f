import ApusCore
import ApusModel
import Testing

struct RegistrationTests {
  let app = TopicKey(app: AppID(1))
  let voip = TopicKey(app: AppID(1), suffix: .voip)
  let other = TopicKey(app: AppID(2))

  func claims(_ topic: TopicKey, _ generation: UInt16) -> TokenClaims {
    TokenClaims(
      device: DeviceID(1), topic: topic, environment: .production, generation: generation)
  }

  func standing(
    _ registration: Registration, _ topic: TopicKey, _ generation: UInt16, at now: Int64
  ) -> Standing {
    registration.standing(
      of: claims(topic, generation), nowMilliseconds: now, graceMilliseconds: 100)
  }

  /// The app requests its token at 1 and lists its topic at 2. Returns the token's generation.
  func install(in registration: inout Registration) -> UInt16 {
    let generation = registration.generationForToken(
      of: app, nowMilliseconds: 1, graceMilliseconds: 100
    ).generation
    _ = registration.apply(lists: [app: .enabled], nowMilliseconds: 2, graceMilliseconds: 100)
    return generation
  }

  @Test("Each filter replaces all lists, and reports which topics it opens and closes")
  func filters() {
    var registration = Registration()
    var change = registration.apply(
      lists: [app: .enabled, voip: .paused], nowMilliseconds: 1, graceMilliseconds: 100)
    #expect(change.opened == [app] && change.closed == [] && !change.isEmpty)
    change = registration.apply(
      lists: [app: .enabled, voip: .paused], nowMilliseconds: 2, graceMilliseconds: 100)
    #expect(change.isEmpty && change.opened == [] && change.closed == [])
    #expect(registration[app]?.stateSinceMilliseconds == 1)
    change = registration.apply(
      lists: [voip: .nonWaking, other: .ignored], nowMilliseconds: 3, graceMilliseconds: 100)
    #expect(change.opened == [voip] && change.closed == [app])
    #expect(registration[app]?.state == .unlisted && registration[app]?.wasListed == true)
    #expect(registration[other]?.state == .ignored)
    change = registration.apply(
      lists: [:], nowMilliseconds: 4, graceMilliseconds: 100)
    #expect(change.opened == [] && change.closed == [voip] && !change.isEmpty)
  }

  @Test("New tokens begin with the first generation, and renewed ones do not fall below it")
  func firstGeneration() {
    var registration = Registration()
    func token(_ topic: TopicKey, first: UInt16, at now: Int64) -> UInt16 {
      registration.generationForToken(
        of: topic, nowMilliseconds: now, graceMilliseconds: 100, firstGeneration: first
      ).generation
    }
    #expect(token(app, first: 300, at: 1) == 300)
    #expect(token(app, first: 600, at: 2) == 300)
    // A topic that the device listed before it had a token.
    _ = registration.apply(lists: [voip: .enabled], nowMilliseconds: 3, graceMilliseconds: 100)
    #expect(token(voip, first: 300, at: 4) == 300)
    // One of a reinstalled app, whether it requests its token first or lists its topic first.
    for lists in [[:], [voip: TopicState.enabled]] {
      var other = registration
      _ = other.apply(lists: [:], nowMilliseconds: 5, graceMilliseconds: 100)
      _ = other.apply(
        lists: lists, nowMilliseconds: 200, graceMilliseconds: 100, firstGeneration: 600)
      let renewed = other.generationForToken(
        of: voip, nowMilliseconds: 201, graceMilliseconds: 100, firstGeneration: 600
      ).generation
      #expect(renewed == 600)
    }
  }

  @Test(
    "An app that lists its topic again after the grace is a new one, and its old token stays dead")
  func reinstalled() {
    var registration = Registration()
    let old = install(in: &registration)
    _ = registration.apply(lists: [:], nowMilliseconds: 3, graceMilliseconds: 100)
    var within = registration
    _ = within.apply(lists: [app: .enabled], nowMilliseconds: 102, graceMilliseconds: 100)
    #expect(standing(within, app, old, at: 200) == .active(.enabled))
    _ = registration.apply(lists: [app: .enabled], nowMilliseconds: 103, graceMilliseconds: 100)
    #expect(standing(registration, app, old, at: 200) == .dead(sinceMilliseconds: 3))
    let new = registration.generationForToken(
      of: app, nowMilliseconds: 201, graceMilliseconds: 100
    ).generation
    #expect(new != old)
    #expect(standing(registration, app, new, at: 202) == .active(.enabled))
  }

  @Test("An invalidated token stays dead at any time; only a dropped app's can be invalidated")
  func invalidated() {
    var registration = Registration()
    let old = install(in: &registration)
    var changes = [registration.invalidate(claims(app, old))]
    _ = registration.apply(lists: [:], nowMilliseconds: 3, graceMilliseconds: 100)
    for generation in [0, old + 1, old, old] {
      changes.append(registration.invalidate(claims(app, generation)))
    }
    #expect(changes == [false, false, false, true, false])
    for now: Int64 in [0, 50, 200] {
      #expect(standing(registration, app, old, at: now) == .dead(sinceMilliseconds: 3))
    }
    _ = registration.apply(lists: [app: .enabled], nowMilliseconds: 50, graceMilliseconds: 100)
    #expect(standing(registration, app, old, at: 60) == .dead(sinceMilliseconds: 3))
  }

  @Test("An app that asks within its grace keeps its token, even if its filter comes later")
  func backWithinGrace() {
    var registration = Registration()
    let token = install(in: &registration)
    _ = registration.apply(lists: [:], nowMilliseconds: 3, graceMilliseconds: 100)
    let again = registration.generationForToken(
      of: app, nowMilliseconds: 50, graceMilliseconds: 100)
    // It is recorded before the app gets the token.
    #expect(again == (token, true))
    #expect(standing(registration, app, token, at: 1000) == .active(.unlisted))
    _ = registration.apply(lists: [app: .enabled], nowMilliseconds: 1001, graceMilliseconds: 100)
    #expect(standing(registration, app, token, at: 1002) == .active(.enabled))
    // From then on it is like any other: dropped for longer than the grace, it is dead.
    _ = registration.apply(lists: [:], nowMilliseconds: 2000, graceMilliseconds: 100)
    #expect(standing(registration, app, token, at: 2100) == .dead(sinceMilliseconds: 2000))
  }

  @Test(
    "The state of a list decides whether its notifications are delivered",
    arguments: TopicState.allCases)
  func flows(state: TopicState) {
    #expect(state.flows == [.enabled, .nonWaking, .opportunistic].contains(state))
  }

  @Test("Any number of topics is found, whatever the order of arrival")
  func search() {
    let topics = (0..<200).flatMap { app in
      TopicSuffix.allCases.map { TopicKey(app: AppID(UInt32(app * 7919 % 211)), suffix: $0) }
    }
    var registration = Registration()
    for topic in topics {
      _ = registration.generationForToken(of: topic, nowMilliseconds: 1, graceMilliseconds: 1)
    }
    #expect(registration.topics.count == topics.count)
    #expect(topics.allSatisfy { registration[$0]?.topic == $0 })
    #expect(registration[TopicKey(app: AppID(500))] == nil)
    #expect(Registration(topics: registration.topics.reversed()) == registration)
  }

  @Test(
    "A topic that the device never had is unknown, whatever the generation", arguments: [0, 1, 9])
  func unknown(generation: UInt16) {
    #expect(standing(Registration(), app, generation, at: 0) == .unknown)
  }

  @Test("The same inputs give the same token for as long as the app is installed")
  func sameToken() {
    var registration = Registration()
    for now in [5, 6, 1_000_000] as [Int64] {
      let token = registration.generationForToken(
        of: app, nowMilliseconds: now, graceMilliseconds: 100)
      #expect(token.generation == 1)
      #expect(token.changed == (now == 5))
    }
    // Requested before a filter first lists it: it is not listed, but not removed either.
    #expect(standing(registration, app, 1, at: 1_000_000_000) == .active(.unlisted))
    #expect(standing(registration, app, 0, at: 1_000_000_000) == .active(.unlisted))
    #expect(standing(registration, app, 2, at: 7) == .dead(sinceMilliseconds: 5))
  }

  @Test("A dropped app is removed after the grace, and gets another token when reinstalled")
  func installedAnew() {
    var registration = Registration()
    _ = registration.apply(
      lists: [app: .enabled], nowMilliseconds: 1, graceMilliseconds: 100)
    #expect(
      registration.generationForToken(of: app, nowMilliseconds: 2, graceMilliseconds: 100) == (
        1, true
      ))
    _ = registration.apply(
      lists: [:], nowMilliseconds: 10, graceMilliseconds: 100)
    #expect(standing(registration, app, 1, at: 109) == .active(.unlisted))
    #expect(standing(registration, app, 1, at: 110) == .dead(sinceMilliseconds: 10))
    #expect(standing(registration, app, 0, at: 110) == .dead(sinceMilliseconds: 10))
    // Within the grace it is an update, which is recorded, and it keeps its token.
    var updated = registration
    #expect(
      updated.generationForToken(of: app, nowMilliseconds: 109, graceMilliseconds: 100)
        == (1, true))
    #expect(
      registration.generationForToken(of: app, nowMilliseconds: 110, graceMilliseconds: 100)
        == (2, true))
    #expect(standing(registration, app, 1, at: 500) == .dead(sinceMilliseconds: 10))
    #expect(standing(registration, app, 2, at: 500) == .active(.unlisted))
    _ = registration.apply(
      lists: [app: .nonWaking], nowMilliseconds: 600, graceMilliseconds: 100)
    #expect(standing(registration, app, 2, at: 601) == .active(.nonWaking))
    #expect(standing(registration, app, 1, at: 601) == .dead(sinceMilliseconds: 10))
  }

  @Test("Turning notifications off does not count as removing the app")
  func ignored() {
    var registration = Registration()
    _ = registration.apply(
      lists: [app: .ignored], nowMilliseconds: 1, graceMilliseconds: 100)
    #expect(standing(registration, app, 0, at: 1_000_000) == .active(.ignored))
  }

  @Test("Generation 1 follows 65535, because 0 is the base token")
  func wrap() {
    var registration = Registration(topics: [
      TopicRegistration(
        topic: app, generation: 65535, state: .unlisted, wasListed: true,
        stateSinceMilliseconds: 0, generationSinceMilliseconds: 0)
    ])
    #expect(
      registration.generationForToken(of: app, nowMilliseconds: 500, graceMilliseconds: 100)
        == (1, true))
  }
}
