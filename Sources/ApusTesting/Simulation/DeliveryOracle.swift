import ApusModel

/// One notification as known to its provider and its device.
struct SentNotification {
  enum Standing: Equatable {
    /// Sent, without an answer.
    case waiting
    case accepted
    case refused
    /// The connection ended first: the outcome is unknown.
    case unknown
  }

  var device: Int
  var app: Int
  var environment: Environment
  /// Nil: absent, which means as long as possible. 0: not to be stored.
  var expirationSeconds: Int64?
  /// The service's time when it was sent.
  var sentWallMilliseconds: Int64
  var sentTime: UInt64
  var answeredTime: UInt64?
  var standing = Standing.waiting
  var deliveries = 0
  var lastDelivery: UInt64 = 0
  /// Its request has an id from which the service's events can be told to be about it: see `SimulationID`.
  var isNamed = false
  /// Among notifications with the same collapse id, the newest may replace the others.
  var collapseGroup: Int?
  /// The service has processed the device's acknowledgement, and the notification can no longer return.
  var isSettled = false
  /// Since it was sent, its device was offline or asleep, or delivery of the topic was off at some time: a newer
  /// notification may have replaced it.
  var mayBeReplaced = false
  /// The device has acknowledged it, whether or not the acknowledgement arrived.
  var isAcknowledged = false
  /// When the device must have received it: newer notifications cannot have replaced it.
  var dueTime: UInt64?
  /// The topic was off or removed around the time of its acceptance.
  var mayBeDiscarded = false
  /// The service's clock was past its expiration at some time since it was sent.
  var mayHaveExpired = false

  /// A link between nodes ended before its answer came: it was perhaps routed again.
  var mayComeTwice = false

  var mayBeStored: Bool { expirationSeconds != 0 }
}

/// Observes a run without knowledge of the service's decisions: what providers were told, what devices received, and
/// the laws between the two.
final class DeliveryOracle {
  private(set) var sent: [SentNotification] = []
  /// The first of each law.
  private(set) var violations: [SimulationViolation] = []
  private(set) var broken: Set<SimulationLaw> = []
  private let trace: SimulationTrace
  private let timeline: Timeline
  private let clock: SimulatedClock
  /// Serial numbers for each device, in the order of sending.
  private var ofDevice: [[Int]]
  /// The unsettled ones.
  private var open: [[Int]]
  /// When the service's clock was last set.
  private(set) var clockSetTime: UInt64 = 0
  /// Expirations that are still in the future, by the service's clock.
  private var expiring: [Int] = []

  init(devices: Int, clock: SimulatedClock, trace: SimulationTrace) {
    ofDevice = Array(repeating: [], count: devices)
    open = ofDevice
    timeline = clock.timeline
    self.clock = clock
    self.trace = trace
  }

  /// Without a service.
  convenience init(devices: Int, timeline: Timeline) {
    self.init(
      devices: devices, clock: SimulatedClock(timeline),
      trace: SimulationTrace(timeline, capacity: 0))
  }

  func violated(_ law: SimulationLaw, _ text: String) {
    broken.insert(law)
    guard violations.count(where: { $0.law == law }) < 5 else { return }
    violations.append(
      SimulationViolation(law: law, text: "\(text) (at \(timeline.now / 1000) ms)"))
    trace("VIOLATION", text: text)
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
    device: Int, app: Int, environment: Environment = .production, expirationSeconds: Int64?,
    isTopicOff: Bool = false, isDeviceSteady: Bool
  ) -> Int {
    let serial = sent.count
    var notification = SentNotification(
      device: device, app: app, environment: environment, expirationSeconds: expirationSeconds,
      sentWallMilliseconds: clock.wallMilliseconds, sentTime: timeline.now)
    notification.mayBeDiscarded = isTopicOff
    notification.mayBeReplaced = !isDeviceSteady
    sent.append(notification)
    ofDevice[device].append(serial)
    open[device].append(serial)
    if let expirationSeconds, expirationSeconds > 0 { expiring.append(serial) }
    return serial
  }

