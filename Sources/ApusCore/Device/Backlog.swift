import ApusModel

/// Notifications that found the queue of a connected device full. None of them is accepted yet: their providers wait.
///
/// What happens to them depends on whether the crowded queue still has space (`DeviceSession.hasSpace`), and on the
/// time since the device's last acknowledgement:
///
/// ```
///                           | request (HTTP/2)                   | frame (binary interface)
/// space, acknowledgements   | enters after 5 s                   | enters after 5 s
/// space, none for 10 s      | 429 TooManyRequests                | enters at once
/// no space, acknowledgements| 503 ServiceUnavailable after 20 s  | waits for space
/// no space, none for 10 s   | 429 TooManyRequests                | waits for space
/// no space, none for 60 s   | 429 TooManyRequests                | is handled as for an offline device
/// ```
///
/// So a device that makes progress gets everything that its providers' connections can hold, in order. One that makes
/// none delays what follows on a binary connection for 60 s in all.
struct Backlog {
  /// Apart, because only a request can be refused, and its time may be over while an older frame still waits.
  private var requests = DeliveryQueue()
  private var frames = DeliveryQueue()
  /// Loop milliseconds of the newest acknowledgement, or since when one has been due.
  private var progressMilliseconds: UInt64 = 0

  var count: Int { requests.count + frames.count }

  /// The device acknowledged a notification, or an acknowledgement became due.
  mutating func noteProgress(nowMilliseconds: UInt64) { progressMilliseconds = nowMilliseconds }

  private var stallMilliseconds: UInt64 { progressMilliseconds + Limits.courierStallMilliseconds }
  private var unresponsiveMilliseconds: UInt64 {
    progressMilliseconds + Limits.courierUnresponsiveMilliseconds
  }

  /// What to do with a notification that found the queue full, or others waiting here.
  enum Entry: Equatable {
    case wait
    /// Enters the session although its queue is full.
    case enter
    case refuse(Reason)
  }

  /// `hasSpace`: whether the crowded queue still takes one.
  func entry(of notification: Notification, hasSpace: Bool, nowMilliseconds: UInt64) -> Entry {
    if notification.interface.refusesFloods {
      if stallMilliseconds <= nowMilliseconds { return .refuse(.tooManyRequests) }
      return requests.count < Limits.heldBackNotifications ? .wait : .refuse(.serviceUnavailable)
    }
    let end = hasSpace ? stallMilliseconds : unresponsiveMilliseconds
    return count == 0 && end <= nowMilliseconds ? .enter : .wait
  }

  mutating func append(_ delivery: Delivery, nowMilliseconds: UInt64) {
    delivery.place = .heldBack
    delivery.gatheredMilliseconds = nowMilliseconds
    if delivery.notification.interface.refusesFloods {
      requests.append(delivery)
    } else {
      frames.append(delivery)
    }
  }

  /// The notification that came first.
  mutating func popFirst() -> Delivery? { isFrameFirst ? popFrame() : popRequest() }

  private var isFrameFirst: Bool {
    guard let frame = frames.first else { return false }
    guard let request = requests.first else { return true }
    return frame.notification.order < request.notification.order
  }

  private mutating func popFrame() -> Delivery? {
    let delivery = frames.popFirst()
    delivery?.place = .none
    return delivery
  }

  private mutating func popRequest() -> Delivery? {
    let delivery = requests.popFirst()
    delivery?.place = .none
    return delivery
  }

  func holds(order: UInt64) -> Bool {
    requests.contains { $0.notification.order == order }
      || frames.contains { $0.notification.order == order }
  }

  /// A notification whose wait is over, if any: it enters the session, or is refused for `refusal`.
  mutating func popOverdue(
    hasSpace: Bool, nowMilliseconds: UInt64
  ) -> (delivery: Delivery, refusal: Reason?)? {
    if let request = requests.first {
      if stallMilliseconds <= nowMilliseconds {
        return popRequest().map { ($0, .tooManyRequests) }
      }
      if !hasSpace, lastEnd(of: request) <= nowMilliseconds {
        return popRequest().map { ($0, .serviceUnavailable) }
      }
    }
    guard hasSpace else {
      guard unresponsiveMilliseconds <= nowMilliseconds else { return nil }
      return popFrame().map { ($0, nil) }
    }
    guard let first = isFrameFirst ? frames.first : requests.first,
      waitEnd(of: first) <= nowMilliseconds
    else { return nil }
    return popFirst().map { ($0, nil) }
  }

  /// When `popOverdue` will return something; nil if nothing waits.
  func deadlineMilliseconds(hasSpace: Bool) -> UInt64? {
    let request = requests.first.map {
      min(stallMilliseconds, hasSpace ? waitEnd(of: $0) : lastEnd(of: $0))
    }
    let frame = frames.first.map { hasSpace ? waitEnd(of: $0) : unresponsiveMilliseconds }
    guard let request, let frame else { return request ?? frame }
    return min(request, frame)
  }

  private func waitEnd(of delivery: Delivery) -> UInt64 {
    min(delivery.gatheredMilliseconds + Limits.heldBackMilliseconds, stallMilliseconds)
  }

  private func lastEnd(of delivery: Delivery) -> UInt64 {
    delivery.gatheredMilliseconds + Limits.heldBackAtMostMilliseconds
  }
}
