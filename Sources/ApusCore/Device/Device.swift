package import ApusModel

/// One device in one environment: the key of its owner's tables.
package struct DeviceKey: Hashable, Sendable {
  package var id: DeviceID
  package var environment: Environment

  @inlinable package init(id: DeviceID, environment: Environment) {
    self.id = id
    self.environment = environment
  }
}

/// A recently used device, connected or not.
///
/// The object is reused; see `renew`.
package final class Device {
  package private(set) var key: DeviceKey
  package var registration: Registration
  /// Whether only the part that most notifications need is known: `registration` has no times, and key and certificate
  /// are unknown. See `canJudge`.
  package var isAbridged = false
  // What each notification reads comes first and together, because most devices are in no processor cache then; see
  // `prefetch`.
  /// Unix milliseconds of the device's retirement; nil if it is not retired.
  package var retiredMilliseconds: Int64?
  package var requests = RequestBuckets()
  /// SHA-256 of the certificate's public key at its last connection; empty before the first.
  package var keyFingerprint: [UInt8] = []
  /// Unix seconds since when the newest certificate that it used has been valid.
  package var issuedSeconds: Int64 = 0
  /// Set while the device is connected.
  package var session: DeviceSession?
  /// The index of its connection in the worker's table; meaningful while `session` is set.
  package var connectionSlot: Int32 = -1
  /// The newest of its notifications that was in a group.
  var newestGrouped: UInt64 = 0
  /// Writes of this device that are not yet durable, deletions included.
  package var pendingWrites = 0
  /// Those of them that linger in the group; see `CommitGroup`.
  package internal(set) var lingeringWrites = 0
  /// Counts changes of `registration`; the store lags behind.
  package var recordVersion: UInt64 = 0
  package var durableRecordVersion: UInt64 = 0
  package var takeovers = RateLimit.Bucket()
  /// Unix milliseconds of the end of its last connection; nil if unknown.
  package var lastSeenMilliseconds: Int64?
  /// Background pushes while the device is idle, for each app.
  package var backgroundPushes: [TopicKey: RateLimit.Bucket] = [:]
  static let backgroundLimit = RateLimit(
    capacity: Limits.backgroundPushesPerHour, refill: Limits.backgroundPushesPerHour,
    perSeconds: 3600)
  package static let takeoverLimit = RateLimit(
    capacity: Limits.courierTakeoversPerMinute, refill: Limits.courierTakeoversPerMinute,
    perSeconds: 60)
  /// The newest notification of each slot that is only in the store, or being written, although the device is
  /// connected.
  package var overflowOrders: [MailboxSlot: UInt64] = [:]
  /// For each slot, the order up to which its notifications have ended although the store may still have them: they
  /// are removed with that group at the latest.
  var endedOrders: [MailboxSlot: (order: UInt64, group: UInt64)] = [:]
  /// The notifications in the device's slots of the store that have not ended. Exact if `knowsStored`.
  ///
  /// In memory, so that a notification which a newer one replaces ends in the ledger under its own id, at the cost of
  /// one scan when the device is loaded instead of a read for each put.
  package private(set) var stored: [StoredFacts] = []
  /// Whether `stored` was read since the device was loaded. Required before a group with a put, or a drain, is carried
  /// out.
  package var knowsStored = false
  /// Ended notifications of failed groups: none of them may be in the store. Kept while writes are pending.
  var unwrittenOrders: Set<UInt64> = []
  /// The order that each slot was last written with, while writes are pending: earlier content is no longer in the
  /// store.
  var writtenOrders: [MailboxSlot: UInt64] = [:]
  /// The drain that its connection waits for. A drain requested by an earlier connection does not count.
  package internal(set) var drain = Drain.none
  package enum Drain: Equatable {
    case none
    case waiting(group: UInt64)
    case due
  }
  /// Whether it is in the list of devices with a retry pending, and whether that is a drain.
  var awaitsRetry = false
  package internal(set) var mustDrainAgain = false
  /// Whether it is in the worker's list of sessions that have something to send.
  package var isDirty = false

  /// Reads the lines of the processor's cache that have what each notification reads. Returns a number that must be
  /// used, so that the compiler keeps the reads.
  package func prefetch() -> UInt {
    UInt(truncatingIfNeeded: key.id.rawValue) &+ UInt(truncatingIfNeeded: retiredMilliseconds ?? 0)
      &+ UInt(truncatingIfNeeded: issuedSeconds)
  }

  package init(key: DeviceKey, registration: Registration) {
    self.key = key
    self.registration = registration
  }

  /// Reuses the object for another device that is new in memory: with many devices, nearly every notification would
  /// otherwise create one and drop one. It must be at rest and unreferenced. Properties not set here then have their
  /// initial values.
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

  /// Whether its registration and its stored notifications are its whole state.
  package var isAtRest: Bool {
    session == nil && hasNothingUnderWay
  }

  private var hasNothingUnderWay: Bool {
    pendingWrites == 0 && durableRecordVersion == recordVersion
      && !awaitsRetry && !mustDrainAgain && retiredMilliseconds == nil
      && overflowOrders.isEmpty && endedOrders.isEmpty && unwrittenOrders.isEmpty
  }

  /// Whether its record, its power state and its limits on takeovers and background pushes are its whole state while
  /// connected: then its owner may keep these elsewhere and release the object.
  package func mayFallDormant(atMilliseconds now: Int64) -> Bool {
    session?.isQuiet == true && hasNothingUnderWay && drain == .none && !isDirty && !isAbridged
      && knowsStored && stored.isEmpty && requests.areFull(atMilliseconds: now)
  }

  /// Makes a new object that of a dormant device; its owner sets the rest of what it kept.
  package func wake(power: PowerState, slot: Int32) {
    session = DeviceSession(quiet: power)
    connectionSlot = slot
    knowsStored = true
  }

  // For each flush: through `session`, another module would copy all of it and retain its parts.
  /// Notifications that wait for its acknowledgement.
  package var inFlightCount: Int { session?.inFlightCount ?? 0 }
  /// See `DeviceSession.deadlineMilliseconds`.
  package var sessionDeadlineMilliseconds: UInt64? { session?.deadlineMilliseconds }

  /// Whether enough is known to judge a token's claims. If not, read the device's record first.
  @inline(__always)
  package func canJudge(_ claims: TokenClaims) -> Bool {
    !isAbridged || retiredMilliseconds == nil && registration.isSurelyActive(claims)
  }

  /// Judges a token's claims by the registration and the device's retirement.
  @inline(__always)
  func standing(
    of claims: TokenClaims, nowMilliseconds: Int64, graceMilliseconds: Int64
  ) -> Standing {
    let now = retiredMilliseconds ?? nowMilliseconds
    let standing = registration.standing(
      of: claims, nowMilliseconds: now, graceMilliseconds: graceMilliseconds)
    guard let retired = retiredMilliseconds else { return standing }
    // A token that died before its device keeps that time: it may already be in the feedback list.
    if case .dead(let since) = standing, since < retired { return standing }
    return .dead(sinceMilliseconds: retired)
  }

  /// Whether a notification newer than `order` that is in no session has the slot.
  func hasOverflow(of slot: MailboxSlot, newerThan order: UInt64) -> Bool {
    guard !overflowOrders.isEmpty, let newest = overflowOrders[slot] else { return false }
    return newest > order
  }

  /// Records that a notification with a slot is only in the store.
  func overflowed(_ notification: Notification) {
    overflowOrders[notification.slot] = max(
      overflowOrders[notification.slot] ?? 0, notification.order)
  }

  /// Forgets overflowed notifications up to `order`.
  func clearOverflow(of slot: MailboxSlot, upTo order: UInt64) {
    if let newest = overflowOrders[slot], newest <= order { overflowOrders[slot] = nil }
  }

  /// The notification in the slot of the store, unless it has ended.
  package func stored(_ slot: MailboxSlot) -> StoredFacts? {
    place(of: slot).map { stored[$0] }
  }

  /// The same without the rarely needed parts, and without reference counting.
  func storedFacts(_ slot: MailboxSlot) -> NotificationFacts? {
    guard let place = place(of: slot) else { return nil }
    return stored[place].facts
  }

  /// By index: iterating over the elements copies each.
  private func place(of slot: MailboxSlot) -> Int? {
    var place = 0
    while place < stored.count {
      if stored[place].slot == slot { return place }
      place += 1
    }
    return nil
  }

  /// Whether a stored notification has a slot of the topic other than the first.
  func hasFurtherSlots(of topic: TopicKey) -> Bool {
    for place in stored.indices
    where stored[place].slot.index > 0 && stored[place].slot.topic == topic { return true }
    return false
  }

  /// Notifications known to be stored.
  package var storedCount: Int { stored.count }

  /// The stored notification, if there is exactly one and its facts are its whole state.
  package var onlyStored: NotificationFacts? {
    guard stored.count == 1, stored[0].isPlain else { return nil }
    return stored[0].facts
  }

  func addStored(_ facts: StoredFacts) { stored.append(facts) }

  /// Puts `newer` into its slot and returns the previous notification.
  func replaceStored(by newer: consuming StoredFacts) -> NotificationFacts? {
    guard let place = place(of: newer.slot) else {
      stored.append(newer)
      return nil
    }
    let older = stored[place].facts
    stored[place] = newer
    return older
  }

  /// Records that the slot's notification left it or ended.
  func removeStored(_ slot: MailboxSlot) -> NotificationFacts? {
    guard let place = place(of: slot) else { return nil }
    let older = stored[place].facts
    stored.remove(at: place)
    return older
  }

  /// Keeps the count of a notification that leaves its session, for when it is read from the store again.
  func keepUnacknowledgedEnds(of delivery: Delivery) {
    let (slot, order) = (delivery.notification.slot, delivery.notification.order)
    for index in stored.indices
    where stored[index].slot == slot && stored[index].facts.order == order {
      stored[index].unacknowledgedEnds = delivery.unacknowledgedEnds
    }
  }

  /// Forgets what is stored, so that it is read again.
  package func forgetStored() {
    if !stored.isEmpty { stored.removeAll(keepingCapacity: true) }
    knowsStored = false
  }

  /// Sets the notifications in the device's slots of the store, without those of groups that are not yet written.
  package func loadStored(_ facts: [StoredFacts]) {
    stored = facts
    knowsStored = true
  }

  /// The same with at most one notification, reusing the memory.
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
