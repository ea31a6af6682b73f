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

  /// Whether a notification whose wait is over is refused; nil if no wait is over.
  private func overdue(_ session: inout DeviceSession, at now: UInt64) -> Bool? {
    session.takeOverdue(nowMilliseconds: now)?.isRefused
  }

  @Test("A crowded queue is bounded, and beyond it frames are stored and requests refused")
  func crowded() {
    var session = DeviceSession()
    let room = Limits.courierQueueFrames
    #expect(offer(&session, .http2, at: 1000, count: room) == .queued)
    let now = 1000 + Limits.courierStallMilliseconds
    let rest = Limits.courierCrowdedFrames - room
    #expect(offer(&session, .binary, at: now, count: rest) == .queued)
    #expect(offer(&session, .binary, at: now) == .overflow)
    #expect(offer(&session, .http2, at: now) == .refused)
    #expect(session.needsDrain)
  }

  @Test("A wait ends after its time, or when the queue has been full for the maximum time")
  func deadlines() {
    var session = DeviceSession()
    _ = offer(&session, .http2, at: 1000, count: Limits.courierQueueFrames)
    #expect(session.deadlineMilliseconds == nil)
    #expect(offer(&session, .http2, at: 2000) == .heldBack)
    #expect(session.deadlineMilliseconds == 2000 + interval)
    #expect(overdue(&session, at: 1999 + interval) == nil)
    #expect(overdue(&session, at: 2000 + interval) == false)
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
    #expect(overdue(&session, at: stalls) == true)
    #expect(overdue(&session, at: stalls) == false)
    #expect(overdue(&session, at: stalls) == nil)
  }

  @Test("Waiting requests have a bound, and waiting frames have that of their connections")
  func bound() {
    var session = DeviceSession()
    _ = offer(&session, .http2, at: 1000, count: Limits.courierQueueFrames)
    #expect(offer(&session, .http2, at: 1000, count: Limits.heldBackNotifications) == .heldBack)
    #expect(offer(&session, .http2, at: 1000) == .refused)
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
    #expect(overdue(&session, at: now + interval) == false)
  }
}
