import ApusModel
import Testing

@testable import ApusCore

/// The bounds of a session whose device acknowledges nothing.
struct BacklogTests {
  private let device = Device(
    key: DeviceKey(id: DeviceID(1), environment: .production), registration: Registration())
  private let interval = Limits.heldBackMilliseconds

  private func delivery(_ interface: ProviderInterface, order: UInt64 = 0) -> Delivery {
    let notification = Notification()
    notification.interface = interface
    notification.order = order
    notification.expirationSeconds = 1
    return Delivery(notification: notification, device: device)
  }

  private func offer(
    _ session: inout DeviceSession, _ interface: ProviderInterface, at now: UInt64,
    count: Int = 1
  ) -> DeviceSession.Offer {
    var last = DeviceSession.Offer.queued
    for _ in 0..<count {
      last = session.offer(delivery(interface), state: .enabled, nowMilliseconds: now)
    }
    return last
  }

  /// How the wait of a notification ends.
  private enum Outcome: Equatable {
    case entered(DeviceSession.Offer)
    case refused(Reason)
  }

  /// Nil if no wait is over.
  private func overdue(_ session: inout DeviceSession, at now: UInt64) -> Outcome? {
    guard let (delivery, refusal) = session.takeOverdue(nowMilliseconds: now) else { return nil }
    if let refusal { return .refused(refusal) }
    return .entered(session.offerHeldBack(delivery, state: .enabled, nowMilliseconds: now))
  }

  /// A session whose crowded queue is full at 1000 ms plus the time after which its device counts as stalled.
  private func crowd() -> (session: DeviceSession, now: UInt64) {
    var session = DeviceSession()
    let room = Limits.courierQueueFrames
    #expect(offer(&session, .http2, at: 1000, count: room) == .queued)
    let now = 1000 + Limits.courierStallMilliseconds
    let rest = Limits.courierCrowdedFrames - room
    #expect(offer(&session, .binary, at: now, count: rest) == .queued)
    return (session, now)
  }

  @Test("Frames that find the crowded queue full wait until the device counts as unresponsive")
  func crowded() {
    var (session, now) = crowd()
    #expect(offer(&session, .http2, at: now) == .refused(.tooManyRequests))
    #expect(offer(&session, .binary, at: now, count: 2) == .heldBack)
    let end = 1000 + Limits.courierUnresponsiveMilliseconds
    #expect(session.deadlineMilliseconds == end)
    #expect(overdue(&session, at: end - 1) == nil)
    #expect(!session.needsDrain)
    #expect(overdue(&session, at: end) == .entered(.overflow))
    #expect(overdue(&session, at: end) == .entered(.overflow))
    #expect(session.needsDrain)
    #expect(offer(&session, .binary, at: end) == .overflow)
    #expect(session.queuedCount == Limits.courierCrowdedFrames)
  }

  @Test("While the device acknowledges, a request for a full crowded queue is not answered 429")
  func slow() {
    var (session, now) = crowd()
    _ = session.filterReceived(opensTopics: true)
    session.drained([], more: false, nowMilliseconds: now) { _ in .enabled }
    for _ in 0..<Limits.courierWindowFrames { _ = session.next(nowSeconds: 0) }
    // All of them have the same order, and so the same id.
    let messageID = delivery(.binary).notification.messageID
    #expect(session.acknowledge(messageID, nowMilliseconds: now) != nil)
    #expect(offer(&session, .binary, at: now, count: Limits.courierWindowFrames) == .heldBack)
    while let outcome = overdue(&session, at: now + interval) {
      #expect(outcome == .entered(.queued))
    }
    #expect(session.heldBackCount == 0)
    #expect(offer(&session, .binary, at: now) == .heldBack)
    #expect(offer(&session, .http2, at: now) == .heldBack)
    let end = now + Limits.heldBackAtMostMilliseconds
    for time in stride(from: now, to: end, by: 5000) {
      #expect(session.acknowledge(messageID, nowMilliseconds: time) != nil)
      #expect(overdue(&session, at: time) == nil)
    }
    #expect(session.deadlineMilliseconds == end)
    // The frame, which came first, cannot be refused and waits on.
    #expect(overdue(&session, at: end) == .refused(.serviceUnavailable))
    #expect(overdue(&session, at: end) == nil)
    #expect(session.heldBackCount == 1)
  }

