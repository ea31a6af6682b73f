import ApusCore
import ApusLog
import ApusModel
import ApusStore
import Synchronization

/// The channels of all apps with their newest broadcasts, in memory and in the store. All workers and the
/// administration use it.
///
/// A channel exists once it is durable, and until its removal is. Workers know it by a number, which no other channel
/// gets while the process runs, and learn what happens to it as `ChannelEvent`s.
final class ChannelRegister: Sendable {
  typealias Entry = ChannelTable.Entry

  private struct State {
    var channels = ChannelTable()
    /// Channels that are being written.
    var pending: [ChannelTable.Place: Int] = [:]
  }

  private let store: any DurableStore
  private let log: Log
  private let order: AcceptanceOrder
  private let state = Mutex(State())
  /// Held while a broadcast is numbered and submitted, so that the store gets them in their order.
  private let publishing = Mutex(())
  /// What workers have counted.
  let subscriptionCounts = SubscriptionCounts()
  let events = ChannelEvents()
  private let copied = Mutex<(any ChannelSource)?>(nil)

  /// Reads the channels of the store, and what they keep.
  ///
  /// - Parameter readsStored: False for a canary of the simulation.
  init(
    _ store: any DurableStore, order: AcceptanceOrder, log: Log, nowSeconds: Int64,
    readsStored: Bool = true
  ) throws(StoreError) {
    self.store = store
    self.order = order
    self.log = log
    var found: [Channel] = []
    var faultCount = 0
    var firstFault: RecordError?
    try store.forEachChannel {
      found.append($0)
    } fault: { fault in
      faultCount += 1
      firstFault = firstFault ?? fault
    }
    if let firstFault {
      log(
        .error, "channels cannot be read and are left out", .number("channels", faultCount),
        .text("first", "\(firstFault)"))
    }
    found.sort(by: Self.areInOrder)
    state.withLock { state in
      for channel in found { state.channels.insert(channel) }
    }
    for channel in found where channel.storage == .newest && readsStored {
      try readStored(channel, nowSeconds: nowSeconds)
    }
    try readTotals()
  }

  private func readTotals() throws(StoreError) {
    try store.forEachChannelDay(ChannelDayRecord.Key.total) { key, total in
      guard let id = key.channel else { return }
      state.withLock { state in
        state.channels[id]?.publishedCount = total.published
        state.channels[id]?.deliveredCount = total.delivered
      }
    }
  }

  private func readStored(_ channel: Channel, nowSeconds: Int64) throws(StoreError) {
    let key = ChannelRecord.broadcastKey(of: channel)
    guard let value = try store.get(.channels, key: key.span) else { return }
    do throws(RecordError) {
      let record = try BroadcastRecord(decoding: value.span)
      guard record.expirationSeconds > nowSeconds else { return removeStored(of: channel) }
      state.withLock { state in
        guard let number = state.channels[channel.id]?.number else { return }
        state.channels[channel.id]?.stored = Broadcast(record, number: number, channel: channel)
      }
    } catch {
      log(
        .error, "a stored broadcast cannot be read and is left out",
        .text("channel", channel.id.text),
        .text("reason", "\(error)"))
    }
  }

  /// By creation. Ids are random, so they only decide between channels of one millisecond.
  private static func areInOrder(_ left: Channel, _ right: Channel) -> Bool {
    (left.createdMilliseconds, left.id.high, left.id.low)
      < (right.createdMilliseconds, right.id.high, right.id.low)
  }

  // MARK: Looking up

  /// The channel with that id, if it belongs to the app in the environment.
  func channel(_ id: ChannelID, of app: AppID, in environment: Environment) -> Channel? {
    entry(id, of: app, in: environment)?.channel
  }

  /// The same with what the service knows of it.
  func entry(_ id: ChannelID, of app: AppID, in environment: Environment) -> Entry? {
    let found = state.withLock { $0.channels[id] }
    return found.flatMap {
      $0.channel.app == app && $0.channel.environment == environment ? $0 : nil
    }
  }

  func entry(_ id: ChannelID) -> Entry? { state.withLock { $0.channels[id] } }

  /// All of them, in no order.
  func entries() -> [Entry] { state.withLock { Array($0.channels.all) } }

  /// Whether there is any channel: without one no device has subscriptions.
  var hasAny: Bool { state.withLock { !$0.channels.isEmpty } }

  /// The app's channels, the oldest first.
  func channels(of app: AppID, in environment: Environment) -> [Channel] {
    state.withLock { state in
      let ids = state.channels.ids(of: ChannelTable.Place(app, environment))
      return ids.compactMap { state.channels[$0]?.channel }
    }
  }

  /// The same in all environments.
  func channels(of app: AppID) -> [Channel] {
    // Each part is in order, so that sorting is merging.
    Environment.allCases.flatMap { channels(of: app, in: $0) }.sorted(by: Self.areInOrder)
  }

