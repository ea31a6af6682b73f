package import ApusCore
package import ApusModel

/// A shard between a store that is a dictionary and devices that are arrays, driven like by a worker, with its own
/// records of every notification. Contradictions are added to `faults`.
package final class ShardModel {
  package struct Slot: Hashable {
    package var device: DeviceKey
    package var topic: TopicKey
    /// The index among the app's slots; 0 if irrelevant.
    package var index: UInt8 = 0

    package struct Topic: Hashable {
      var topic: TopicKey
      var environment: Environment
    }

    package var counted: Topic { Topic(topic: topic, environment: device.environment) }

    /// All slots of the app.
    package var first: Slot { Slot(device: device, topic: topic) }
  }

  package struct Letter {
    package var slot: Slot
    package var mayBeStored: Bool
    package var expirationSeconds: Int64
    package var priority: Priority
    package var payloadBytes: Int
    /// Empty if there is none.
    package var collapseID = ""
    package var isBackground = false
    package var interface = ProviderInterface.http2
    /// Nil until the provider was answered.
    package var isAccepted: Bool?

    package var isReplaceable: Bool { isBackground || !collapseID.isEmpty }

    /// A small one that must not be stored.
    package static func volatile(to device: DeviceKey, _ topic: TopicKey) -> Letter {
      Letter(
        slot: Slot(device: device, topic: topic), mayBeStored: false, expirationSeconds: 0,
        priority: .immediate, payloadBytes: 1)
    }
  }

  package struct Write {
    package var slot: Slot
    /// Nil for a deletion.
    package var order: UInt64?
    /// Whether it removes a notification that has not ended, for the put after it.
    package var isEviction = false
  }

  package struct Group {
    package var number: UInt64
    package var entries: [GroupEntry]
    package var writes: [Write]
    /// Notifications that got no slot beside newer ones.
    package var outdated: Set<UInt64>
    package var counters: [TopicCounters]
    package var traces: [SupersededTrace] = []
    /// Notifications whose last line for the ledger it has.
    package var lines: Set<UInt64> = []
    /// Notifications whose end the ledger has once the group is written.
    package var ends: Set<UInt64> = []
    /// Whether the disk has it, although the shard does not know.
    package var isOnDisk = false
  }

  package var shard: Shard
  package private(set) var devices: [Device]
  package var faults: [String] = []

  /// Every notification counted as received, by its order.
  package var letters: [UInt64: Letter] = [:]
  /// How many of the ledger's events have been looked through for those.
  package var seenEvents = 0
  /// Those that found their device's queue full and are undecided.
  package var heldBack: Set<UInt64> = []
  /// Those whose end is not in the ledger.
  package var live: Set<UInt64> = []
  /// The state after a crash.
  package var store: [Slot: UInt64] = [:]
  /// The group being written: one at a time.
  package var sealed: Group?
  /// The notifications in all sessions, as they were after a notification was submitted, sent or acknowledged; nil
  /// after everything else. It is why those take no longer the more there are.
  package var known: Set<UInt64>?
  /// Those of the notifications sent that came from the store.
  package var sentFromStorage: Set<UInt64> = []
  /// The unacknowledged notifications of each device.
  package var unanswered: [DeviceKey: [UInt32: UInt64]] = [:]
  /// The devices that have sent a filter on this connection.
  package var filtered: Set<DeviceKey> = []
  /// Retired devices that are not purged yet.
  package var purging: Set<DeviceKey> = []
  /// The newer notification that replaced a waiting one: its answer counts for both.
  package var successors: [UInt64: UInt64] = [:]
  /// Every notification's states by the shard's events, in order.
  package var states: [UInt64: [DeliveryState]] = [:]
  /// Those that were received but have not ended, by the events.
  package var pending: Set<UInt64> = []
  /// Connections that ended before each was acknowledged.
  package var ends: [UInt64: Int] = [:]
  /// Those that lost their slot to a written group that the shard does not know of.
  package var overwritten: Set<UInt64> = []
  /// Those that the disk kept from failed groups; the shard does not know.
  package var inDoubt: Set<UInt64> = []
  /// The traces on the disk of notifications that only a session has.
  package var traces: [UInt64: NotificationFacts] = [:]
  /// Those left by an earlier run: the first group removes them.
  package var staleTraces: [NotificationFacts] = []
  /// Notifications whose end is in the ledger on the disk.
  package var durableEnds: Set<UInt64> = []
  /// Notifications that were ever on the disk.
  package var everStored: Set<UInt64> = []
  /// The counters after a crash.
  package var durable: [Slot.Topic: TopicCounters] = [:]

  package var loopMilliseconds: UInt64 = 1_000
  package var wallMilliseconds: Int64 = 1_700_000_000_000
  package var lastOrder: UInt64 = 100
  package var wallSeconds: Int64 { wallMilliseconds / 1000 }

  package init(devices count: Int = 2, memoryBytes: Int = Limits.memoryMegabytes << 20) {
    shard = Self.shard(memoryBytes: memoryBytes)
    devices = (0..<count).map { index in
      Device(
        key: DeviceKey(
          id: DeviceID(UInt64(index / 2 + 1)),
          environment: index % 2 == 0 ? .production : .development),
        registration: Registration())
    }
  }

  private static func shard(memoryBytes: Int) -> Shard {
    Shard(
      lingerMilliseconds: 20, unregisterGraceMilliseconds: 60_000, memoryBytes: memoryBytes)
  }

  /// A new shard and new devices, as after a start.
  package func renewShard() {
    shard = Self.shard(memoryBytes: shard.memory.limitBytes)
    seenEvents = 0
    devices = devices.map { old in
      let device = Device(key: old.key, registration: old.registration)
      device.retiredMilliseconds = old.retiredMilliseconds
      return device
    }
  }

  package static let topics = [
    TopicKey(app: AppID(1)), TopicKey(app: AppID(1), suffix: .voip), TopicKey(app: AppID(2)),
    TopicKey(app: AppID(3)),
  ]

  package func fault(_ text: String) { faults.append(text) }

  package func inSession() -> [UInt64: Delivery] {
    var found: [UInt64: Delivery] = [:]
    for device in devices {
      device.session?.forEach { found[$0.notification.order] = $0 }
    }
    return found
  }

  package var sessionCount: Int {
    devices.reduce(0) { $0 + ($1.session.map { $0.queuedCount + $0.inFlightCount } ?? 0) }
  }

  /// The notifications in all sessions. The caller sets `known` again.
  package func takeKnown() -> Set<UInt64> {
    defer { known = nil }
    if let known, known.count == sessionCount { return known }
    var found: Set<UInt64> = []
    for device in devices { device.session?.forEach { found.insert($0.notification.order) } }
    return found
  }

  /// Records what newer notifications replaced: some of `candidates`, which waited.
  ///
  /// - Parameters:
  ///   - before: those in the sessions before. A notification that came since is the likelier replacement.
  ///   - admitted: those that came since, but perhaps only to the store.
  /// - Returns: Those that were replaced.
  @discardableResult
  package func noteReplaced(
    _ candidates: Set<UInt64>, before: Set<UInt64>, admitted: Set<UInt64> = [], _ expected: UInt64
  ) -> Set<UInt64> {
    // `check` notices one that left its session all the same.
    if expected == 0, sessionCount >= before.count { return [] }
    let after = inSession()
    var found: Set<UInt64> = []
    for order in candidates.sorted() where after[order] == nil {
      guard let older = letters[order] else { continue }
      let newer = admitted.union(after.keys).filter { candidate in
        guard candidate > order, let letter = letters[candidate], letter.slot == older.slot else {
          return false
        }
        return letter.isBackground && older.isBackground
          || !letter.collapseID.isEmpty && letter.collapseID == older.collapseID
      }
      guard
        let successor = newer.filter({ !before.contains($0) }).min() ?? newer.min(),
        live.remove(order) != nil
      else { continue }
      found.insert(order)
      successors[order] = successor
    }
    if found.count != Int(expected) {
      fault("\(found.count) were replaced, \(expected) were counted")
    }
    return found
  }

  /// Whether the acceptance of `order` is due when those are accepted.
  private func isAllowed(_ order: UInt64, _ allowed: Set<UInt64>) -> Bool {
    var next: UInt64? = order
    while let order = next {
      if allowed.contains(order) || letters[order]?.mayBeStored == false { return true }
      next = successors[order]
    }
    return false
  }

  package func count(_ state: DeliveryState) -> UInt64 { shard.ledger.counters[state] }

  // MARK: Providers

  /// Records held-back notifications that are accepted now.
  package func noteAdmitted() {
    defer { seenEvents = shard.ledger.events.count }
    guard !heldBack.isEmpty else { return }
    for event in shard.ledger.events[seenEvents...] where event.state == .received {
      if heldBack.remove(event.facts.order) != nil { live.insert(event.facts.order) }
    }
  }

  /// The notification's order; nil if it was refused.
  @discardableResult
  package func submit(
    _ device: Device, _ topic: TopicKey, priority: Priority = .immediate,
    expiresInSeconds: Int64 = 86_400, payloadBytes: Int = 10, generation: UInt16 = 0,
    collapseID: String = "", isBackground: Bool = false, interface: ProviderInterface = .http2
  ) -> UInt64? {
    lastOrder += 1
    let order = lastOrder
    let notification = take()
    let letter = Letter(
      slot: Slot(device: device.key, topic: topic), mayBeStored: expiresInSeconds > 0,
      expirationSeconds: expiresInSeconds > 0 ? wallSeconds + expiresInSeconds : 0,
      priority: priority, payloadBytes: payloadBytes, collapseID: collapseID,
      isBackground: isBackground, interface: interface)
    fill(notification, order, letter)
    notification.claims.generation = generation
    let received = count(.received)
    letters[order] = letter
    let waiting = device.session?.heldBackCount ?? 0
    var before = takeKnown()
    let replaced = count(.replaced)
    let isIgnored = device.registration[topic]?.state == .ignored
    let dead = count(.discardedTokenUnregistered)
    let number = UInt32(order)
    let answer =
      interface == .binary
      ? Answer(worker: 1, connection: number, generation: 7, sequence: 0)
      : Answer(worker: 1, slot: number, generation: 7)
    shard.submit(
      notification, answer: answer, device: device, nowMilliseconds: wallMilliseconds,
      loopMilliseconds: loopMilliseconds)
    guard count(.received) > received else {
      if device.session?.heldBackCount ?? 0 > waiting {
        heldBack.insert(order)
        takeVerdicts(allowed: [], "submit")
        return order
      }
      letters[order] = nil
      if shard.verdicts.count != 1 || shard.verdicts.first?.rejection == nil {
        fault("a notification that was not received was not refused")
      }
      shard.verdicts.removeAll()
      return nil
    }
    live.insert(order)
    noteReplaced(before, before: before, count(.replaced) - replaced)
    let isDead = count(.discardedTokenUnregistered) > dead
    if isDead, interface.refusesDeadTokens { fault("a push to a dead token is accepted") }
    takeVerdicts(allowed: isIgnored || isDead ? [order] : [], "submit")
    if count(.replaced) == replaced {
      if sessionCount > before.count { before.insert(order) }
      known = before
    }
    return order
  }

  /// A notification from the pool, which must be unused.
  package func take() -> Notification {
    let notification = shard.pool.takeNotification()
    var held = false
    for device in devices {
      device.session?.forEach { if $0.notification === notification { held = true } }
    }
    let written = sealed?.entries.contains { $0.delivery?.notification === notification } ?? false
    if held || written { fault("a notification is given out that is in use") }
    return notification
  }

  package func fill(_ notification: Notification, _ order: UInt64, _ letter: Letter) {
    notification.order = order
    notification.claims = TokenClaims(
      device: letter.slot.device.id, topic: letter.slot.topic,
      environment: letter.slot.device.environment, generation: 0)
    notification.expirationSeconds = letter.expirationSeconds
    notification.priority = letter.priority
    notification.isFromStorage = false
    notification.slotIndex = 0
    notification.isBackground = letter.isBackground
    notification.interface = letter.interface
    notification.collapseID.set(Array(letter.collapseID.utf8).span)
    let payload = [UInt8](repeating: UInt8(truncatingIfNeeded: order), count: letter.payloadBytes)
    notification.payload.set(payload.span)
  }

  /// Accepting answers are due only for `allowed`, and for what is not to be stored.
  package func takeVerdicts(allowed: Set<UInt64>, _ verb: String) {
    known = nil
    noteAdmitted()
    for verdict in shard.verdicts {
      let order = UInt64(verdict.answer.slot)
      guard let letter = letters[order] else {
        fault("\(verb): an answer to nobody")
        continue
      }
      if letter.isAccepted != nil { fault("\(verb): \(order) is answered twice") }
      if let notice = verdict.notice {
        if notice != .flood, (notice == .heldBack) != heldBack.contains(order) {
          fault("\(verb): a wrong notice about \(order)")
        }
        continue
      }
      letters[order]?.isAccepted = verdict.rejection == nil
      let refusals: [Reason?] = [.tooManyRequests, .serviceUnavailable]
      if heldBack.remove(order) != nil, !refusals.contains(verdict.rejection?.reason) {
        fault("\(verb): \(order) is answered and was not received")
      }
      if verdict.rejection == nil, !isAllowed(order, allowed) {
        fault("\(verb): \(order) is accepted, and neither stored nor acknowledged")
      }
    }
    shard.verdicts.removeAll()
  }
}
