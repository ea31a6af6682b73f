import ApusCore
import ApusModel
import Testing

@testable import ApusTesting

/// What providers were told, upstream received and the disk has, without a relay between them.
@Suite("What a simulation knows about the relay")
struct RelayOracleTests {
  private final class World {
    let timeline = Timeline()
    private(set) lazy var oracle = RelayOracle(
      timeline, wallMilliseconds: { [unowned self] in wallSeconds * 1000 },
      isUntroubled: { [unowned self] _, _ in isUntroubled },
      violated: { [unowned self] law, _ in violations.append(law) })
    private(set) var violations: [SimulationLaw] = []
    var isUntroubled = true
    var wallSeconds: Int64 = 1_000_000

    /// A notification with its own token, unless one is given.
    func push(
      _ provider: RelayedPush.Provider = .careful, token: Int? = nil, expiration: Int64? = nil
    ) -> Int {
      oracle.send(
        app: 0, token: token ?? oracle.pushes.count, by: provider, expirationSeconds: expiration)
    }

    func id(_ serial: Int, _ attempt: UInt64 = 0) -> NotificationID {
      NotificationID(high: attempt, low: UInt64(serial))
    }

    /// It goes upstream, arrives, and is answered.
    func pass(
      _ serial: Int, _ answer: UpstreamAnswer = .accepted(uniqueID: nil), attempt: UInt64 = 0
    ) {
      later()
      oracle.sends(id(serial, attempt), serial)
      oracle.received(id(serial, attempt), serial)
      oracle.answered(id(serial, attempt), serial, answer)
    }

    func later() { timeline.run(until: timeline.now + Timeline.second) { false } }

    /// The process ends with these rows and dead tokens on disk, and another one starts.
    func restart(_ rows: [NotificationID] = [], deadTokens: [Int: Int64] = [:]) {
      oracle.processEnded(Set(rows), deadTokens: deadTokens)
      oracle.generation += 1
    }

    /// The laws broken until the end.
    func finish(waiting: [Int] = []) -> [SimulationLaw] {
      oracle.finish(waiting: waiting)
      return violations
    }
  }

  private static let dead = UpstreamAnswer.rejected(
    UpstreamRejection(status: 410, reason: "Unregistered", timestampMilliseconds: 1))
  private static let bad = UpstreamAnswer.rejected(
    UpstreamRejection(status: 400, reason: "BadDeviceToken"))
  private static let busy = UpstreamAnswer.rejected(
    UpstreamRejection(status: 503, reason: "ServiceUnavailable"))

  private let world = World()

  // MARK: Arrival

  @Test("What was accepted must have been answered; what nobody was told of need not")
  func arrival() {
    let answered = world.push()
    world.pass(answered)
    world.oracle.accepted(answered)
    world.oracle.lost(world.push(), isWordLost: true)
    #expect(world.finish() == [])
    world.oracle.accepted(world.push())
    #expect(world.finish() == [.relayArrival])
  }

  @Test("After a resend, it is the recognition that has swallowed it")
  func swallowed() {
    let serial = world.push()
    world.oracle.resent(serial)
    world.oracle.accepted(serial)
    #expect(world.finish() == [.relayResends])
  }

  @Test(
    "It may end when it has expired, after an attempt with expiration 0, or when it is too old",
    arguments: [(1_000_100, 99, false), (1_000_100, 100, true), (nil, 86_400, true)]
      as [(Int64?, Int64, Bool)])
  func reasons(expiration: Int64?, after seconds: Int64, mayEnd: Bool) {
    world.oracle.accepted(world.push(expiration: expiration))
    world.wallSeconds += seconds
    #expect(world.finish() == (mayEnd ? [] : [.relayArrival]))
  }

  @Test("With expiration 0 it may end after an attempt, and not before", arguments: [true, false])
  func oneAttempt(isSent: Bool) {
    let serial = world.push(expiration: 0)
    world.oracle.accepted(serial)
    if isSent { world.pass(serial, Self.busy) }
    #expect(world.finish() == (isSent ? [] : [.relayArrival]))
  }