  func accepted(_ serial: Int) { answer(serial, .accepted) }
  /// `mayHaveTaken`: because of a fault of the service, after which it is unknown what its disk kept.
  func refused(_ serial: Int, mayHaveTaken: Bool) {
    answer(serial, mayHaveTaken || sent[serial].mayComeTwice ? .unknown : .refused)
  }
  /// It has a collapse id: newer ones that have it too may replace it while it waits.
  func collapses(_ serial: Int, group: Int) {
    sent[serial].collapseGroup = group
    sent[serial].mayBeReplaced = true
  }
  func lost(_ serial: Int) { answer(serial, .unknown) }
  /// A link between two nodes has ended. What has no answer is routed again, also if its sender has given it up
  /// meanwhile.
  func linkEnded() {
    let recently = timeline.now - min(timeline.now, 60 * Timeline.second)
    for serial in sent.indices {
      switch sent[serial].standing {
      case .waiting: sent[serial].mayComeTwice = true
      case .unknown where sent[serial].answeredTime ?? 0 > recently:
        sent[serial].mayComeTwice = true
      case .unknown, .accepted, .refused: continue
      }
    }
  }
  func named(_ serial: Int) { sent[serial].isNamed = true }

  private func answer(_ serial: Int, _ standing: SentNotification.Standing) {
    guard sent[serial].standing == .waiting else { return }
    sent[serial].standing = standing
    sent[serial].answeredTime = timeline.now
    if standing == .refused, sent[serial].deliveries > 0 {
      violated(.rejection, "notification \(serial) was rejected, but delivered")
    }
    trace("answer", serial, standing == .accepted ? 1 : standing == .refused ? 2 : 3)
  }

  /// It was accepted while the disk has been full since `time`: it has arrived, or need not.
  func acceptedWithoutStore(_ serial: Int, fullSince time: UInt64) {
    clockMoved()
    let notification = sent[serial]
    guard notification.sentTime > time, notification.mayBeStored, !notification.mayBeDiscarded,
      !notification.mayHaveExpired
    else { return }
    // A newer replacement may have arrived.
    let hasArrived = ofDevice[notification.device].contains { other in
      other >= serial && sent[other].app == notification.app && sent[other].deliveries > 0
    }
    if !hasArrived {
      violated(.fullDiskAnswers, "notification \(serial) was accepted although the disk was full")
    }
  }

  // MARK: Devices

  /// Delivery was interrupted: undelivered notifications may be replaced by newer ones.
  func unsteady(_ device: Int, app: Int? = nil) {
    for serial in open[device] where app == nil || sent[serial].app == app {
      sent[serial].mayBeReplaced = true
    }
  }

