import ApusCore
import ApusDirectory
import ApusLoop
import ApusModel
import ApusStore
import ApusWire

/// The subscriptions of a worker's connected devices, and the broadcasts on their way to them.
///
/// A broadcast is not queued for each device. Its channel's newest one is kept here, and a device is sent what is
/// newest when its turn comes: one that is slow costs no memory, and skips what a newer broadcast has replaced. Walks
/// along the devices of a channel give the turns, a few devices between other work.
///
/// Confined to its worker's loop.
@safe final class Subscriptions: @unchecked Sendable {
  /// A channel that devices of this worker are subscribed to.
  private struct Known {
    let channel: Channel
    var newest: Broadcast?
    /// The bytes of `newest` that are the same for all devices; nil without an app in the directory.
    var frame: CourierBroadcastTail?
    var isWalked = false
    /// A newer broadcast came during the walk.
    var isWalkedAgain = false
    /// Acknowledgements that the register does not know.
    var deliveredCount: UInt64 = 0
  }

  /// A broadcast that a device has not acknowledged.
  struct Sent {
    var messageID: UInt32
    var number: UInt32
    var order: UInt64
  }

  /// What is to be sent to a device next.
  struct Due {
    var sent: Sent
    var frame: CourierBroadcastTail
    /// Whether it was published before the device came, so that an earlier connection may have brought it.
    var hasWaited: Bool
  }

  /// For canaries of the simulation.
  var fault: BroadcastFault?
  private let context: WorkerContext
  private let register: ChannelRegister
  let rows: SubscriptionRows
  private var table = SubscriptionTable()
  private var known: [UInt32: Known] = [:]
  private var walks = FIFO<SubscriptionTable.Walk>()
  /// Whether a device has answered for a broadcast in this turn.
  private var hasAnswers = false
  /// Devices whose requests name a channel that this copy of the register does not know, by their slots: what they want
  /// waits until the copy is up to date.
  private var waiting: [Int32: (number: UInt64, changes: [(_ isUpToDate: Bool) -> Void])] = [:]
  private var lastWaiting: UInt64 = 0

  /// Devices that a walk visits before another has its turn.
  private static let walkEntries = 16

  init(_ context: WorkerContext) {
    self.context = context
    register = context.shared.channels
    rows = SubscriptionRows(context)
  }

  // MARK: Events

  func learn(_ event: ChannelEvent) {
    switch event {
    case .published(let broadcast): publish(broadcast)
    case .created: break
    case .deleted(let number, _):
      shareDelivered(number)
      rows.counter.remove(number)
      table.removeAll(in: number)
      known[number] = nil
    }
  }

  /// Makes a broadcast the newest of its channel, unless a newer one is here already.
  private func publish(_ broadcast: Broadcast) {
    let number = broadcast.number
    guard var entry = known[number], entry.newest?.order ?? 0 < broadcast.order else { return }
    replace(&entry, by: broadcast)
    if table.publish(number), fault != .beginsNoWalks {
      if entry.isWalked {
        entry.isWalkedAgain = true
      } else {
        entry.isWalked = true
        walks.append(table.walk(number))
      }
    }
    known[number] = entry
  }

  private func replace(_ entry: inout Known, by broadcast: Broadcast) {
    entry.newest = broadcast
    guard let topic = context.trust.directory.topicHash(of: broadcast.topic) else {
      entry.frame = nil
      return
    }
    let expiry = UInt32(clamping: min(broadcast.expirationSeconds, Int64(UInt32.max) - 1))
    let mark = CourierChannelMark(
      id: broadcast.channel.id.bytes, newestNanoseconds: broadcast.sentNanoseconds)
    let payload = broadcast.payload
    entry.frame = CourierBroadcastTail(
      topic: topic, messageID: broadcast.messageID,
      expirySeconds: broadcast.isStored ? expiry : nil,
      sentNanoseconds: broadcast.sentNanoseconds, priority: broadcast.priority, id: broadcast.id,
      channel: mark, payload: payload.span)
  }

  // MARK: Turns

  var hasWalks: Bool { !walks.isEmpty }

  /// Called at a turn's end: whether broadcasts are under way, or devices answered for one in this turn.
  func takeActivity() -> Bool {
    defer { hasAnswers = false }
    return hasAnswers || hasWalks
  }

  /// Goes on with the walks, and calls `visit` with the slot of each device that has something to be sent.
  func step(_ visit: (Int32) -> Void) {
    var left = Limits.broadcastDevicesAtOnce
    while left > 0, var walk = walks.popFirst() {
      var turn = min(left, Self.walkEntries)
      left -= turn
      var isOver = false
      while turn > 0, !isOver {
        if let slot = table.next(&walk) { visit(slot) } else { isOver = true }
        turn -= 1
      }
      if isOver { finish(walk) } else { walks.append(walk) }
    }
  }

