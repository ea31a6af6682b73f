import ApusClient
import ApusCore
import ApusLog
import ApusLoop
import ApusModel
import ApusServer
import ApusStore

// What is sent upstream, and what is answered.

/// How a lane's notifications leave: through the client of its topic's upstream.
final class LaneExit {
  unowned let lane: SpoolLane
  let account: UpstreamAccount
  let sends: RelayedSends

  init(_ lane: SpoolLane, _ account: UpstreamAccount, _ sends: RelayedSends) {
    self.lane = lane
    self.account = account
    self.sends = sends
  }
}

extension Spool {
  /// Does what a lane wants done.
  func work(_ lane: SpoolLane, _ now: UInt64) {
    let wall = loop.wallMilliseconds
    var isExitKnown = false
    while true {
      switch lane.machine.next(nowMilliseconds: now) {
      case .send(let order):
        if let spooled = lane.contents[order] { send(spooled, lane, now, wall, &isExitKnown) }
      case .read(let after, let count): read(lane, after: after, count: count)
      case .wait(let until):
        if let until { dueMilliseconds = min(dueMilliseconds, until) }
        lane.exit?.sends.flush()
        return
      }
    }
  }

  private func send(
    _ spooled: SpooledNotification, _ lane: SpoolLane, _ now: UInt64, _ wallMilliseconds: Int64,
    _ isExitKnown: inout Bool
  ) {
    let end =
      isDead(spooled)
      ? .withheld
      : spooled.end(nowMilliseconds: wallMilliseconds, ageSeconds: limits.ageSeconds)
    if let end {
      _ = lane.machine.answered(spooled.order, nil, nowMilliseconds: now, entropy: 0)
      return self.end(spooled, lane, end)
    }
    if spooled.mayHaveArrived { lane.ended.repeated += 1 }
    rows.record(.sentUpstream, spooled)
    spooled.sentMilliseconds = now
    if let simulation { return send(spooled, lane, simulation) }
    if !isExitKnown {
      isExitKnown = true
      lane.exit = exit(of: lane)
    }
    let isPut = lane.exit?.sends.put(
      spooled.notification, tag: spooled.order, nowMilliseconds: now)
    if isPut == true { return }
    _ = answers.send(
      Answered(
        topic: lane.topic, order: spooled.order, answer: .unknown(mayHaveArrived: false)))
  }

  private func send(
    _ spooled: SpooledNotification, _ lane: SpoolLane, _ simulation: RelaySimulation
  ) {
    simulation.sending(spooled.notification) {
      [answers, topic = lane.topic, order = spooled.order] answer in
      _ = answers.send(Answered(topic: topic, order: order, answer: answer))
    }
  }

  /// How the lane's notifications leave now; nil if its topic has no upstream.
  private func exit(of lane: SpoolLane) -> LaneExit? {
    let route = relay.route(lane.topic)
    if let exit = lane.exit {
      if let route, exit.sends.go(through: route.client, to: route.bundleID) { return exit }
      forgetIfIdle(exit)
    }
    guard let route else { return nil }
    let sends = RelayedSends(
      route.client, to: route.bundleID, capacity: Limits.relayWindow
    ) { [answered] in _ = answered.send($0) }
    let exit = LaneExit(lane, route.account, sends)
    exits[ObjectIdentifier(sends)] = exit
    return exit
  }

  /// Releases the memory of a lane's exit while the lane is idle.
  func releaseExit(of lane: SpoolLane) {
    guard let exit = lane.exit, lane.contents.isEmpty else { return }
    lane.exit = nil
    forgetIfIdle(exit)
  }

  /// Drops an exit that its lane does not use any more, once everything that left by it is answered.
  private func forgetIfIdle(_ exit: LaneExit) {
    if exit.sends.openCount == 0 { exits[ObjectIdentifier(exit.sends)] = nil }
  }

  /// Whether upstream has declared its token dead within a day; asking again would not help its reputation.
  private func isDead(_ spooled: SpooledNotification) -> Bool {
    guard deadTokens.count > 0 else { return false }
    let token = RelayedToken(spooled.notification)
    return deadTokens.sinceMilliseconds(of: token, nowSeconds: loop.wallMilliseconds / 1000) != nil
  }

  private func read(_ lane: SpoolLane, after order: UInt64, count: Int) {
    do throws(StoreError) {
      let found = try rows.read(lane.topic, after: order, count: count)
      for spooled in found {
        remember(spooled, lane)
        guard spooled.order < startOrder else { continue }
        spooled.mayHaveArrived = true
        spooled.answer = nil
      }
      lane.machine.read(found.map(\.order), isEnd: found.count < count)
    } catch {
      // The lane asks again, a little later.
      lane.machine.readFailed(nowMilliseconds: loop.nowMilliseconds)
      log.limited(.error, .notificationUnreadable, atMilliseconds: loop.nowMilliseconds) {
        [.text("reason", "\(error)")]
      }
    }
  }

  // MARK: Answers

  func takeAnswers(_ sends: RelayedSends) {
    guard let exit = exits[ObjectIdentifier(sends)] else { return }
    let lane = exit.lane
    sends.takeAnswers { order, answer in
      guard let spooled = lane.contents[order] else { return }
      let passed = loop.nowMilliseconds - (spooled.sentMilliseconds ?? loop.nowMilliseconds)
      relay.note(answer, lane.topic, exit.account, afterMilliseconds: passed)
      take(answer, of: spooled, lane)
    }
    if lane.exit !== exit { forgetIfIdle(exit) }
  }

  func take(_ answered: Answered) {
    guard let lane = knownLane(answered.topic), let spooled = lane.contents[answered.order] else {
      return
    }
    take(answered.answer, of: spooled, lane)
  }

  private func take(_ answer: UpstreamAnswer, of spooled: SpooledNotification, _ lane: SpoolLane) {
    due(lane)
    let verdict = UpstreamVerdict(answer)
    let cause = UpstreamCause(answer)
    let ending = lane.machine.answered(
      spooled.order, verdict, nowMilliseconds: loop.nowMilliseconds, entropy: entropy())
    guard ending == .finished else {
      rows.record(.deferredUpstream, causeCode: cause?.code ?? 0, spooled)
      if case .again(mayDuplicate: true) = verdict { spooled.mayHaveArrived = true }
      return
    }
    conclude(spooled, lane, verdict, cause ?? .otherReason)
  }
}
