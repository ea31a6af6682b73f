import ApusModel

/// One notification as its provider and its device know it.
struct SentNotification {
  enum Standing: Equatable {
    /// Sent, and nothing was heard.
    case waiting
    case accepted
    case refused
    /// The connection ended first: nobody can tell.
    case unknown
  }

  var device: Int
  var app: Int
  var environment: Environment
  /// Nil: absent, which is as long as possible. 0: not to be stored.
  var expirationSeconds: Int64?
  /// Of the service's clock, when it was sent and when it was answered.
  var sentWallMilliseconds: Int64
  var sentTime: UInt64
  var answeredTime: UInt64?
  var standing = Standing.waiting
  var deliveries = 0
  var lastDelivery: UInt64 = 0
  /// Of those with one collapse id the newest may take the place of the others.
  var collapseGroup: Int?
  /// The device's acknowledgement was taken in, and nothing can bring the notification back.
  var isSettled = false
  /// Since it was sent its device was away or asleep for a moment, or the topic did not flow: a newer notification may
  /// have taken its place.
  var mayBeReplaced = false
  /// The device has acknowledged it once, whether that arrived or not.
  var isAcknowledged = false
  /// From when on the device must have had it: what is newer cannot have taken its place.
  var dueTime: UInt64?
  /// The topic was switched off or gone at some time around its acceptance.
  var mayBeDiscarded = false
  /// The service's clock has been past its expiration since it was sent.
  var mayHaveExpired = false

  var mayBeStored: Bool { expirationSeconds != 0 }
}

/// Watches over a run and knows nothing of how the service decides: what providers were told, what devices got, and
/// the laws that hold between the two.
final class DeliveryOracle {
  private(set) var sent: [SentNotification] = []
  private(set) var violations: [String] = []
  private let trace: SimulationTrace
  private let timeline: Timeline
  private let host: SimulatedHost
  /// Serial numbers of each device, in the order of sending.
  private var ofDevice: [[Int]]
  /// Those that are not settled.
  private var open: [[Int]]
  /// When the service's clock was set last.
  private(set) var clockSetTime: UInt64 = 0
  /// The expirations that are still to come, by the service's clock.
  private var expiring: [Int] = []

  init(devices: Int, timeline: Timeline, host: SimulatedHost, trace: SimulationTrace) {
    ofDevice = Array(repeating: [], count: devices)
    open = ofDevice
    self.timeline = timeline
    self.host = host
    self.trace = trace
  }

  func violated(_ law: String) {
    guard violations.count < 20 else { return }
    violations.append("\(law) (at \(timeline.now / 1000) ms)")
    trace("VIOLATION", text: law)
  }

  /// Accepted notifications that may be stored and were sent in those seconds, and how many of them never arrived.
  func storable(sentIn seconds: Range<Int>) -> (accepted: Int, undelivered: Int) {
    let found = sent.filter {
      $0.standing == .accepted && $0.mayBeStored
        && seconds.contains(Int($0.sentTime / Timeline.second))
    }
    return (found.count, found.count { $0.deliveries == 0 })
  }

  var acceptedCount: Int { sent.count { $0.standing == .accepted } }
  var deliveredCount: Int { sent.count { $0.deliveries > 0 } }

  // MARK: Providers

  func send(
    device: Int, app: Int, environment: Environment, expirationSeconds: Int64?,
    isTopicOff: Bool, isDeviceSteady: Bool
  ) -> Int {
    let serial = sent.count
    var notification = SentNotification(
      device: device, app: app, environment: environment, expirationSeconds: expirationSeconds,
      sentWallMilliseconds: host.wallClockMilliseconds, sentTime: timeline.now)
    notification.mayBeDiscarded = isTopicOff
    notification.mayBeReplaced = !isDeviceSteady
    sent.append(notification)
    ofDevice[device].append(serial)
    open[device].append(serial)
    if let expirationSeconds, expirationSeconds > 0 { expiring.append(serial) }
    return serial
  }

