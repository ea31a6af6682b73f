import ApusCore
import ApusModel

/// A shard between a store that is a dictionary and devices that are arrays, driven like by a worker, with its own
/// records of every notification. Contradictions are added to `faults`.
final class ShardModel {
  struct Slot: Hashable {
    var device: DeviceKey
    var topic: TopicKey
    /// The index among the app's slots; 0 if irrelevant.
    var index: UInt8 = 0

    struct Topic: Hashable {
      var topic: TopicKey
      var environment: Environment
    }

    var counted: Topic { Topic(topic: topic, environment: device.environment) }

    /// All slots of the app.
    var first: Slot { Slot(device: device, topic: topic) }
  }

  struct Letter {
    var slot: Slot
    var mayBeStored: Bool
    var expirationSeconds: Int64
    var priority: Priority
    var payloadBytes: Int
    /// Empty if there is none.
    var collapseID = ""
    var isBackground = false
    var interface = ProviderInterface.http2
    /// Nil until the provider was answered.
    var isAccepted: Bool?

    var isReplaceable: Bool { isBackground || !collapseID.isEmpty }
  }

  struct Write {
    var slot: Slot
    /// Nil for a deletion.
    var order: UInt64?
    /// Whether it removes a notification that has not ended, for the put after it.
    var isEviction = false
  }

  struct Group {
    var number: UInt64
    var entries: [GroupEntry]
    var writes: [Write]
    /// Notifications that got no slot beside newer ones.
    var outdated: Set<UInt64>
    var counters: [TopicCounters]
    var traces: [SupersededTrace] = []
    /// Notifications whose last line for the ledger it has.
    var lines: Set<UInt64> = []
    /// Notifications whose end the ledger has once the group is written.
    var ends: Set<UInt64> = []
    /// Whether the disk has it, although the shard does not know.
    var isOnDisk = false
  }

  var shard: Shard
  private(set) var devices: [Device]
  var faults: [String] = []

  /// Every notification counted as received, by its order.
  var letters: [UInt64: Letter] = [:]
  /// Those that found their device's queue full and are undecided.
  var heldBack: Set<UInt64> = []
  /// Those whose end is not in the ledger.
  var live: Set<UInt64> = []
  /// The state after a crash.
  var store: [Slot: UInt64] = [:]
  /// The group being written: one at a time.
  var sealed: Group?
  /// The unacknowledged notifications of each device.
  var unanswered: [DeviceKey: [UInt32: UInt64]] = [:]
  /// The devices that have sent a filter on this connection.
  var filtered: Set<DeviceKey> = []
  /// Retired devices that are not purged yet.
  var purging: Set<DeviceKey> = []
  /// The newer notification that replaced a waiting one: its answer counts for both.
  var heirs: [UInt64: UInt64] = [:]
  /// Every notification's states by the shard's events, in order.
  var states: [UInt64: [DeliveryState]] = [:]
  /// Those that were received but have not ended, by the events.
  var pending: Set<UInt64> = []
  /// Connections that ended before each was acknowledged.
  var ends: [UInt64: Int] = [:]
  /// Those that lost their slot to a written group that the shard does not know of.
  var overwritten: Set<UInt64> = []
  /// Those that the disk kept from failed groups; the shard does not know.
  var inDoubt: Set<UInt64> = []
  /// The traces on the disk of notifications that only a session has.
  var traces: [UInt64: NotificationFacts] = [:]
  /// Those left by an earlier run: the first group removes them.
  var staleTraces: [NotificationFacts] = []
  /// Notifications whose end is in the ledger on the disk.
  var durableEnds: Set<UInt64> = []
  /// Notifications that were ever on the disk.
  var everStored: Set<UInt64> = []
  /// The counters after a crash.
  var durable: [Slot.Topic: TopicCounters] = [:]

  var loopMilliseconds: UInt64 = 1_000
  var wallMilliseconds: Int64 = 1_700_000_000_000
  var lastOrder: UInt64 = 100
  var wallSeconds: Int64 { wallMilliseconds / 1000 }

  init(devices count: Int = 2, memoryBytes: Int = Limits.memoryMegabytes << 20) {
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
  func renewShard() {
    shard = Self.shard(memoryBytes: shard.memory.limitBytes)
    devices = devices.map { old in
      let device = Device(key: old.key, registration: old.registration)
      device.retiredMilliseconds = old.retiredMilliseconds
      return device
    }
  }

  static let topics = [
    TopicKey(app: AppID(1)), TopicKey(app: AppID(1), suffix: .voip), TopicKey(app: AppID(2)),
    TopicKey(app: AppID(3)),
  ]

  func fault(_ text: String) { faults.append(text) }

  func inSession() -> [UInt64: Delivery] {
    var found: [UInt64: Delivery] = [:]
    for device in devices {
      device.session?.forEach { found[$0.notification.order] = $0 }
    }
    return found
  }

  /// Records what a newer notification replaced: an earlier one that waited.
  func noteReplaced(_ before: Set<UInt64>, _ expected: UInt64) {
    let after = inSession()
    var found: UInt64 = 0
    for order in before.sorted() where after[order] == nil {
      guard let older = letters[order] else { continue }
      let heir = after.keys.filter { newer in
        guard newer > order, let letter = letters[newer], letter.slot == older.slot else {
          return false
        }
        return letter.isBackground && older.isBackground
          || !letter.collapseID.isEmpty && letter.collapseID == older.collapseID
      }.min()
      guard let heir, live.remove(order) != nil else { continue }
      found += 1
      heirs[order] = heir
    }
    if found != expected { fault("\(found) were replaced, \(expected) were counted") }
  }

  /// Whether the acceptance of `order` is due when those are accepted.
  private func isAllowed(_ order: UInt64, _ allowed: Set<UInt64>) -> Bool {
    var next: UInt64? = order
    while let order = next {
      if allowed.contains(order) || letters[order]?.mayBeStored == false { return true }
      next = heirs[order]
    }
    return false
  }

  func count(_ state: DeliveryState) -> UInt64 { shard.ledger.counters.states[Int(state.rawValue)] }

  // MARK: Providers

  /// Records held-back notifications that are accepted now.
  func noteAdmitted() {
    guard !heldBack.isEmpty else { return }
    for event in shard.ledger.events where event.state == .received {
      if heldBack.remove(event.facts.order) != nil { live.insert(event.facts.order) }
    }
  }

  /// The notification's order; nil if it was refused.
  @discardableResult
  func submit(
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
    let before = inSession()
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
    noteReplaced(Set(before.keys), count(.replaced) - replaced)
    let isDead = count(.discardedTokenUnregistered) > dead
    if isDead, interface.refusesDeadTokens { fault("a push to a dead token is accepted") }
    takeVerdicts(allowed: isIgnored || isDead ? [order] : [], "submit")
    return order
  }

  /// A notification from the pool, which must be unused.
  func take() -> Notification {
    let notification = shard.pool.takeNotification()
    var held = false
    for device in devices {
      device.session?.forEach { if $0.notification === notification { held = true } }
    }
    let written = sealed?.entries.contains { $0.delivery?.notification === notification } ?? false
    if held || written { fault("a notification is given out that is in use") }
    return notification
  }

  func fill(_ notification: Notification, _ order: UInt64, _ letter: Letter) {
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
  func takeVerdicts(allowed: Set<UInt64>, _ verb: String) {
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
