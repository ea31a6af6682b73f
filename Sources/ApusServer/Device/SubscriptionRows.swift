import ApusCore
import ApusLoop
import ApusModel
import ApusStore

/// The subscription records of a worker's devices in the store, those that are being written included.
final class SubscriptionRows: @unchecked Sendable {
  private struct Pending {
    var record: SubscriptionRecord
    var version: UInt64
  }

  private let context: WorkerContext
  private(set) lazy var counter = SubscriptionCounter(context) { [unowned self] in
    pending.map { ($0.key, $0.value.record) }
  }
  /// What the store does not have yet: a device may be back before its record is written.
  private var pending: [DeviceKey: Pending] = [:]
  private var lastVersion: UInt64 = 0
  /// Devices whose last write failed in doubt: the store may have what they were told it does not have.
  private var doubtful: Set<DeviceKey> = []

  init(_ context: WorkerContext) {
    self.context = context
    // It counts from the start.
    _ = counter
  }

  /// A device's record; an empty one if it has none, or one that cannot be read, which is logged.
  func record(of device: DeviceKey) throws(StoreError) -> SubscriptionRecord {
    if let waiting = pending[device] { return waiting.record }
    guard let bytes = try context.store.subscriptions(of: device.id, in: device.environment)
    else { return SubscriptionRecord() }
    do throws(RecordError) {
      return try SubscriptionRecord(decoding: bytes.span)
    } catch {
      context.logUnreadable(.record, of: device.id, error)
      return SubscriptionRecord()
    }
  }

  /// Whether its record is durable, and what its connection goes by.
  func isCertain(_ device: DeviceKey) -> Bool {
    pending[device] == nil && !doubtful.contains(device)
  }

  /// Writes a record in place of `old`. Calls `completion` on the worker's thread: with nil once it is durable.
  func write(
    _ record: SubscriptionRecord, replacing old: SubscriptionRecord, of device: DeviceKey,
    completion: @escaping (StoreError?) -> Void
  ) {
    counter.replace(old, by: record, of: device)
    lastVersion += 1
    let version = lastVersion
    pending[device] = Pending(record: record, version: version)
    var group = context.store.makeGroup()
    let key = SubscriptionRecord.key(device.id, device.environment)
    if record.subscriptions.isEmpty {
      group.delete(.channels, key: key.span)
    } else {
      let value = record.encoded()
      group.put(.channels, key: key.span, value: value.span)
    }
    let waiting = Waiting(completion: completion)
    let loop = context.loop
    context.store.commit(group) { [self] error in
      loop.perform {
        if self.pending[device]?.version == version { self.pending[device] = nil }
        if let error {
          self.counter.recount()
          if error.isInDoubt { self.doubtful.insert(device) }
        } else {
          self.doubtful.remove(device)
        }
        waiting.completion(error)
      }
    }
  }

  /// Only its worker's thread calls it.
  private struct Waiting: @unchecked Sendable {
    let completion: (StoreError?) -> Void
  }

  /// Adds to a device's record which broadcasts it has. If that fails, it is sent them again.
  func save(
    _ marks: [ChannelID: SubscriptionRecord.Subscription], of device: DeviceKey
  ) {
    let known: SubscriptionRecord
    do throws(StoreError) { known = try record(of: device) } catch {
      return context.logUnreadable(.record, of: device.id, error)
    }
    var record = known
    for place in record.subscriptions.indices {
      let old = record.subscriptions[place]
      guard var new = marks[old.channel] else { continue }
      new.newestOrder = max(new.newestOrder, old.newestOrder)
      if new.triedOrder > 0 {
        new.triedCount = old.triedOrder == new.triedOrder ? old.triedCount &+ 1 : 1
      }
      record.subscriptions[place] = new
    }
    write(record, replacing: known, of: device) { _ in }
  }
}