  @Test("A request behind a frame that waits is answered in its own time")
  func behindFrame() {
    var session = DeviceSession()
    _ = offer(&session, .http2, at: 1000, count: Limits.courierQueueFrames)
    #expect(offer(&session, .binary, at: 1000) == .heldBack)
    #expect(offer(&session, .http2, at: 2000) == .heldBack)
    #expect(session.deadlineMilliseconds == 1000 + interval)
    let stalls = 1000 + Limits.courierStallMilliseconds
    #expect(overdue(&session, at: stalls) == .refused(.tooManyRequests))
    #expect(overdue(&session, at: stalls) == .entered(.queued))
    #expect(overdue(&session, at: stalls) == nil)
  }

  @Test("A wait ends after its time, or when the queue has been full for the maximum time")
  func deadlines() {
    var session = DeviceSession()
    _ = offer(&session, .http2, at: 1000, count: Limits.courierQueueFrames)
    #expect(session.deadlineMilliseconds == nil)
    #expect(offer(&session, .http2, at: 2000) == .heldBack)
    #expect(session.deadlineMilliseconds == 2000 + interval)
    #expect(overdue(&session, at: 1999 + interval) == nil)
    #expect(overdue(&session, at: 2000 + interval) == .entered(.queued))
    #expect(session.deadlineMilliseconds == nil)
  }

  @Test("Requests that wait for a device that acknowledges nothing are refused")
  func stalled() {
    var session = DeviceSession()
    _ = offer(&session, .http2, at: 1000, count: Limits.courierQueueFrames)
    let stalls = 1000 + Limits.courierStallMilliseconds
    #expect(offer(&session, .http2, at: stalls - 1) == .heldBack)
    #expect(offer(&session, .binary, at: stalls - 1) == .heldBack)
    #expect(session.deadlineMilliseconds == stalls)
    #expect(overdue(&session, at: stalls) == .refused(.tooManyRequests))
    #expect(overdue(&session, at: stalls) == .entered(.queued))
    #expect(overdue(&session, at: stalls) == nil)
  }

  @Test("Waiting requests have a bound, and waiting frames have that of their connections")
  func bound() {
    var session = DeviceSession()
    _ = offer(&session, .http2, at: 1000, count: Limits.courierQueueFrames)
    #expect(offer(&session, .http2, at: 1000, count: Limits.heldBackNotifications) == .heldBack)
    #expect(offer(&session, .http2, at: 1000) == .refused(.serviceUnavailable))
    #expect(offer(&session, .binary, at: 1000) == .heldBack)
  }

  @Test("Each acknowledgement is progress")
  func progress() {
    var session = DeviceSession()
    _ = session.filterReceived(opensTopics: true)
    session.drained([], more: false, nowMilliseconds: 1000) { _ in .enabled }
    _ = offer(&session, .http2, at: 1000, count: Limits.courierQueueFrames)
    guard case .send(let first) = session.next(nowSeconds: 0) else {
      Issue.record("nothing is sent")
      return
    }
    _ = offer(&session, .http2, at: 1000)
    let now = 1000 + Limits.courierStallMilliseconds - 1
    let answered = session.acknowledge(first.notification.messageID, nowMilliseconds: now)
    #expect(answered === first)
    #expect(offer(&session, .http2, at: now) == .heldBack)
    #expect(session.heldBackCount == 1)
    #expect(overdue(&session, at: now + interval) == .entered(.queued))
  }
}
