import ApusLease
import ApusModel
import ApusRandom

/// A process of a node: it searches for a lease, takes over, and serves until another one has.
///
/// Times are those of its own clock.
struct LeaseProcess {
  enum Purpose {
    /// One step after the other, until it serves.
    case opening
    case renewal(sentMilliseconds: UInt64)
    case write
  }

  private enum Stage {
    case pausing(untilMilliseconds: UInt64)
    case looking(Int)
    /// To the database of a part; and whether its connections must be counted then.
    case connecting(Int, counted: Lease?)
    case counting(Int)
    case claiming(Int, sinceMilliseconds: UInt64)
    case fencing
    case terminating
    case reading
    /// And whether the part is left out because of what happened.
    case givingBack(leavesOut: Bool)
    case serving
    case ended
  }

  let client: LeaseClient
  private let partCount: Int
  /// The parts that have a database of their own, and those with a connection to it.
  private let apart: Set<Int>
  private var connected: Set<Int> = []
  private var attempts: DatabaseAttempts
  /// When it last asked something, until it served.
  private var askedMilliseconds: UInt64
  private let canary: LeaseCanary?
  private var random: SeededRandom
  private var search: LeaseSearch
  private var stage: Stage
  private(set) var part = 0
  private var incarnation: Int64 = 0
  private var validUntilMilliseconds: UInt64 = 0
  private var isRenewing = false
  private var isWriting = false
  private var renewalMilliseconds: UInt64 = 0
  private var writeMilliseconds: UInt64 = 0
  /// What it asks of the database.
  var outbox: [(statement: LeaseStatement, purpose: Purpose)] = []

  static let rules = LeaseRules(
    stillMilliseconds: Int64(Limits.leaseMilliseconds), absenceMilliseconds: 2500)
  private static let pollMilliseconds: UInt64 = 250
  private static let renewMilliseconds: UInt64 = 1000
  private static let retryMilliseconds: UInt64 = 100

  init(
    _ client: LeaseClient, parts: Int, apart: Set<Int>, canary: LeaseCanary?, random: SeededRandom,
    nowMilliseconds: UInt64
  ) {
    self.client = client
    partCount = parts
    self.apart = apart
    self.canary = canary
    self.random = random
    search = Self.search(client, parts, canary)
    attempts = DatabaseAttempts(count: parts)
    askedMilliseconds = nowMilliseconds
    stage = .pausing(untilMilliseconds: nowMilliseconds)
  }

  private static func search(
    _ client: LeaseClient, _ parts: Int, _ canary: LeaseCanary?
  ) -> LeaseSearch {
    LeaseSearch(
      node: canary == .forgetsItsName ? "nobody" : client.node, standsBy: true, count: parts, rules)
  }

  var isServing: Bool { if case .serving = stage { true } else { false } }
  var hasEnded: Bool { if case .ended = stage { true } else { false } }

  /// Whether it answers by what it remembers of its part.
  func mayDecide(nowMilliseconds: UInt64) -> Bool {
    guard case .serving = stage else { return false }
    return canary == .ignoresLapse || nowMilliseconds < validUntilMilliseconds
  }

  /// Its turn.
  mutating func drive(nowMilliseconds now: UInt64) {
    switch stage {
    case .pausing(let until) where now >= until:
      if canary == .forgetsLooks { search = Self.search(client, partCount, canary) }
      look(0, now)
    case .serving:
      if !isRenewing, now >= renewalMilliseconds {
        isRenewing = true
        outbox.append((.renew(part: part, incarnation), .renewal(sentMilliseconds: now)))
      }
      if !isWriting, now >= writeMilliseconds {
        isWriting = true
        outbox.append((.write(part: part, incarnation), .write))
      }
    default: break
    }
  }

  /// An operator drains the node.
  mutating func drain() {
    guard case .serving = stage else { return }
    outbox.append((.release(part: part, incarnation), .opening))
    stage = .ended
  }

  mutating func take(_ answer: LeaseAnswer, _ purpose: Purpose, nowMilliseconds now: UInt64) {
    switch purpose {
    case .opening: advance(answer, now)
    case .renewal(let sent): renewed(answer, sent, now)
    case .write:
      isWriting = false
      writeMilliseconds = now + random.between(20, 200)
      if case .refused = answer { stage = .ended }
    }
  }

  private mutating func renewed(_ answer: LeaseAnswer, _ sent: UInt64, _ now: UInt64) {
    isRenewing = false
    renewalMilliseconds = now + Self.retryMilliseconds
    switch answer {
    case .done:
      let begin = canary == .countsFromConfirmation ? now : sent
      validUntilMilliseconds = begin + Self.rules.validMilliseconds
      renewalMilliseconds = sent + Self.renewMilliseconds
    case .refused: stage = .ended
    default: break
    }
  }

