import ApusCore
import ApusModel
import ApusRandom

/// The service upstream together with the client that sends to it: it answers late and in any order, rejects for every
/// reason, loses answers, and is not there for a while.
final class SimulatedUpstream: @unchecked Sendable {
  /// What is wrong with an app's notifications.
  enum Trouble: Int, CaseIterable {
    case none
    /// It takes nothing now.
    case busy
    /// It rejects the gateway's credential.
    case misconfigured
    /// It takes every token for bad.
    case doubtful
  }

  enum Reach: Int, CaseIterable {
    case reachable
    /// Nobody can connect.
    case unreachable
    /// It takes requests, some of them, and answers none.
    case silent
  }

  /// Of a token that it issued.
  enum Condition: Equatable {
    case good, bad
    case dead(sinceMilliseconds: Int64)
  }

  private final class Call {
    let notification: RelayedNotification
    let serial: Int
    var done: (@Sendable (UpstreamAnswer) -> Void)?
    var hasArrived = false
    /// It will not arrive any more.
    var isLost = false

    init(
      _ notification: RelayedNotification, _ serial: Int,
      _ done: @escaping @Sendable (UpstreamAnswer) -> Void
    ) {
      (self.notification, self.serial, self.done) = (notification, serial, done)
    }
  }

  private unowned let world: Simulation
  private let oracle: RelayOracle
  private var random: SeededRandom
  private var open: [Call] = []
  var conditions: [Condition] = []
  var troubles = Array(repeating: Trouble.none, count: SimulationCredentials.relayedAppCount)
  var reach = Reach.reachable
  /// The most microseconds for a request, and for its answer.
  var pace: UInt64 = 50_000
  /// One answer in so many is lost; 0 for none.
  var losesOneIn = 0

  init(_ world: Simulation, _ oracle: RelayOracle, random: SeededRandom) {
    self.world = world
    self.oracle = oracle
    self.random = random
  }

  func entropy() -> UInt64 { UInt64(random.below(1000)) }

  // MARK: The client

  func send(
    _ notification: RelayedNotification, _ done: @escaping @Sendable (UpstreamAnswer) -> Void
  ) {
    let serial = SimulationPayload.serial(of: notification.payload.span) ?? -1
    oracle.sends(notification.id, serial)
    world.trace("sent upstream", serial)
    if world.options.canary == .claimsSent, random.chance(1, in: 20) {
      return world.timeline.after(1000) { done(.accepted(uniqueID: nil)) }
    }
    let call = Call(notification, serial, done)
    open.append(call)
    if reach == .unreachable {
      call.isLost = true
      return later(3_000_000) { $0.end(call, .unknown(mayHaveArrived: false)) }
    }
    later(pace) { $0.arrive(call) }
    if world.options.canary == .repeatsUpstream, random.chance(1, in: 10) {
      later(4 * pace) { $0.arrive(call) }
    }
    world.timeline.after(UInt64(Limits.relayAnswerSeconds) * Timeline.second) { [weak self] in
      self?.end(call, .unknown(mayHaveArrived: true))
    }
  }

  private func later(_ most: UInt64, _ action: @escaping (SimulatedUpstream) -> Void) {
    world.timeline.after(random.between(1, most)) { [weak self] in
      if let self { action(self) }
    }
  }

  private func end(_ call: Call, _ answer: UpstreamAnswer) {
    guard let done = call.done else { return }
    call.done = nil
    open.removeAll { $0 === call }
    oracle.answered(call.notification.id, call.serial, answer)
    if world.options.canary == .missesDead, case .dead = UpstreamVerdict(answer) {
      return done(.accepted(uniqueID: nil))
    }
    done(answer)
  }

  /// The service's process has ended, and its connections with it.
  func clientGone() {
    for call in open {
      call.done = nil
      call.isLost = call.isLost || random.chance(1, in: 2)
    }
    open = []
  }

