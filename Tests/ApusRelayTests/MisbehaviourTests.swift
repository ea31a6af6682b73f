import ApusCore
import ApusLoop
import ApusModel
import ApusRelay
import ApusTesting
import Synchronization
import Testing

@testable import ApusServer

@Suite("Whatever upstream sends, at any moment, everything in the spool gets one final answer")
struct MisbehaviourTests {
  /// Some of the cases at a moment, with a gateway of their own.
  private struct Share {
    var moment: Misbehaviour.Moment
    var cases: [Misbehaviour]

    /// Clients pause after connections without an answer: then more of them take part.
    static let all = Misbehaviour.Moment.allCases.flatMap { moment in
      let count = moment.isOpening ? 6 : 1
      return (0..<count).map { index in
        let chosen = Misbehaviour.all.indices.filter { $0 % count == index }
        return Share(moment: moment, cases: chosen.map { Misbehaviour.all[$0] })
      }
    }
  }

  @Test("One frame that is wrong, at each moment")
  func all() async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      for share in Share.all { group.addTask { try await Self.run(share) } }
      try await group.waitForAll()
    }
  }

  private static func run(_ share: Share) async throws {
    let world = try MisbehavingWorld()
    for misbehaviour in share.cases {
      do {
        let faults = try await world.run(misbehaviour, share.moment)
        #expect(faults.isEmpty, "\(misbehaviour), \(share.moment)")
      } catch {
        // Nothing can be said about the cases that follow.
        Issue.record(error, "\(misbehaviour), \(share.moment)")
        return
      }
    }
    #expect(world.endings.expired == 0)
    // Only an upstream that breaks its promises gets a notification twice.
    #expect(world.endings.repeated > 0 || !share.moment.isOpen)
  }
}

private final class KeptCount: Sendable {
  let count = Atomic(0)
}

/// A gateway whose upstream misbehaves once for each case.
private final class MisbehavingWorld {
  private let bench: RelayBench
  private let upstream: MisbehavingUpstream
  private var sentCount: UInt64 = 0

  init() throws {
    bench = try RelayBench()
    upstream = try MisbehavingUpstream()
    try bench.turn(to: upstream)
  }

  /// Of all cases so far.
  var endings: RelayEndings {
    bench.figures().reduce(into: RelayEndings()) { sum, figures in
      sum.accepted += figures.ended.accepted
      sum.rejected += figures.ended.rejected
      sum.dead += figures.ended.dead
      sum.expired += figures.ended.expired
      sum.repeated += figures.ended.repeated
    }
  }

  /// What is wrong, in words.
  func run(
    _ misbehaviour: Misbehaviour, _ moment: Misbehaviour.Moment
  ) async throws -> [String] {
    let before = endings
    var ids: [String] = []
    if moment.isOpening {
      try await upstream.renew(misbehaviour, moment)
    } else {
      ids += try await send(1)
      try await drain()
      try await upstream.prepare(misbehaviour, moment)
    }
    ids += try await send(2)
    if moment == .idle {
      try await drain()
      try await upstream.misbehave()
    }
    try await drain()
    return faults(misbehaviour.effect(at: moment), ids, since: before)
  }

  /// Sends everything that waits at once, until nothing is left.
  private func drain() async throws {
    try await eventually {
      bench.relay.obey(.flush, AppID(1))
      return bench.figures().allSatisfy { $0.count == 0 }
    }
  }

  /// Gives the relay notifications, and waits until it keeps them; returns their ids.
  private func send(_ count: Int) async throws -> [String] {
    let kept = KeptCount()
    let ids = try (0..<count).map { _ in
      sentCount += 1
      let id = NotificationID(high: 0x4170_7573, low: sentCount)
      let notification = RelayedNotification(
        id: id, topic: TopicKey(app: AppID(1), suffix: .none), environment: .production,
        token: bigEndian(sentCount) + [UInt8](repeating: 0xaa, count: 24),
        payload: TestService.payload)
      let isTaken = bench.relay.keep(
        KeptNotification(
          notification: notification, acceptedMilliseconds: EventLoop.wallClockMilliseconds(),
          waiter: .request { isKept in if isKept { kept.count.add(1, ordering: .relaxed) } }))
      guard isTaken else { throw RawFault.unexpected("the relay takes nothing") }
      return id.text.lowercased()
    }
    try await eventually { kept.count.load(ordering: .relaxed) == count }
    return ids
  }

  private func faults(
    _ effect: Misbehaviour.Effect, _ ids: [String], since before: RelayEndings
  ) -> [String] {
    var faults: [String] = []
    let now = endings
    let (rejected, dead) = (now.rejected - before.rejected, now.dead - before.dead)
    let accepted = now.accepted - before.accepted
    // Other rejections are the gateway's business, or concern the moment.
    let isRejected = effect == .rejected(status: 400)
    let isDead = effect == .rejected(status: 410)
    if rejected != (isRejected ? 1 : 0) { faults.append("\(rejected) were rejected") }
    if dead != (isDead ? 1 : 0) { faults.append("\(dead) had dead tokens") }
    if accepted + rejected + dead != UInt64(ids.count) {
      faults.append("\(accepted) of \(ids.count) were accepted")
    }
    let again = ids.reduce(0) { $0 + max(0, upstream.arrivals($1) - 1) }
    let counted = now.repeated - before.repeated
    if again > Int(counted) { faults.append("\(again) arrived again, and \(counted) are counted") }
    return faults
  }
}