  func accepted(_ serial: Int) { answer(serial, .accepted) }
  /// `mayHaveTaken`: by a fault of the service, after which nobody can tell what its disk kept.
  func refused(_ serial: Int, mayHaveTaken: Bool) {
    answer(serial, mayHaveTaken ? .unknown : .refused)
  }
  /// It has a collapse id: newer ones that have it too may replace it while it waits.
  func collapses(_ serial: Int, group: Int) {
    sent[serial].collapseGroup = group
    sent[serial].mayBeReplaced = true
  }
  func lost(_ serial: Int) { answer(serial, .unknown) }

  private func answer(_ serial: Int, _ standing: SentNotification.Standing) {
    guard sent[serial].standing == .waiting else { return }
    sent[serial].standing = standing
    sent[serial].answeredTime = timeline.now
    if standing == .refused, sent[serial].deliveries > 0 {
      violated("law 5: notification \(serial) was delivered, and its provider told that it was bad")
    }
    trace("answer", serial, standing == .accepted ? 1 : standing == .refused ? 2 : 3)
  }

  /// It was accepted while there has been no room to store anything since `time`: it has arrived, or need not.
  func acceptedWithoutStore(_ serial: Int, fullSince time: UInt64) {
    clockMoved()
    let notification = sent[serial]
    guard notification.sentTime > time, notification.mayBeStored, !notification.mayBeDiscarded,
      !notification.mayHaveExpired
    else { return }
    // A newer one in its place may have arrived.
    let hasArrived = ofDevice[notification.device].contains { other in
      other >= serial && sent[other].app == notification.app && sent[other].deliveries > 0
    }
    if !hasArrived {
      violated("law 7: notification \(serial) was accepted, and the disk had no room for it")
    }
  }

  // MARK: Devices

  /// Something came between: what the device has not got yet may be replaced by what is newer.
  func unsteady(_ device: Int, app: Int? = nil) {
    for serial in open[device] where app == nil || sent[serial].app == app {
      sent[serial].mayBeReplaced = true
    }
  }

  /// The topic is ignored, or gone, or may be.
  func switchedOff(_ device: Int, app: Int) {
    for serial in open[device] where sent[serial].app == app {
      sent[serial].mayBeDiscarded = true
      sent[serial].mayBeReplaced = true
    }
  }

  struct Arrival {
    var serial: Int
    var device: Int
    var app: Int?
    var environment: Environment
    /// What the service's clock said when it wrote the frame; nil where the frame had to wait for room.
    var wallMilliseconds: Int64?
    var isFromStorage: Bool
  }

  func delivered(_ arrival: Arrival) {
    let serial = arrival.serial
    guard sent.indices.contains(serial) else {
      return violated("law 2: a notification that nobody sent")
    }
    let notification = sent[serial]
    trace("delivered", serial, arrival.device, notification.deliveries)
    if notification.device != arrival.device {
      violated(
        "law 2: notification \(serial) for device \(notification.device) reached \(arrival.device)")
    }
    if notification.app != arrival.app || notification.environment != arrival.environment {
      violated("law 2: notification \(serial) came under another topic or environment")
    }
    if notification.standing == .refused {
      violated("law 5: notification \(serial) was refused and came all the same")
    }
    if notification.isSettled {
      violated("law 1: notification \(serial) came again after it was acknowledged durably")
    }
    if !notification.mayBeStored, notification.deliveries > 0 {
      violated("law 1: notification \(serial) came twice and was not to be stored")
    }
    checkExpiration(notification, serial, arrival)
    checkOrder(notification, serial)
    sent[serial].deliveries += 1
    sent[serial].lastDelivery = timeline.now
  }

  /// What is accepted for a device that is there comes before everything that was sent after the acceptance.
  private func checkOrder(_ notification: SentNotification, _ serial: Int) {
    guard notification.deliveries == 0, !notification.mayBeReplaced else { return }
    for other in open[notification.device] where other < serial {
      let older = sent[other]
      if older.app == notification.app, older.standing == .accepted, older.deliveries == 0,
        !older.mayBeReplaced, !older.mayBeDiscarded,
        older.answeredTime ?? .max < notification.sentTime
      {
        // It may have expired since the clock was looked at last.
        clockMoved()
        if !sent[other].mayHaveExpired {
          violated("law 1: notification \(serial) came before \(other), which is older")
        }
      }
    }
  }