  /// Every connection ends: with GOAWAY, which tells what was not looked at, or without.
  func cut(isGoAway: Bool) {
    world.trace("upstream cut", isGoAway ? 1 : 0, open.count)
    for call in open {
      if isGoAway, call.hasArrived {
        if random.chance(1, in: 2) { end(call, .unknown(mayHaveArrived: true)) }
      } else {
        call.isLost = call.isLost || isGoAway || random.chance(1, in: 2)
        end(call, .unknown(mayHaveArrived: !isGoAway))
      }
    }
  }

  // MARK: The service

  private func arrive(_ call: Call) {
    guard !call.isLost, reach != .silent || random.chance(1, in: 2) else {
      call.isLost = true
      return
    }
    call.hasArrived = true
    let answer = decide(call)
    world.trace("arrived upstream", call.serial, Int(answer.status))
    oracle.received(call.notification.id, call.serial)
    guard reach != .silent else { return }
    if losesOneIn > 0, random.chance(1, in: losesOneIn) {
      return later(pace) { $0.end(call, .unknown(mayHaveArrived: true)) }
    }
    later(pace) { $0.end(call, answer) }
  }

  private func decide(_ call: Call) -> UpstreamAnswer {
    guard oracle.pushes.indices.contains(call.serial) else { return .accepted(uniqueID: nil) }
    let push = oracle.pushes[call.serial]
    switch troubles[push.app] {
    case .busy: return busy()
    case .misconfigured: return misconfigured()
    case .doubtful: return badToken()
    case .none: break
    }
    if !world.isCalm, random.chance(1, in: 60) { return busy() }
    if let status = push.fault { return refuse(status) }
    switch conditions[push.token] {
    case .good: return .accepted(uniqueID: nil)
    case .bad: return badToken()
    case .dead(let since):
      // A proxy, or a later version of the interface, may leave the time out.
      let time = random.chance(1, in: 8) ? nil : since
      return rejected(
        random.pick([.unregistered, .expiredToken, nil]), status: 410, timestampMilliseconds: time)
    }
  }

  private func badToken() -> UpstreamAnswer {
    rejected(random.pick([.badDeviceToken, .deviceTokenNotForTopic]))
  }

  private func busy() -> UpstreamAnswer {
    let seconds = random.chance(1, in: 2) ? random.below(20) : nil
    return switch random.below(8) {
    case 0: rejected(.tooManyRequests, retryAfterSeconds: seconds)
    case 1: rejected(.tooManyProviderTokenUpdates, retryAfterSeconds: seconds)
    case 2: rejected(.internalServerError)
    case 3: rejected(.shutdown)
    case 4: rejected(.idleTimeout)
    case 5: rejected(nil, status: 502, retryAfterSeconds: seconds)
    default: rejected(.serviceUnavailable, retryAfterSeconds: seconds)
    }
  }

  private func misconfigured() -> UpstreamAnswer {
    let reasons: [Reason?] = [
      .expiredProviderToken, .badCertificateEnvironment, .topicDisallowed, .badPath,
      .invalidProviderToken, nil,
    ]
    return rejected(random.pick(reasons), status: 401)
  }

  private func refuse(_ status: BinaryStatus) -> UpstreamAnswer {
    switch status {
    case .missingPayload: rejected(.payloadEmpty)
    case .invalidPayloadSize: rejected(random.pick([.payloadTooLarge, nil]), status: 413)
    default:
      rejected(random.pick([.badExpirationDate, .badPriority, .invalidPushType, nil]), status: 400)
    }
  }

  /// - Parameter status: Of a rejection without a reason.
  private func rejected(
    _ reason: Reason?, status: UInt16 = 500, timestampMilliseconds: Int64? = nil,
    retryAfterSeconds: Int? = nil
  ) -> UpstreamAnswer {
    .rejected(
      UpstreamRejection(
        status: reason?.status ?? status, reason: reason.map { "\($0)" } ?? "",
        timestampMilliseconds: timestampMilliseconds, retryAfterSeconds: retryAfterSeconds))
  }
}

extension UpstreamAnswer {
  fileprivate var status: UInt16 {
    if case .rejected(let rejection) = self { rejection.status } else { 200 }
  }
}