  /// The channel with that id, whichever app it belongs to.
  func channel(_ id: ChannelID) -> Channel? { entry(id)?.channel }

  /// Those of all apps, the oldest first.
  func all() -> [Channel] {
    state.withLock { $0.channels.all.map(\.channel) }.sorted(by: Self.areInOrder)
  }

  // MARK: Copies

  /// Where a copy of another node's register learns what that one knows; nil in the register itself.
  var source: (any ChannelSource)? {
    get { copied.withLock { $0 } }
    set { copied.withLock { $0 = newValue } }
  }

  /// Notes in a copy that a channel exists. Calls `completion` on the commit thread once its row is durable.
  func copy(_ channel: Channel, completion: @escaping @Sendable (StoreError?) -> Void) {
    let isNew = state.withLock { state in
      guard state.channels[channel.id] == nil else { return false }
      state.channels.insert(channel)
      return true
    }
    store.commit(group(of: channel), completion: completion)
    if isNew { events.tell(.created(channel)) }
  }

  /// Notes in a copy that the channel keeps nothing.
  func empty(_ id: ChannelID) {
    let kept = state.withLock { state in
      defer { state.channels[id]?.stored = nil }
      return state.channels[id]?.stored
    }
    if let kept { removeStored(of: kept.channel) }
  }

  /// What `add(delivered:to:)` has counted since the last call: the copy's part of what the register counts.
  func takeDelivered() -> [ChannelID: UInt64] {
    state.withLock { state in
      var taken: [ChannelID: UInt64] = [:]
      for entry in state.channels.all where entry.deliveredCount > 0 {
        taken[entry.channel.id] = entry.deliveredCount
      }
      for id in taken.keys { state.channels[id]?.deliveredCount = 0 }
      return taken
    }
  }

  // MARK: Changes

  /// Creates a channel. Calls `completion` on the commit thread: with nil once it is durable.
  ///
  /// Throws CannotCreateChannelConfig if the app has `Limits.channelsPerApp`; `completion` is not called then.
  func create(
    _ channel: Channel, completion: @escaping @Sendable (StoreError?) -> Void
  ) throws(Refusal) {
    let place = ChannelTable.Place(of: channel)
    let hasRoom = state.withLock { state in
      let pending = state.pending[place, default: 0]
      guard state.channels.ids(of: place).count + pending < Limits.channelsPerApp else {
        return false
      }
      state.pending[place] = pending + 1
      return true
    }
    guard hasRoom else { throw Refusal(.channel(.tooMany(channel.app))) }
    store.commit(group(of: channel)) { [self] error in
      state.withLock { state in
        state.pending[place, default: 1] -= 1
        if state.pending[place] == 0 { state.pending[place] = nil }
        if error == nil { state.channels.insert(channel) }
      }
      if error == nil { events.tell(.created(channel)) }
      // Its creator was told of a failure: it must not appear after a restart.
      if error?.isInDoubt == true { removeRow(of: channel) { _ in } }
      completion(error)
    }
  }

  private func group(of channel: Channel) -> WriteGroup {
    var group = store.makeGroup()
    let (key, value) = (ChannelRecord.key(of: channel), ChannelRecord.value(of: channel))
    group.put(.channels, key: key.span, value: value.span)
    return group
  }

  /// Deletes a channel. Calls `completion` on the commit thread: with nil once it is gone from the disk.
  func delete(_ channel: Channel, completion: @escaping @Sendable (StoreError?) -> Void) {
    removeRow(of: channel) { [self] error in
      if error == nil { forget([channel]) }
      completion(error)
    }
  }

  private func removeRow(
    of channel: Channel, completion: @escaping @Sendable (StoreError?) -> Void
  ) {
    var group = store.makeGroup()
    remove(channel, in: &group)
    store.commit(group, completion: completion)
  }

  private func remove(_ channel: Channel, in group: inout WriteGroup) {
    let (key, broadcast) = (ChannelRecord.key(of: channel), ChannelRecord.broadcastKey(of: channel))
    let total = ChannelDayRecord.encode(
      .init(
        day: ChannelDayRecord.Key.total, app: channel.app, environment: channel.environment,
        channel: channel.id))
    group.delete(.channels, key: key.span)
    group.delete(.channels, key: broadcast.span)
    group.delete(.channels, key: total.span)
  }

  /// Their rows are gone.
  private func forget(_ channels: [Channel]) {
    let gone = state.withLock { state in
      channels.compactMap { channel in state.channels.remove(channel).map { ($0, channel.id) } }
    }
    for (number, id) in gone { events.tell(.deleted(number: number, id)) }
  }

