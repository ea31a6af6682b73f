import ApusCore
import ApusLoop
import ApusModel
import ApusStore

/// Progress of reading all device records after the start, before they are needed.
struct ReadAhead {
  fileprivate var cursor: [UInt8] = []
  /// Whether to find out also which devices have nothing stored.
  fileprivate var readsMailbox = true
  private let timer: LoopTimer

  /// A page takes at most a millisecond: a device that connects meanwhile may wait for one page at each of its steps.
  fileprivate static let pageRows = 2048
  /// Stored notifications of a page's devices. If there are more, they are looked up when notifications arrive.
  fileprivate static let pageNotifications = 1024
  private static let pauseMilliseconds: UInt64 = 1

  init(loop: EventLoop, _ next: @escaping () -> Void) {
    timer = LoopTimer(loop: loop, handler: next)
    timer.start(
      afterMilliseconds: Self.pauseMilliseconds, repeatMilliseconds: Self.pauseMilliseconds)
  }
}

extension ShardDriver {
  /// Reads the next page of the table of devices.
  ///
  /// Reading in the table's order costs a tenth of looking each device up when a notification arrives. A page reflects
  /// the store at the time of the read. That is current, because any device with pending changes is in the cache.
  func readOn() {
    guard let cursor = readAhead?.cursor else { return }
    var next: [UInt8]?
    var left = ReadAhead.pageRows
    var read: [DeviceKey] = []
    do {
      try context.store.scan(.devices, prefix: Span(), from: cursor.span) { key, value in
        guard left > 0 else {
          next = key.copied()
          return false
        }
        left -= 1
        if let device = remember(key, value) { read.append(device) }
        return true
      }
      if readAhead?.readsMailbox == true { try readMailbox(of: read) }
    } catch {
      // Ignored: the first use of such a device meets the same error, and reports it.
    }
    if let next, !cache.isFull { readAhead?.cursor = next } else { readAhead = nil }
  }

  /// Keeps the device, and returns its key if it was not known.
  private func remember(_ keyBytes: Span<UInt8>, _ value: Span<UInt8>) -> DeviceKey? {
    guard let key = try? DeviceRecord.decode(key: keyBytes), context.owns(key.device) else {
      return nil
    }
    let place = DeviceKey(id: key.device, environment: key.environment)
    guard !cache.remembers(place), dormant.slot(of: place) == nil else { return nil }
    cache.readAhead(place, record: value)
    return place
  }

  /// Finds the devices of a page, in the order of their ids, for which nothing is stored. These are usually most of
  /// them, and one scan of the mailbox finds them all. Gives up if much is stored, because the scan would read too
  /// much.
  private func readMailbox(of devices: [DeviceKey]) throws(StoreError) {
    guard let first = devices.first, let last = devices.last else { return }
    var place = 0
    var left = ReadAhead.pageNotifications
    let start = first.id.storeKey
    try context.store.scan(.mailbox, prefix: Span(), from: start.span) { key, _ in
      guard let id = try? MailboxKey(decoding: key).device.rawValue else {
        left = 0
        return false
      }
      guard id <= last.id.rawValue else { return false }
      while place < devices.count, devices[place].id.rawValue < id {
        cache.noteNothingStored(for: devices[place])
        place += 1
      }
      while place < devices.count, devices[place].id.rawValue == id { place += 1 }
      left -= 1
      return left > 0
    }
    guard left > 0 else {
      readAhead?.readsMailbox = false
      return
    }
    for device in devices[place...] { cache.noteNothingStored(for: device) }
  }
}
