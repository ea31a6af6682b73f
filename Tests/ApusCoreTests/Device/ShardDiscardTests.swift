import ApusCore
import ApusModel
import Testing

/// A notification that must not be stored may end without ever becoming an object, by the same rules as one that does.
struct ShardDiscardTests {
  static let now: Int64 = 1_700_000_000_000
  static let topic = TopicKey(app: AppID(1))

  enum Case: CaseIterable {
    case enabled, paused, unlisted, ignored, unknownTopic, oldGeneration, dropped, baseToken
    case connected, retired, exhausted
  }

  /// Two equal ones, one for each way.
  func device(_ which: Case) -> Device {
    let state: TopicState =
      switch which {
      case .paused: .paused
      case .unlisted, .dropped: .unlisted
      case .ignored: .ignored
      default: .enabled
      }
    let since = which == .dropped ? Self.now - 100_000 : Self.now - 1000
    let registration = Registration(topics: [
      TopicRegistration(
        topic: Self.topic, generation: 2, state: state, wasListed: true,
        stateSinceMilliseconds: since, generationSinceMilliseconds: since)
    ])
    let device = Device(
      key: DeviceKey(id: DeviceID(7), environment: .production), registration: registration)
    if which == .retired { device.retiredMilliseconds = Self.now - 1 }
    if which == .exhausted {
      let limit = RateLimit(
        capacity: Limits.requestsPerToken, refill: Limits.requestsPerTokenPerSecond)
      while device.requests.take(limit, of: Self.topic, atMilliseconds: 5000) {}
    }
    return device
  }

  func claims(_ which: Case) -> TokenClaims {
    TokenClaims(
      device: DeviceID(7),
      topic: which == .unknownTopic ? TopicKey(app: AppID(9)) : Self.topic,
      environment: .production,
      generation: which == .oldGeneration ? 1 : which == .baseToken ? 0 : 2)
  }

  @Test(
    "Only notifications that end at once are discarded, with the same counts as when submitted",
    arguments: Case.allCases, [true, false])
  func same(which: Case, recordsEvents: Bool) {
    var submitting = shard(recordsEvents)
    var discarding = shard(recordsEvents)
    let (first, second) = (device(which), device(which))
    if which == .connected {
      submitting.connect(first, slot: 1)
      discarding.connect(second, slot: 1)
    }
    let notification = submitting.pool.takeNotification()
    notification.interface = .binary
    notification.claims = claims(which)
    notification.order = 77
    notification.id = NotificationID(high: 1, low: 2)
    notification.uniqueID = notification.id
    notification.token = DeviceToken(words: (3, 4, 5, 6))
    notification.priority = .powerSaving
    notification.isBackground = true
    let facts = notification.facts
    let verdict = submitting.decide(
      notification, answer: Answer(worker: 0, slot: 0, generation: 0), device: first,
      nowMilliseconds: Self.now, loopMilliseconds: 5000)
    let isDiscarded = discarding.discard(
      facts, claims: claims(which), device: second, nowMilliseconds: Self.now,
      loopMilliseconds: 5000)
    #expect(isDiscarded == [.enabled, .paused, .unlisted, .baseToken].contains(which))
    if isDiscarded {
      #expect(verdict?.rejection == nil && verdict != nil)
      #expect(submitting.verdicts.isEmpty)
      #expect(discarding.ledger.counters.snapshot() == submitting.ledger.counters.snapshot())
      #expect(discarding.ledger.counters.states == submitting.ledger.counters.states)
      #expect(discarding.ledger.counters.hasChanged)
      #expect(discarding.ledger.events == submitting.ledger.events)
      #expect(second.requests == first.requests)
    } else {
      #expect(discarding.ledger.counters.snapshot().isEmpty)
      #expect(discarding.ledger.events.isEmpty && discarding.deadTokens.isEmpty)
      #expect(second.requests == device(which).requests)
    }
    #expect(discarding.verdicts.isEmpty)
  }

  private func shard(_ recordsEvents: Bool) -> Shard {
    var shard = Shard(lingerMilliseconds: 20, unregisterGraceMilliseconds: 60_000)
    shard.ledger.recordsEvents = recordsEvents
    return shard
  }
}