  private func checkExpiration(
    _ notification: SentNotification, _ serial: Int, _ arrival: Arrival
  ) {
    guard let expiration = notification.expirationSeconds, expiration > 0,
      let wall = arrival.wallMilliseconds,
      // What had expired when it came is tried once.
      arrival.isFromStorage
        || notification.sentWallMilliseconds / 1000 + 60 < expiration
          && notification.sentTime > clockSetTime
    else { return }
    if wall / 1000 > expiration {
      violated(
        "law 1: notification \(serial) left \(wall / 1000 - expiration) s after its expiration")
    }
  }

  func acknowledged(_ serial: Int) { sent[serial].isAcknowledged = true }

  /// The device has been there for a while, and has acknowledged what it got: what was accepted before is delivered.
  func expect(device: Int, app: Int, acceptedBefore time: UInt64) {
    for serial in open[device] where sent[serial].app == app && sent[serial].dueTime == nil {
      guard sent[serial].answeredTime ?? .max < time, isOwed(serial) else { continue }
      sent[serial].dueTime = timeline.now
      if !hasSuccessor(serial) {
        violated("law 1: notification \(serial) waits for a device that has been there for a while")
      }
    }
  }

  /// Whether the service still owes the device the notification, or another one in its place.
  private func isOwed(_ serial: Int) -> Bool {
    let notification = sent[serial]
    return notification.standing == .accepted && notification.mayBeStored
      && (notification.deliveries == 0 || !notification.isAcknowledged)
      && !notification.mayHaveExpired
      && !notification.mayBeDiscarded && notification.deliveries < Limits.unacknowledgedEnds
  }

  /// Nothing can bring the notification back: the service had the acknowledgement, and everything is on the disk.
  func settled(_ serial: Int) {
    guard !sent[serial].isSettled else { return }
    sent[serial].isSettled = true
    trace("settled", serial)
    open[sent[serial].device].removeAll { $0 == serial }
  }

  // MARK: Time

  /// The service's clock went on, was set, or is about to be.
  func clockMoved() {
    let seconds = host.wallClockMilliseconds / 1000
    expiring.removeAll { serial in
      guard let expiration = sent[serial].expirationSeconds, seconds >= expiration else {
        return false
      }
      sent[serial].mayHaveExpired = true
      return true
    }
  }

  func clockSet() {
    clockSetTime = timeline.now
    clockMoved()
  }

  // MARK: The end

  /// Every device is there, and everything has had its time: `waiting` are the notifications in the mailbox.
  func checkMailbox(_ waiting: [Int]) {
    guard !waiting.isEmpty else { return }
    violated("law 1: notifications \(waiting) wait for devices that are there")
  }

  /// Nothing is wrong any more.
  func finish() {
    clockMoved()
    for (serial, notification) in sent.enumerated() {
      if notification.standing == .waiting {
        violated("law 1: notification \(serial) was never answered")
      }
      guard isOwed(serial) else { continue }
      guard notification.mayBeReplaced || notification.deliveries > 0 else {
        violated("law 1: notification \(serial) was lost; its device was there all the time")
        continue
      }
      if !hasSuccessor(serial) {
        violated(
          "law 1: notification \(serial) was accepted and "
            + (notification.deliveries > 0 ? "did not come again unacknowledged" : "lost"))
      }
    }
  }

  /// Whether notifications that may be newer took the place of this one, or could have: one with its collapse id, or
  /// as many as wait for the app.
  ///
  /// Only while it waited: what was sent when the device must have had it explains nothing.
  private func hasSuccessor(_ serial: Int) -> Bool {
    let notification = sent[serial]
    var newerCount = 0
    for other in ofDevice[notification.device] where other != serial {
      let candidate = sent[other]
      // What may not be stored takes no place in the store.
      guard candidate.app == notification.app, candidate.environment == notification.environment,
        candidate.standing != .refused, candidate.mayBeStored
      else { continue }
      // It was answered before this one was sent: it is older.
      if candidate.standing == .accepted, let answered = candidate.answeredTime,
        answered < notification.sentTime
      {
        continue
      }
      if let due = notification.dueTime, candidate.sentTime > due { continue }
      newerCount += 1
      let collapses =
        candidate.collapseGroup != nil && candidate.collapseGroup == notification.collapseGroup
      if collapses || newerCount >= SimulationCredentials.retentions[notification.app] {
        return true
      }
    }
    return false
  }
}