  @Test("It may end without an attempt if its token is known to be dead")
  func deadBefore() {
    let first = world.push(token: 1)
    world.pass(first, Self.dead)
    world.oracle.list(1)
    world.oracle.accepted(world.push(token: 1))
    #expect(world.finish() == [])
  }

  @Test(
    "A row must not go without an answer, unless its write has failed", arguments: [true, false])
  func row(isDoubtful: Bool) {
    let serial = world.push()
    world.oracle.stored([world.id(serial): serial], isDoubtful: false)
    world.oracle.stored([:], isDoubtful: isDoubtful)
    #expect(world.violations == (isDoubtful ? [] : [.relayArrival]))
  }

  @Test("What is left at the end is reported")
  func rest() {
    let serial = world.push()
    world.oracle.accepted(serial)
    #expect(world.finish(waiting: [serial]) == [.relayRest])
  }

  // MARK: Repetitions

  @Test(
    "It goes upstream again only after an answer that was lost or not final",
    arguments: [
      (.unknown(mayHaveArrived: true), []), (busy, []), (bad, []),
      (.accepted(uniqueID: nil), [.relayUniqueness, .relayUniqueness]),
      (.unknown(mayHaveArrived: false), [.relayUniqueness]),
    ] as [(UpstreamAnswer, [SimulationLaw])])
  func again(answer: UpstreamAnswer, violations: [SimulationLaw]) {
    let serial = world.push()
    world.pass(serial, answer)
    world.pass(serial)
    #expect(world.violations == violations)
  }

  @Test("While upstream is being asked it is not sent again")
  func twoAtOnce() {
    let serial = world.push()
    world.oracle.sends(world.id(serial), serial)
    world.oracle.sends(world.id(serial), serial)
    #expect(world.violations == [.relayUniqueness])
  }

  @Test("After a crash it goes again if its row was still there", arguments: [true, false])
  func crash(isOnDisk: Bool) {
    let serial = world.push()
    world.pass(serial)
    world.restart(isOnDisk ? [world.id(serial)] : [])
    world.pass(serial)
    #expect(world.violations == (isOnDisk ? [] : [.relayUniqueness]))
    #expect(world.oracle.repeatedCount == 1)
  }

  @Test("A resend under another id was not recognised, unless something went wrong")
  func resend() {
    let serial = world.push()
    world.pass(serial)
    world.isUntroubled = false
    world.pass(serial, attempt: 1)
    #expect(world.violations == [])
    world.isUntroubled = true
    world.pass(serial, attempt: 2)
    #expect(world.violations == [.relayResends])
  }

  // MARK: Tokens

  @Test(
    "A bad token is reported or listed",
    arguments: [
      (.careful, [.relayFeedback]), (.simple, [.relayFeedback]), (.deaf, []), (.request, []),
    ] as [(RelayedPush.Provider, [SimulationLaw])])
  func badToken(provider: RelayedPush.Provider, violations: [SimulationLaw]) {
    world.pass(world.push(provider), Self.bad)
    #expect(world.finish() == violations)
  }

  @Test("A sender that was told, or could not be, needs no list", arguments: [true, false])
  func told(isTold: Bool) {
    let serial = world.push()
    world.pass(serial, Self.bad)
    if isTold {
      world.oracle.told(serial, .invalidToken)
    } else {
      world.oracle.lost(serial, isWordLost: true)
    }
    #expect(world.finish() == [])
  }

  @Test("The feedback list is enough for everybody, and has no good token")
  func list() {
    for provider in RelayedPush.Provider.allCases {
      let serial = world.push(provider)
      world.oracle.accepted(serial)
      world.pass(serial, Self.bad)
      world.oracle.list(serial)
    }
    #expect(world.finish() == [])
    world.oracle.list(world.push())
    #expect(world.violations == [.relayFeedback])
  }