  // MARK: Taking over

  private mutating func ask(_ statement: LeaseStatement, _ now: UInt64) {
    askedMilliseconds = now
    outbox.append((statement, .opening))
  }

  private mutating func look(_ place: Int, _ now: UInt64) {
    stage = .looking(place)
    ask(.look(part: place), now)
  }

  private mutating func advance(_ answer: LeaseAnswer, _ now: UInt64) {
    switch (stage, answer) {
    case (.ended, _), (.serving, _): break
    case (.looking(let place), .lease(let lease)):
      let isAsked = search.see(lease, at: place, nowMilliseconds: Int64(now))
      reach(place, counting: isAsked ? lease : nil, now)
    case (.connecting(let place, let lease), .done):
      connected.insert(place)
      attempts.reached(place)
      reach(place, counting: lease, now)
    case (.connecting(let place, _), .lost) where mayLack(place): leaveOut(place, now)
    case (.counting(let place), .lost) where mayLack(place): leaveOut(place, now)
    case (.counting(let place), .count(let count)):
      if count == 0 { search.isGone(at: place) }
      next(place, now)
    case (.claiming(let place, let since), .claimed(let claimed)):
      guard let claimed else { return pause(now + Self.pollMilliseconds) }
      (part, incarnation) = (place, claimed)
      validUntilMilliseconds = since + Self.rules.validMilliseconds
      if canary == .readsBeforeFence { return read(now) }
      fence(now)
    case (.fencing, .blocked):
      stage = .terminating
      ask(.terminate(part: part), now)
    case (.terminating, .done): fence(now)
    case (.fencing, .done):
      if canary == .readsBeforeFence { return serve(now) }
      read(now)
    case (.reading, .done):
      if canary == .readsBeforeFence { return fence(now) }
      serve(now)
    case (.fencing, .lost) where mayLack(part), (.terminating, .lost) where mayLack(part),
      (.reading, .lost) where mayLack(part):
      outbox.append((.release(part: part, incarnation), .opening))
      stage = .givingBack(leavesOut: true)
    case (.givingBack(let leavesOut), .done):
      guard leavesOut else { return pause(now + Self.pollMilliseconds) }
      leaveOut(part, now, goesOn: false)
    default:
      // It begins anew, and knows nothing any more of what it saw.
      search = Self.search(client, partCount, canary)
      (connected, attempts) = ([], DatabaseAttempts(count: partCount))
      pause(now + Self.retryMilliseconds)
    }
  }

  /// Whether the process goes on without the database of the part.
  private func mayLack(_ place: Int) -> Bool {
    apart.contains(place) && canary != .needsAllDatabases
  }

  /// Goes on with a place whose lease was seen, once there is a connection to the database of its part.
  private mutating func reach(_ place: Int, counting lease: Lease?, _ now: UInt64) {
    if apart.contains(place), !connected.contains(place) {
      let mayTry = attempts.mayTry(place, nowMilliseconds: Int64(now))
      guard mayTry || canary == .triesWithoutPause else {
        if canary != .takesWhatIsAway { search.isAway(at: place) }
        return next(place, now)
      }
      stage = .connecting(place, counted: lease)
      return ask(.connect(part: place), now)
    }
    guard let lease else { return next(place, now) }
    stage = .counting(place)
    ask(.count(part: place, lease), now)
  }

  private mutating func leaveOut(_ place: Int, _ now: UInt64, goesOn: Bool = true) {
    connected.remove(place)
    _ = attempts.failed(
      place, fromMilliseconds: Int64(askedMilliseconds), nowMilliseconds: Int64(now))
    guard goesOn else { return self.pause(now + Self.pollMilliseconds) }
    if canary != .takesWhatIsAway { search.isAway(at: place) }
    next(place, now)
  }

  private mutating func pause(_ until: UInt64) { stage = .pausing(untilMilliseconds: until) }

  private mutating func next(_ place: Int, _ now: UInt64) {
    guard place + 1 == partCount else { return look(place + 1, now) }
    switch search.decide(mayTake: true) {
    case .take(let place, let seen):
      stage = .claiming(place, sinceMilliseconds: now)
      ask(.claim(part: place, seen: seen), now)
    case .giveBack(let place, let seen):
      stage = .givingBack(leavesOut: false)
      ask(.release(part: place, seen.incarnation), now)
    case .wait, .refused: pause(now + Self.pollMilliseconds)
    }
  }

  private mutating func fence(_ now: UInt64) {
    stage = .fencing
    ask(.lane(part: part, incarnation), now)
  }

  private mutating func read(_ now: UInt64) {
    stage = .reading
    ask(.read(part: part, incarnation), now)
  }

  private mutating func serve(_ now: UInt64) {
    stage = .serving
    renewalMilliseconds = now
    writeMilliseconds = now
  }
}
