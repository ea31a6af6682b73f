import ApusCore
import ApusLog
import ApusModel
import ApusStore
import Synchronization

/// The channels of all apps, in memory and in the store. All workers and the administration use it.
///
/// A channel exists once it is durable, and until its removal is.
final class ChannelRegister: Sendable {
  private struct Place: Hashable {
    var app: AppID
    var environment: Environment
  }

  private struct State {
    var channels: [ChannelID: Channel] = [:]
    /// Of each app, in the order of their creation.
    var ids: [Place: [ChannelID]] = [:]
    /// Channels that are being written.
    var pending: [Place: Int] = [:]

    mutating func insert(_ channel: Channel) {
      channels[channel.id] = channel
      ids[Place(app: channel.app, environment: channel.environment), default: []].append(channel.id)
    }

    mutating func remove(_ channel: Channel) {
      guard channels.removeValue(forKey: channel.id) != nil else { return }
      let place = Place(app: channel.app, environment: channel.environment)
      ids[place]?.removeAll { $0 == channel.id }
      if ids[place]?.isEmpty == true { ids[place] = nil }
    }
  }

  private let store: any DurableStore
  private let log: Log
  private let state = Mutex(State())

  /// Reads the channels of the store.
  init(_ store: any DurableStore, log: Log) throws(StoreError) {
    self.store = store
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
      for channel in found { state.insert(channel) }
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
    let found = state.withLock { $0.channels[id] }
    return found.flatMap { $0.app == app && $0.environment == environment ? $0 : nil }
  }

  /// The app's channels, the oldest first.
  func channels(of app: AppID, in environment: Environment) -> [Channel] {
    state.withLock { state in
      let ids = state.ids[Place(app: app, environment: environment)] ?? []
      return ids.compactMap { state.channels[$0] }
    }
  }

  /// The same in all environments.
  func channels(of app: AppID) -> [Channel] {
    // Each part is in order, so that sorting is merging.
    Environment.allCases.flatMap { channels(of: app, in: $0) }.sorted(by: Self.areInOrder)
  }

  /// The channel with that id, whichever app it belongs to.
  func channel(_ id: ChannelID) -> Channel? { state.withLock { $0.channels[id] } }

  /// Those of all apps, the oldest first.
  func all() -> [Channel] {
    state.withLock { Array($0.channels.values) }.sorted(by: Self.areInOrder)
  }

  // MARK: Changes

  /// Creates a channel. Calls `completion` on the commit thread: with nil once it is durable.
  ///
  /// Throws CannotCreateChannelConfig if the app has `Limits.channelsPerApp`; `completion` is not called then.
  func create(
    _ channel: Channel, completion: @escaping @Sendable (StoreError?) -> Void
  ) throws(Refusal) {
    let place = Place(app: channel.app, environment: channel.environment)
    let hasRoom = state.withLock { state in
      let pending = state.pending[place, default: 0]
      guard (state.ids[place]?.count ?? 0) + pending < Limits.channelsPerApp else { return false }
      state.pending[place] = pending + 1
      return true
    }
    guard hasRoom else { throw Refusal(.channel(.tooMany(channel.app))) }
    var group = store.makeGroup()
    let (key, value) = (ChannelRecord.key(of: channel), ChannelRecord.value(of: channel))
    group.put(.channels, key: key.span, value: value.span)
    store.commit(group) { [self] error in
      state.withLock { state in
        state.pending[place, default: 1] -= 1
        if state.pending[place] == 0 { state.pending[place] = nil }
        if error == nil { state.insert(channel) }
      }
      // Its creator was told of a failure: it must not appear after a restart.
      if error?.isInDoubt == true { removeRow(of: channel) { _ in } }
      completion(error)
    }
  }

  /// Deletes a channel. Calls `completion` on the commit thread: with nil once it is gone from the disk.
  func delete(_ channel: Channel, completion: @escaping @Sendable (StoreError?) -> Void) {
    removeRow(of: channel) { [self] error in
      if error == nil { state.withLock { $0.remove(channel) } }
      completion(error)
    }
  }

  private func removeRow(
    of channel: Channel, completion: @escaping @Sendable (StoreError?) -> Void
  ) {
    var group = store.makeGroup()
    let key = ChannelRecord.key(of: channel)
    group.delete(.channels, key: key.span)
    store.commit(group, completion: completion)
  }

  /// Deletes the channels of apps that may have none any more ("Setting up broadcast push notifications": disabling the
  /// feature deletes them). Those of an app that the directory no longer lists stay: its line may have been removed by
  /// mistake.
  func deleteUnwanted(_ directory: Directory) {
    let unwanted = state.withLock { state in
      state.channels.values.filter { directory.app($0.app)?.broadcasts == false }
    }
    guard !unwanted.isEmpty else { return }
    var group = store.makeGroup()
    for channel in unwanted {
      let key = ChannelRecord.key(of: channel)
      group.delete(.channels, key: key.span)
    }
    store.commit(group) { [self] error in
      guard let error else {
        state.withLock { state in
          for channel in unwanted { state.remove(channel) }
        }
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
}