  private func finish(_ walk: SubscriptionTable.Walk) {
    guard known[walk.channel] != nil else { return }
    known[walk.channel]?.isWalked = false
    if known[walk.channel]?.isWalkedAgain == true {
      known[walk.channel]?.isWalkedAgain = false
      known[walk.channel]?.isWalked = true
      walks.append(table.walk(walk.channel))
    } else {
      forgetIfEmpty(walk.channel)
    }
  }

  // MARK: Devices that come and go

  /// A device is ready to receive: takes up its subscriptions.
  func connect(_ device: DeviceKey, slot: Int32) throws(StoreError) {
    table.removeAll(of: slot) { _ in }
    guard register.hasAny else { return }
    for subscription in try rows.record(of: device).subscriptions {
      guard let entry = register.entry(subscription.channel),
        entry.channel.environment == device.environment
      else { continue }
      insert(entry, slot: slot, after: subscription, seenNanoseconds: 0)
    }
  }

  private func insert(
    _ entry: ChannelRegister.Entry, slot: Int32,
    after subscription: SubscriptionRecord.Subscription, seenNanoseconds: UInt64
  ) {
    let number = entry.number
    if let stored = entry.stored {
      if known[number] != nil { publish(stored) }
    }
    if known[number] == nil {
      var fresh = Known(channel: entry.channel)
      if let stored = entry.stored { replace(&fresh, by: stored) }
      known[number] = fresh
    }
    let isDue =
      entry.stored.map { stored in
        !stored.isExpired(atSeconds: context.wallSeconds)
          && stored.order > subscription.newestOrder && stored.sentNanoseconds > seenNanoseconds
          && !(stored.order == subscription.triedOrder
            && Int(subscription.triedCount) >= Limits.unacknowledgedEnds)
      } ?? false
    _ = table.insert(number, of: slot, hasNewest: !isDue)
  }

  /// A device's connection ends: ends its subscriptions here, and stores which broadcasts it has.
  ///
  /// Not before that: a row of each device would be read and written after each stored broadcast, a good part of what
  /// its delivery costs. All that it would spare is one repetition, with the same id, after the service was killed.
  func disconnect(_ device: DeviceKey, slot: Int32, unacknowledged: [Sent]) {
    waiting[slot] = nil
    guard table.hasAny(of: slot) else { return }
    var marks: [ChannelID: SubscriptionRecord.Subscription] = [:]
    var numbers: [UInt32] = []
    table.removeAll(of: slot) { subscription in
      numbers.append(subscription.channel)
      guard let entry = known[subscription.channel], entry.channel.storage == .newest,
        let newest = entry.newest?.order
      else { return }
      let tried = unacknowledged.last { $0.number == subscription.channel }?.order
      guard subscription.isUnsaved || tried != nil else { return }
      let hasNewest = subscription.hasNewest && tried != newest
      marks[entry.channel.id] = SubscriptionRecord.Subscription(
        channel: entry.channel.id, newestOrder: hasNewest ? newest : newest - 1,
        triedOrder: tried == newest ? newest : 0)
    }
    for number in numbers { forgetIfEmpty(number) }
    if !marks.isEmpty, fault != .savesNoMarks { rows.save(marks, of: device) }
  }

  /// The device is gone for good.
  func forget(_ device: DeviceKey) throws(StoreError) {
    guard register.hasAny else { return }
    let record = try rows.record(of: device)
    guard !record.subscriptions.isEmpty else { return }
    rows.write(SubscriptionRecord(), replacing: record, of: device) { _ in }
  }

  private func forgetIfEmpty(_ number: UInt32) {
    guard table.count(of: number) == 0, known[number]?.isWalked == false else { return }
    shareDelivered(number)
    known[number] = nil
  }

  // MARK: Changes

  typealias ChangeCompletion =
    (CourierChannelConfirmation.Status, [CourierChannelTopic]) -> Void

  /// Carries out a device's request, and calls `completion` once it is durable. Those of a device keep their order.
  func change(
    _ request: CourierSubscriptions, of device: Device, slot: Int32,
    completion: @escaping ChangeCompletion
  ) {
    guard waiting[slot] == nil else {
      waiting[slot]?.changes.append { [weak self, weak device] _ in
        guard let device else { return }
        self?.change(request, of: device, slot: slot, completion: completion)
      }
      return
    }
    guard let source = register.source, namesUnknown(request) else {
      return carryOut(request, of: device, slot: slot, completion: completion)
    }
    lastWaiting += 1
    let number = lastWaiting
    let first = { [weak self, weak device] (isUpToDate: Bool) in
      guard isUpToDate, let self, let device else { return completion(.unavailable, []) }
      carryOut(request, of: device, slot: slot, completion: completion)
    }
    waiting[slot] = (number, [first])
    source.bringUpToDate { [weak self, context] isUpToDate in
      context.loop.perform { [weak self] in self?.goOn(slot, number, isUpToDate) }
    }
  }

