import ApusCore
import ApusLoop
import ApusModel
import ApusStore

/// Counts the subscriptions of a worker's devices, connected or not: from their records after a start, and from then on
/// as records change. What asks for the counts reads no records, and nothing is kept for a device.
///
/// Records do not say which devices a deleted channel leaves without any in its app. So after such a deletion they are
/// read again, at most once a minute, and until then the app may have too many subscribers.
final class SubscriptionCounter {
  /// A count that reads records in the order of their keys, a page at a time.
  private struct Reading {
    var part = SubscriptionCounts.Part()
    /// Where the next page begins; nil for the first one. Devices before it are counted, and followed.
    var cursor: DeviceKey?
    let timer: LoopTimer

    func hasCounted(_ device: DeviceKey) -> Bool {
      cursor.map { SubscriptionCounter.areInOrder(device, $0) } ?? false
    }
  }

  /// Records and subscriptions of a page, which takes about a millisecond.
  var pageSize = 4096

  private let context: WorkerContext
  private let register: ChannelRegister
  private let counts: SubscriptionCounts
  /// What the store may not have yet.
  private let pending: () -> [(DeviceKey, SubscriptionRecord)]
  private var reading: Reading?
  private var isDue = false
  private var earliestSecond: UInt64 = 0

  private static let pauseMilliseconds: UInt64 = 1
  private static let intervalSeconds: UInt64 = 60

  init(_ context: WorkerContext, pending: @escaping () -> [(DeviceKey, SubscriptionRecord)]) {
    self.context = context
    register = context.shared.channels
    counts = register.subscriptionCounts
    self.pending = pending
    guard !context.isAcceptor else { return }
    counts.expect(.worker(context.index))
    // Without channels, all subscriptions are to ones that were deleted.
    if register.hasAny { read() } else { counts.set(.init(), of: .worker(context.index)) }
  }

  // MARK: Changes

  /// A device's record is replaced, for `pending` too.
  func replace(
    _ old: SubscriptionRecord, by new: SubscriptionRecord, of device: DeviceKey
  ) {
    guard old.subscriptions.map(\.channel) != new.subscriptions.map(\.channel) else { return }
    _ = counts.change(of: .worker(context.index)) { $0.replace(old, by: new, register) }
    if reading?.hasCounted(device) == true { reading?.part.replace(old, by: new, register) }
  }

  /// A channel was deleted.
  func remove(_ number: UInt32) {
    let count = counts.change(of: .worker(context.index)) {
      $0.subscriptions.removeValue(forKey: number) ?? 0
    }
    let readCount = reading?.part.subscriptions.removeValue(forKey: number)
    if (count ?? 0) > 0 || readCount != nil { isDue = true }
  }

  /// A change was counted that failed.
  func recount() { isDue = true }

  // MARK: Reading

  /// Called each second.
  func secondPassed() {
    if isDue, reading == nil, context.nowSeconds >= earliestSecond { read() }
  }

  private func read() {
    isDue = false
    earliestSecond = context.nowSeconds + Self.intervalSeconds
    let timer = LoopTimer(loop: context.loop) { [unowned self] in readPage() }
    timer.start(
      afterMilliseconds: Self.pauseMilliseconds, repeatMilliseconds: Self.pauseMilliseconds)
    reading = Reading(timer: timer)
  }

  private func readPage() {
    guard var page = reading else { return }
    let waiting = pending()
    let waitingDevices = Set(waiting.map(\.0))
    var left = pageSize
    var next: DeviceKey?
    do throws(StoreError) {
      try context.store.forEachSubscriber(from: page.cursor?.storeKey) { id, environment, value in
        let device = DeviceKey(id: id, environment: environment)
        guard left > 0 else {
          next = device
          return false
        }
        left -= 1
        guard context.owns(id), !waitingDevices.contains(device),
          let record = try? SubscriptionRecord(decoding: value)
        else { return true }
        left -= record.subscriptions.count
        page.part.add(record, register)
        return true
      }
    } catch {
      // It is tried again in a minute.
      isDue = true
      reading = nil
      return
    }
    for (device, record) in waiting where !page.hasCounted(device) {
      if next.map({ Self.areInOrder(device, $0) }) ?? true { page.part.add(record, register) }
    }
    page.cursor = next
    if next == nil { counts.set(page.part, of: .worker(context.index)) }
    reading = next == nil ? nil : page
  }

  /// As their keys in the store.
  private static func areInOrder(_ left: DeviceKey, _ right: DeviceKey) -> Bool {
    (left.id.rawValue, left.environment.rawValue)
      < (right.id.rawValue, right.environment.rawValue)
  }
}

extension DeviceKey {
  fileprivate var storeKey: InlineArray<10, UInt8> { SubscriptionRecord.key(id, environment) }
}