  /// Deletes the channels of apps that may have none any more ("Setting up broadcast push notifications": disabling the
  /// feature deletes them). Those of an app that the directory no longer lists stay: its line may have been removed by
  /// mistake.
  func deleteUnwanted(_ directory: Directory) {
    let unwanted = state.withLock { state in
      state.channels.all.map(\.channel).filter { directory.app($0.app)?.broadcasts == false }
    }
    guard !unwanted.isEmpty else { return }
    var group = store.makeGroup()
    for channel in unwanted { remove(channel, in: &group) }
    store.commit(group) { [self] error in
      guard let error else {
        forget(unwanted)
        log(
          .notice, "channels deleted, because broadcasts are off for their apps",
          .number("channels", unwanted.count))
        return
      }
      log(
        .error, "channels of apps without broadcasts not deleted; they are at the next start",
        .text("reason", "\(error)"))
    }
  }

  // MARK: Broadcasts

  /// Accepts a broadcast. Calls `completion` once, with nil when it is accepted: on the commit thread if the channel
  /// stores broadcasts, otherwise before this returns.
  ///
  /// A channel that stores its newest broadcast loses it to one that is not to be stored: what devices get later must
  /// never be older than what others have.
  func publish(
    _ draft: BroadcastDraft, on entry: Entry,
    completion: @escaping @Sendable (StoreError?) -> Void
  ) {
    let refusal: StoreError? = publishing.withLock { _ in
      guard let order = nextOrder() else { return .unavailable }
      let broadcast = draft.broadcast(on: entry, order: order)
      if entry.channel.storage == .newest {
        write(broadcast, completion: completion)
      } else {
        accept(broadcast)
      }
      return nil
    }
    if refusal != nil || entry.channel.storage == .none { completion(refusal) }
  }

  /// Never 0, which means no broadcast where orders are compared and stored.
  private func nextOrder() -> UInt64? {
    let next = order.next()
    return next == 0 ? order.next() : next
  }

  private func write(
    _ broadcast: Broadcast, completion: @escaping @Sendable (StoreError?) -> Void
  ) {
    let id = broadcast.channel.id
    state.withLock { $0.channels[id]?.pendingCount += 1 }
    store.commit(group(of: broadcast)) { [self] error in
      state.withLock { $0.channels[id]?.pendingCount -= 1 }
      if error == nil { accept(broadcast) } else { restoreStored(of: broadcast.channel, error) }
      completion(error)
    }
  }

  private func group(of broadcast: Broadcast) -> WriteGroup {
    var group = store.makeGroup()
    let key = ChannelRecord.broadcastKey(of: broadcast.channel)
    if broadcast.isStored {
      let value = broadcast.record.encoded()
      group.put(.channels, key: key.span, value: value.span)
    } else {
      group.delete(.channels, key: key.span)
    }
    return group
  }

  private func accept(_ broadcast: Broadcast) {
    let id = broadcast.channel.id
    let isThere = state.withLock { state in
      guard state.channels[id] != nil else { return false }
      state.channels[id]?.publishedCount += 1
      if broadcast.channel.storage == .newest {
        state.channels[id]?.stored = broadcast.isStored ? broadcast : nil
      }
      return true
    }
    if isThere {
      events.tell(.published(broadcast))
    } else if broadcast.isStored {
      // The channel was deleted before the broadcast was written.
      removeStored(of: broadcast.channel)
    }
  }

  /// A broadcast whose provider was told of a failure must not appear after a restart: writes again what the channel
  /// kept before.
  private func restoreStored(of channel: Channel, _ error: StoreError?) {
    guard error?.isInDoubt == true else { return }
    guard let stored = entry(channel.id)?.stored else { return removeStored(of: channel) }
    store.commit(group(of: stored)) { _ in }
  }

  private func removeStored(of channel: Channel) {
    var group = store.makeGroup()
    let key = ChannelRecord.broadcastKey(of: channel)
    group.delete(.channels, key: key.span)
    store.commit(group) { _ in }
  }

  /// Forgets broadcasts that have been kept long enough. Called now and then.
  func dropExpired(nowSeconds: Int64) {
    let expired = state.withLock { state in
      state.channels.all.compactMap { entry in
        entry.stored.flatMap { $0.isExpired(atSeconds: nowSeconds) ? $0 : nil }
      }
    }
    for broadcast in expired {
      publishing.withLock { _ in
        let isNewest = state.withLock { state in
          // The row may be that of one that is being written.
          guard let entry = state.channels[broadcast.channel.id], entry.stored === broadcast,
            entry.pendingCount == 0
          else { return false }
          state.channels[broadcast.channel.id]?.stored = nil
          return true
        }
        if isNewest { removeStored(of: broadcast.channel) }
      }
    }
  }

  /// Devices have acknowledged broadcasts of a channel.
  func add(delivered count: UInt64, to id: ChannelID) {
    state.withLock { $0.channels[id]?.deliveredCount += count }
  }
}