  private func goOn(_ slot: Int32, _ number: UInt64, _ isUpToDate: Bool) {
    guard waiting[slot]?.number == number else { return }
    for change in waiting.removeValue(forKey: slot)?.changes ?? [] { change(isUpToDate) }
  }

  /// Whether a device wants to subscribe to a channel that may be newer than this copy of the register.
  private func namesUnknown(_ request: CourierSubscriptions) -> Bool {
    request.topics.contains { topic in
      topic.subscribed.contains { mark in
        ChannelID(bytes: mark.id.span).map { register.entry($0) == nil } ?? false
      }
    }
  }

  private func carryOut(
    _ request: CourierSubscriptions, of device: Device, slot: Int32,
    completion: @escaping ChangeCompletion
  ) {
    let key = device.key
    let old: SubscriptionRecord
    do throws(StoreError) { old = try rows.record(of: key) } catch {
      context.logUnreadable(.record, of: key.id, error)
      return completion(.unavailable, [])
    }
    var change = SubscriptionChange(old, register, in: key.environment)
    var request = request
    if fault == .keepsUnsubscribed {
      for place in request.topics.indices { request.topics[place].unsubscribed = [] }
    }
    change.apply(request, directory: context.trust.directory) { device.lists($0) }
    // What it confirms may still be being written, or have been written after all: it is confirmed behind a write.
    guard change.record != old || !rows.isCertain(key) else {
      return completion(change.status, topics(of: old))
    }
    rows.write(change.record, replacing: old, of: key) { [weak device] error in
      guard error == nil else { return completion(.unavailable, self.topics(of: old)) }
      // It may have gone, and come back as another connection, which has read the new record.
      if let device, device.key == key, device.session != nil, device.connectionSlot == slot {
        self.follow(change, slot: slot)
      }
      completion(change.status, self.topics(of: change.record))
    }
  }

  private func follow(_ change: SubscriptionChange, slot: Int32) {
    var gone: [UInt32] = []
    let wanted = Set(change.record.subscriptions.compactMap { register.entry($0.channel)?.number })
    table.forEach(of: slot) { if !wanted.contains($0.channel) { gone.append($0.channel) } }
    for number in gone {
      table.remove(number, of: slot)
      forgetIfEmpty(number)
    }
    for subscription in change.record.subscriptions {
      guard let entry = register.entry(subscription.channel) else { continue }
      insert(
        entry, slot: slot, after: subscription,
        seenNanoseconds: change.seenNanoseconds[subscription.channel] ?? 0)
    }
  }

  /// All subscriptions of a record, by topic.
  private func topics(of record: SubscriptionRecord) -> [CourierChannelTopic] {
    var topics: [CourierChannelTopic] = []
    for subscription in record.subscriptions {
      guard let channel = register.entry(subscription.channel)?.channel,
        let text = context.trust.directory.topicText(channel.topic)
      else { continue }
      let mark = CourierChannelMark(id: channel.id.bytes)
      if let place = topics.firstIndex(where: { $0.topic == text }) {
        topics[place].subscribed.append(mark)
      } else {
        topics.append(CourierChannelTopic(topic: text, subscribed: [mark]))
      }
    }
    return topics
  }

  // MARK: Sending

  /// The next broadcast for a device that has room for one; it counts as sent. Nil if there is none for now.
  func next(for device: Device, slot: Int32, radioIsInUse: Bool) -> Due? {
    while true {
      var isTimely = false
      let number = table.nextDue(of: slot) { number in
        guard let newest = known[number]?.newest else { return true }
        isTimely =
          device.timing(
            ofBroadcast: newest.priority, on: newest.topic, radioIsInUse: radioIsInUse) == .now
        // One that is not to be stored has one attempt.
        return isTimely || !newest.isStored
      }
      guard let number else { return nil }
      let hasWaited = table.noteSent(number, to: slot)
      guard isTimely, let entry = known[number], let newest = entry.newest,
        let frame = entry.frame, !newest.isExpired(atSeconds: context.wallSeconds)
      else { continue }
      return Due(
        sent: Sent(messageID: newest.messageID, number: number, order: newest.order),
        frame: frame, hasWaited: hasWaited)
    }
  }

  /// A device answered for a broadcast; `isDelivered` unless it refused it.
  func acknowledge(_ sent: Sent, slot: Int32, isDelivered: Bool) {
    hasAnswers = true
    guard known[sent.number] != nil else { return }
    if known[sent.number]?.channel.storage == .newest {
      table.noteUnsaved(sent.number, of: slot)
    }
    if isDelivered { known[sent.number]?.deliveredCount += 1 }
  }

  // MARK: Counters

  /// Called each second.
  func secondPassed() {
    for number in Array(known.keys) { shareDelivered(number) }
    rows.counter.secondPassed()
  }

  private func shareDelivered(_ number: UInt32) {
    guard let entry = known[number], entry.deliveredCount > 0 else { return }
    register.add(delivered: entry.deliveredCount, to: entry.channel.id)
    known[number]?.deliveredCount = 0
  }
}