  /// The topic is ignored, removed, or possibly so.
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
    var environment = Environment.production
    /// The service's time when it wrote the frame; nil if the frame had to wait for room.
    var wallMilliseconds: Int64?
    var isFromStorage: Bool
    /// Whether the device is told that it may have got it before; nil if its protocol cannot say so.
    var mayBeRepeated: Bool?
  }

  func delivered(_ arrival: Arrival) {
    let serial = arrival.serial
    guard sent.indices.contains(serial) else {
      return violated(.addressee, "a notification that nobody sent")
    }
    let notification = sent[serial]
    trace("delivered", serial, arrival.device, notification.deliveries)
    if notification.device != arrival.device {
      violated(
        .addressee,
        "notification \(serial) for device \(notification.device) reached \(arrival.device)")
    }
    if notification.app != arrival.app || notification.environment != arrival.environment {
      violated(.addressee, "notification \(serial) arrived under another topic or environment")
    }
    if notification.standing == .refused {
      violated(.rejection, "notification \(serial) was rejected but arrived")
    }
    let isExpectedAgain = notification.mayComeTwice && arrival.mayBeRepeated ?? true
    if notification.isSettled, !isExpectedAgain {
      violated(.uniqueness, "notification \(serial) arrived again after a durable acknowledgement")
    }
    if !notification.mayBeStored, notification.deliveries > 0, !isExpectedAgain {
      violated(.uniqueness, "notification \(serial) arrived twice although it was not to be stored")
    }
    checkExpiration(notification, serial, arrival)
    checkOrder(notification, serial)
    sent[serial].deliveries += 1
    sent[serial].lastDelivery = timeline.now
  }

  /// A notification accepted for a connected device arrives before everything sent after its acceptance.
  private func checkOrder(_ notification: SentNotification, _ serial: Int) {
    guard notification.deliveries == 0, !notification.mayBeReplaced else { return }
    for other in open[notification.device] where other < serial {
      let older = sent[other]
      if older.app == notification.app, older.standing == .accepted, older.deliveries == 0,
        !older.mayBeReplaced, !older.mayBeDiscarded,
        older.answeredTime ?? .max < notification.sentTime
      {
        // It may have expired since the clock was last checked.
        clockMoved()
        if !sent[other].mayHaveExpired {
          violated(.order, "notification \(serial) arrived before the older \(other)")
        }
      }
    }
  }

  private func checkExpiration(
    _ notification: SentNotification, _ serial: Int, _ arrival: Arrival
  ) {
    guard let expiration = notification.expirationSeconds, expiration > 0,
      let wall = arrival.wallMilliseconds,
      // A notification that was already expired on arrival is tried once.
      arrival.isFromStorage
        || notification.sentWallMilliseconds / 1000 + 60 < expiration
          && notification.sentTime > clockSetTime
    else { return }
    if wall / 1000 > expiration {
      violated(
        .expiration,
        "notification \(serial) left \(wall / 1000 - expiration) s after its expiration")
    }
  }

  func acknowledged(_ serial: Int) { sent[serial].isAcknowledged = true }

  /// For a canary: whether only a check at the right time notices that the notification never arrives.
  func mayLoseUnnoticed(_ serial: Int) -> Bool {
    sent.indices.contains(serial) && sent[serial].mayBeReplaced && sent[serial].deliveries == 0
      && sent[serial].mayBeStored
  }

  /// For a canary: whether something newer was sent to the same device and app, and not rejected.
  func hasLaterPush(_ serial: Int) -> Bool {
    let notification = sent[serial]
    return ofDevice[notification.device].contains { other in
      other > serial && sent[other].app == notification.app
        && sent[other].environment == notification.environment
        && sent[other].standing != .refused && sent[other].mayBeStored
    }
  }

  /// The device has been connected for a while and has acknowledged what it got: everything accepted before must be
  /// delivered.
  func expect(device: Int, app: Int, acceptedBefore time: UInt64) {
    for serial in open[device] where sent[serial].app == app && sent[serial].dueTime == nil {
      guard sent[serial].answeredTime ?? .max < time, isOwed(serial) else { continue }
      sent[serial].dueTime = timeline.now
      if !hasSuccessor(serial) {
        violated(.timeliness, "notification \(serial) waits for a device that is connected")
      }
    }
  }

  /// Whether the service still owes the device the notification, or a replacement.
  private func isOwed(_ serial: Int) -> Bool {
    let notification = sent[serial]
    return notification.standing == .accepted && notification.mayBeStored
      && (notification.deliveries == 0 || !notification.isAcknowledged)
      && !notification.mayHaveExpired
      && !notification.mayBeDiscarded && notification.deliveries < Limits.unacknowledgedEnds
  }

  /// The notification can no longer return: the service had the acknowledgement, and everything is on the disk.
  func settled(_ serial: Int) {
    guard !sent[serial].isSettled else { return }
    sent[serial].isSettled = true
    trace("settled", serial)
    open[sent[serial].device].removeAll { $0 == serial }
  }

  // MARK: Time

  /// The service's clock advanced, was set, or is about to be set.
  func clockMoved() {
    let seconds = clock.wallMilliseconds / 1000
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

  /// Every device is connected, and everything had enough time: `waiting` are the notifications left in the mailbox.
  func checkMailbox(_ waiting: [Int]) {
    guard !waiting.isEmpty else { return }
    violated(.arrival, "notifications \(waiting) wait for connected devices")
  }

  /// Everything works again.
  func finish() {
    clockMoved()
    for (serial, notification) in sent.enumerated() {
      if notification.standing == .waiting {
        violated(.arrival, "notification \(serial) was never answered")
      }
      guard isOwed(serial) else { continue }
      guard notification.mayBeReplaced || notification.deliveries > 0 else {
        violated(.arrival, "notification \(serial) was lost; its device was connected all the time")
        continue
      }
      if !hasSuccessor(serial) {
        guard notification.deliveries == 0 else {
          violated(.repetition, "notification \(serial) did not arrive again unacknowledged")
          continue
        }
        violated(.arrival, "notification \(serial) was accepted and lost")
      }
    }
  }

  /// Whether possibly newer notifications replaced this one, or could have: one with its collapse id, or as many as the
  /// app retains.
  ///
  /// Only while it waited: anything sent after the device must have had it explains nothing.
  private func hasSuccessor(_ serial: Int) -> Bool {
    let notification = sent[serial]
    var newerCount = 0
    for other in ofDevice[notification.device] where other != serial {
      let candidate = sent[other]
      // Notifications that may not be stored replace nothing in the store.
      guard candidate.app == notification.app, candidate.environment == notification.environment,
        candidate.standing != .refused, candidate.mayBeStored
      else { continue }
      // It was answered before this one was sent, so it is older.
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