  @Test("A request that was accepted and kept is answered by the list", arguments: [true, false])
  func keptRequest(isKept: Bool) {
    let serial = world.push(.request)
    world.pass(serial, Self.busy)
    if isKept { world.oracle.accepted(serial) }
    world.pass(serial, Self.bad)
    #expect(world.finish() == (isKept ? [.relayFeedback] : []))
  }

  @Test("No sender is told that a good token is bad")
  func goodToken() {
    let serial = world.push()
    world.oracle.told(serial, .processingError)
    #expect(world.violations == [])
    world.oracle.told(serial, .invalidToken)
    #expect(world.violations == [.reasons])
  }

  @Test("A dead token must be in the list")
  func deadUnlisted() {
    world.pass(world.push(), Self.dead)
    #expect(world.finish() == [.relayFeedback])
  }

  @Test("What a crash has undone is not missed")
  func undone() {
    let serial = world.push(expiration: 1_000_100)
    world.pass(serial, Self.dead)
    world.restart([world.id(serial)])
    world.wallSeconds += 200
    #expect(world.finish() == [])
  }

  @Test(
    "For a dead token nothing goes upstream for a day",
    arguments: [(0, 1), (86_300, 1), (86_400, 0)])
  func deadToken(seconds: Int64, violations: Int) {
    world.pass(world.push(token: 7), Self.dead)
    world.wallSeconds += seconds
    world.oracle.clockMoved()
    world.pass(world.push(token: 7), Self.dead)
    #expect(world.violations == Array(repeating: .relayDeadTokens, count: violations))
  }

  @Test(
    "Also after a restart, if its row was on disk, and for a day from the time in it",
    arguments: [([7: 1_000_000], 1), ([7: 900_000], 0), ([:], 0)] as [([Int: Int64], Int)])
  func deadTokenAfterRestart(rows: [Int: Int64], violations: Int) {
    world.pass(world.push(token: 7), Self.dead)
    world.restart(deadTokens: rows)
    world.pass(world.push(token: 7), Self.dead)
    #expect(world.violations == Array(repeating: .relayDeadTokens, count: violations))
  }

  @Test("The first attempt of a request is its provider's, the next one is not")
  func deadTokenOfRequest() {
    world.pass(world.push(token: 7), Self.dead)
    let request = world.push(.request, token: 7)
    world.pass(request, Self.busy)
    #expect(world.violations == [])
    world.pass(request)
    #expect(world.violations == [.relayDeadTokens])
  }

  // MARK: The operator, the totals, and what is not from here

  @Test("Nothing goes upstream during a pause, which ends with the process")
  func pause() {
    world.oracle.paused(0, true)
    world.oracle.paused(0, false)
    world.pass(world.push())
    world.oracle.paused(0, true)
    world.restart()
    world.pass(world.push())
    #expect(world.violations == [])
    world.oracle.paused(0, true)
    world.pass(world.push())
    #expect(world.violations == [.relayPause])
  }

  @Test("Rows and totals must have the same sums")
  func totals() {
    let place = RelayOracle.Place(app: AppID(1), environment: .production)
    let sum = RelayOracle.Sum(count: 2, byteCount: 300)
    world.oracle.compare([place: sum], totals: [place: sum])
    #expect(world.violations == [])
    world.oracle.compare([place: sum], totals: [:])
    world.oracle.compare([:], totals: [place: sum])
    world.oracle.compare([place: sum], totals: [place: .init(count: 2, byteCount: 301)])
    #expect(world.violations == [.relayTotals, .relayTotals, .relayTotals])
  }

  @Test("What nobody sent must not go upstream, and nothing arrives that was not sent there")
  func unknown() {
    world.oracle.sends(world.id(0), 0)
    let serial = world.push()
    world.oracle.received(world.id(serial), serial)
    #expect(world.violations == [.addressee, .addressee])
  }
}
