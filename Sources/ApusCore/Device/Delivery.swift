package import ApusModel

/// Where an answer goes: the worker that read the request or the frame, and what it was there.
package struct Answer: Sendable, Equatable {
  package enum Kind: UInt8, Sendable {
    /// A request of the HTTP/2 interface: `slot` is its place in the worker's table of open requests.
    case request
    /// A frame of the binary interface: `slot` is its connection's place in the worker's table.
    case frame
    /// A push of the service's own administration: `slot` is its number.
    case testPush
  }

  package var worker: UInt16
  package var kind: Kind
  package var slot: UInt32
  /// Tells a request or a connection from an earlier one in the same place.
  package var generation: UInt32
  /// The place of a frame among those of its connection.
  package var sequence: UInt32

  package init(worker: UInt16, slot: UInt32, generation: UInt32) {
    self.worker = worker
    kind = .request
    self.slot = slot
    self.generation = generation
    sequence = 0
  }

  package init(worker: UInt16, connection: UInt32, generation: UInt32, sequence: UInt32) {
    self.worker = worker
    kind = .frame
    slot = connection
    self.generation = generation
    self.sequence = sequence
  }

  package init(worker: UInt16, testPush: UInt32) {
    self.worker = worker
    kind = .testPush
    slot = testPush
    generation = 0
    sequence = 0
  }
}

/// What a provider is told.
package struct Verdict: Sendable, Equatable {
  package var answer: Answer
  /// Nil when the notification was accepted.
  package var rejection: Rejection?
  /// This decides nothing yet: it tells the reader of a flood for one device to go slowly.
  package var asksForPause: Bool

  package init(answer: Answer, rejection: Rejection?, asksForPause: Bool = false) {
    self.answer = answer
    self.rejection = rejection
    self.asksForPause = asksForPause
  }
}

/// One accepted notification in the hands of the worker that owns its device.
///
/// The object is reused. It is free when it is neither in a session nor in a commit group.
package final class Delivery {
  /// Where the notification's record is.
  package enum Storage: Equatable, Sendable {
    /// Not in the store, and not on its way there.
    case none
    /// In the group that gathers; may still be taken out without a trace.
    case gathering
    /// In a group that is being written.
    case sealed
    /// In the store.
    case durable
    /// A newer notification of the same device and app took its slot.
    case superseded
    /// Its write failed, and the store may have kept it all the same: see `Shard.settleDoubt`.
    case inDoubt
  }

  package enum Place: Equatable, Sendable {
    case none
    case ready
    case held
    /// Not accepted yet, for the session is full.
    case heldBack
    case inFlight
  }

  package var notification: Notification
  /// Nil once the provider has been answered.
  package var answer: Answer?
  /// Answers for older notifications that this one replaced before they were durable: they were accepted if it is.
  var riders: [Answer] = []
  package var device: Device
  package var storage = Storage.none
  package var place = Place.none
  /// Whether it waits in the part of the group that is written without delay.
  package var isUrgent = false
  /// Entries of a commit group that point here, whether they still mean anything or not.
  package var groupReferences = 0
  package var gatheredMilliseconds: UInt64 = 0
  /// Whether it has reached its last state, and only its record is still to be seen to.
  package var hasEnded = false
  /// The stored notification that this one replaces with the group that brings it in. It stays where that fails.
  var replaced: StoredFacts?
  /// Connections that ended before the device acknowledged it: see `StoredFacts.unacknowledgedEnds`.
  var unacknowledgedEnds: UInt8 = 0
  package var isLastFromStorage = false

  package init(notification: Notification, device: Device) {
    self.notification = notification
    self.device = device
  }

  /// What is to be known of it while it is stored.
  var storedFacts: StoredFacts {
    var stored = notification.storedFacts
    stored.unacknowledgedEnds = unacknowledgedEnds
    return stored
  }

  /// Whether it is to be sent by itself.
  var isSuspect: Bool { unacknowledgedEnds >= Limits.unacknowledgedEndsTogether }

  package var isFree: Bool { place == .none && groupReferences == 0 && storage != .sealed }
}

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
package final class Device {
  package let key: DeviceKey
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
  var backgroundPushes: [TopicKey: RateLimit.Bucket] = [:]
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

  /// Whether its registration and what is stored say all about it.
  package var isAtRest: Bool {
    session == nil && pendingWrites == 0 && durableRecordVersion == recordVersion
      && !awaitsRetry && !mustDrainAgain && retiredMilliseconds == nil
      && overflowOrders.isEmpty && endedOrders.isEmpty && unwrittenOrders.isEmpty
  }

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
  func stored(_ slot: MailboxSlot) -> StoredFacts? { stored.first { $0.slot == slot } }

  func addStored(_ facts: StoredFacts) { stored.append(facts) }

  /// Notes that who had the slot has it no more, or has ended.
  func removeStored(_ slot: MailboxSlot) -> StoredFacts? {
    guard let index = stored.firstIndex(where: { $0.slot == slot }) else { return nil }
    return stored.remove(at: index)
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
    stored = []
    knowsStored = false
  }

  /// Whether the notification of that order has ended and is in the store only until the group is written.
  func hasEnded(_ slot: MailboxSlot, order: UInt64) -> Bool {
    guard !endedOrders.isEmpty, let ended = endedOrders[slot] else { return false }
    return order <= ended.order
  }
}
