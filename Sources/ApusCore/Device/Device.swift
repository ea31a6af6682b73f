package import ApusModel

/// One device in one environment, as its owner knows it.
package struct DeviceKey: Hashable, Sendable {
  package var id: DeviceID
  package var environment: Environment

  @inlinable package init(id: DeviceID, environment: Environment) {
    self.id = id
    self.environment = environment
  }
}

/// A device that was looked at lately, connected or not.
///
/// The object is reused; see `renew`.
package final class Device {
  package private(set) var key: DeviceKey
  package var registration: Registration
  /// Whether only that is known of it which most notifications need: `registration` has no times, and key and
  /// certificate are not known. See `canJudge`.
  package var isAbridged = false
  // These three stand together, and first: each notification looks at them, and most devices are in no cache of the
  // processor when it does.
  /// Unix milliseconds since which the device is gone for good; nil while it is not.
  package var retiredMilliseconds: Int64?
  package var requests = RequestBuckets()
  /// SHA-256 of the certificate's public key at its last connection; empty before the first.
  package var keyFingerprint: [UInt8] = []
  /// From when on the newest certificate is valid by which it was let in, Unix seconds.
  package var issuedSeconds: Int64 = 0
  /// Present while the device is connected.
  package var session: DeviceSession?
  /// The place of its connection in the worker's table; meaningful while `session` is there.
  package var connectionSlot: Int32 = -1
  /// The newest notification that a group had for it.
  var newestGrouped: UInt64 = 0
  /// Writes of this device that are not yet durable, deletions included.
  package var pendingWrites = 0
  /// Counts changes of `registration`; what the store holds follows behind.
  package var recordVersion: UInt64 = 0
  package var durableRecordVersion: UInt64 = 0
  package var takeovers = RateLimit.Bucket()
  /// Unix milliseconds of the end of its last connection; nil where that is not remembered.
  package var lastSeenMilliseconds: Int64?
  /// Background pushes while nobody uses it, for each app.
  package var backgroundPushes: [TopicKey: RateLimit.Bucket] = [:]
  static let backgroundLimit = RateLimit(
    capacity: Limits.backgroundPushesPerHour, refill: Limits.backgroundPushesPerHour,
    perSeconds: 3600)
  package static let takeoverLimit = RateLimit(
    capacity: Limits.courierTakeoversPerMinute, refill: Limits.courierTakeoversPerMinute,
    perSeconds: 60)
  /// The newest notification of each slot that waits in the store alone, or on its way there, although the device is
  /// connected.
  package var overflowOrders: [MailboxSlot: UInt64] = [:]
  /// For each slot, up to which order its notifications have ended although the store may still show them: what takes
  /// them out of it is on its way, with that group at the latest.
  var endedOrders: [MailboxSlot: (order: UInt64, group: UInt64)] = [:]
  /// Who has the slots of the device in the store, as far as they have not ended. Exact where `knowsStored`.
  package private(set) var stored: [StoredFacts] = []
  /// Whether `stored` was read since the device was taken into memory. Before a group with a put or a drain is carried
  /// out, it must have been.
  package var knowsStored = false
  /// Notifications of failed groups that have ended: none of them is to be in the store. Kept while writes are pending.
  var unwrittenOrders: Set<UInt64> = []
  /// Who took each slot, while writes are pending: what it had before is in the store no more.
  var writtenOrders: [MailboxSlot: UInt64] = [:]
  /// The drain that its connection waits for. A drain that an earlier connection asked for is not its own.
  var drain = Drain.none
  enum Drain: Equatable {
    case none
    case waiting(group: UInt64)
    case due
  }
  /// Whether it stands in the list of devices for which something is to be tried again, and whether that is a drain.
  var awaitsRetry = false
  var mustDrainAgain = false
  /// Whether it stands in the worker's list of sessions that have something to send.
  package var isDirty = false

  package init(key: DeviceKey, registration: Registration) {
    self.key = key
    self.registration = registration
  }

  /// Makes the object another device's, which is new to the memory: one is made and dropped for nearly every
  /// notification where the devices are many. It must be at rest, and nothing may refer to it. What is not named here
  /// is then as it is in a new one.
  package func renew(_ key: DeviceKey, _ registration: Registration) {
    precondition(isAtRest && !isDirty, "a device in use cannot become another")
    self.key = key
    self.registration = registration
    isAbridged = false
    requests = RequestBuckets()
    if !keyFingerprint.isEmpty { keyFingerprint = [] }
    (issuedSeconds, connectionSlot, newestGrouped) = (0, -1, 0)
    (recordVersion, durableRecordVersion) = (0, 0)
    takeovers = RateLimit.Bucket()
    lastSeenMilliseconds = nil
    if !backgroundPushes.isEmpty { backgroundPushes = [:] }
    if !writtenOrders.isEmpty { writtenOrders = [:] }
    drain = .none
    forgetStored()
  }

  /// Whether its registration and what is stored say all about it.
  package var isAtRest: Bool {
    session == nil && hasNothingUnderWay
  }

  private var hasNothingUnderWay: Bool {
    pendingWrites == 0 && durableRecordVersion == recordVersion
      && !awaitsRetry && !mustDrainAgain && retiredMilliseconds == nil
      && overflowOrders.isEmpty && endedOrders.isEmpty && unwrittenOrders.isEmpty
  }

  /// Whether its record, its power state and the limits on its take-overs and background pushes say all about it, while
  /// it is connected: then its owner may keep these elsewhere, and let the object go.
  package func mayFallDormant(atMilliseconds now: Int64) -> Bool {
    session?.isQuiet == true && hasNothingUnderWay && drain == .none && !isDirty && !isAbridged
      && knowsStored && stored.isEmpty && requests.areFull(atMilliseconds: now)
  }

  /// Makes a new object that of a device which was dormant; the rest of what its owner kept is set by him.
  package func wake(power: PowerState, slot: Int32) {
    session = DeviceSession(quiet: power)
    connectionSlot = slot
    knowsStored = true
  }

  // Looked at with every flush: through `session` another module copies all of it, and counts its parts.
  /// How many notifications wait for its acknowledgement.
  package var inFlightCount: Int { session?.inFlightCount ?? 0 }
  /// See `DeviceSession.deadlineMilliseconds`.
  package var sessionDeadlineMilliseconds: UInt64? { session?.deadlineMilliseconds }

  /// Whether what is known of the device is enough to judge a token's claims. Else its record is to be read first.
  @inline(__always)
  package func canJudge(_ claims: TokenClaims) -> Bool {
    !isAbridged || retiredMilliseconds == nil && registration.isSurelyActive(claims)
  }

  /// Judges a token's claims, by the registration and by the device's retirement.
  @inline(__always)
  func standing(
    of claims: TokenClaims, nowMilliseconds: Int64, graceMilliseconds: Int64
  ) -> Standing {
    let now = retiredMilliseconds ?? nowMilliseconds
    let standing = registration.standing(
      of: claims, nowMilliseconds: now, graceMilliseconds: graceMilliseconds)
    guard let retired = retiredMilliseconds else { return standing }
    // What died before its device keeps its time: it may be in the feedback list already.
    if case .dead(let since) = standing, since < retired { return standing }
    return .dead(sinceMilliseconds: retired)
  }

  /// Whether a notification newer than `order`, which is in no session, has the slot.
  func hasOverflow(of slot: MailboxSlot, newerThan order: UInt64) -> Bool {
    guard !overflowOrders.isEmpty, let newest = overflowOrders[slot] else { return false }
    return newest > order
  }

  /// Notes that a notification that has a slot waits in the store alone.
  func overflowed(_ notification: Notification) {
    overflowOrders[notification.slot] = max(
      overflowOrders[notification.slot] ?? 0, notification.order)
  }

  /// Forgets that anything up to `order` waits in the store alone.
  func clearOverflow(of slot: MailboxSlot, upTo order: UInt64) {
    if let newest = overflowOrders[slot], newest <= order { overflowOrders[slot] = nil }
  }

  /// Who has the slot in the store and has not ended.
  func stored(_ slot: MailboxSlot) -> StoredFacts? {
    place(of: slot).map { stored[$0] }
  }

  /// The same without what few have, and without counting references.
  func storedFacts(_ slot: MailboxSlot) -> NotificationFacts? {
    guard let place = place(of: slot) else { return nil }
    return stored[place].facts
  }

  /// By their places: to go through the elements themselves copies each.
  private func place(of slot: MailboxSlot) -> Int? {
    var place = 0
    while place < stored.count {
      if stored[place].slot == slot { return place }
      place += 1
    }
    return nil
  }

  /// Whether what is stored has another slot of the topic than the first.
  func hasFurtherSlots(of topic: TopicKey) -> Bool {
    for place in stored.indices
    where stored[place].slot.index > 0 && stored[place].slot.topic == topic { return true }
    return false
  }

  /// How many notifications are known to be stored.
  package var storedCount: Int { stored.count }

  /// What is stored, where that is one notification whose facts say all about it.
  package var onlyStored: NotificationFacts? {
    guard stored.count == 1, stored[0].isPlain else { return nil }
    return stored[0].facts
  }

  func addStored(_ facts: StoredFacts) { stored.append(facts) }

  /// Puts `newer` in the place of who had its slot, and returns that.
  func replaceStored(by newer: consuming StoredFacts) -> NotificationFacts? {
    guard let place = place(of: newer.slot) else {
      stored.append(newer)
      return nil
    }
    let older = stored[place].facts
    stored[place] = newer
    return older
  }

  /// Notes that who had the slot has it no more, or has ended.
  func removeStored(_ slot: MailboxSlot) -> NotificationFacts? {
    guard let place = place(of: slot) else { return nil }
    let older = stored[place].facts
    stored.remove(at: place)
    return older
  }

  /// Keeps the count of what leaves its session for when it comes back from the store.
  func keepUnacknowledgedEnds(of delivery: Delivery) {
    let (slot, order) = (delivery.notification.slot, delivery.notification.order)
    for index in stored.indices
    where stored[index].slot == slot && stored[index].facts.order == order {
      stored[index].unacknowledgedEnds = delivery.unacknowledgedEnds
    }
  }

  /// Forgets what is stored, as a device does that is read anew.
  package func forgetStored() {
    if !stored.isEmpty { stored.removeAll(keepingCapacity: true) }
    knowsStored = false
  }

  /// Says who has the slots of the device in the store, as it was before any group that is not yet written.
  package func loadStored(_ facts: [StoredFacts]) {
    stored = facts
    knowsStored = true
  }

  /// The same of one notification at most, into the memory that is there.
  package func loadStored(only facts: NotificationFacts?) {
    forgetStored()
    if let facts { stored.append(StoredFacts(facts: facts)) }
    knowsStored = true
  }

  /// Whether the notification of that order has ended and is in the store only until the group is written.
  func hasEnded(_ slot: MailboxSlot, order: UInt64) -> Bool {
    guard !endedOrders.isEmpty, let ended = endedOrders[slot] else { return false }
    return order <= ended.order
  }
}
