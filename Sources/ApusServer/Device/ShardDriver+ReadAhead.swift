import ApusCore
import ApusLoop
import ApusModel
import ApusStore

/// How far the records of devices have been read since the start, before anybody asked for them.
struct ReadAhead {
  fileprivate var cursor: [UInt8] = []
  /// Whether it is also read for which devices nothing is stored.
  fileprivate var readsMailbox = true
  private let timer: LoopTimer

  /// A page takes a millisecond or less: a device that comes meanwhile may wait for one at each of its steps.
  fileprivate static let pageRows = 2048
  /// Stored notifications of a page's devices. Where there are more they are looked up as notifications come.
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
  /// In the order of the table that costs a tenth of what it does to look the devices up as notifications come for
  /// them. A page is as of now, and a device that is about to change is in the cache, so what is read is what counts.
  func readOn() {
    guard let cursor = readAhead?.cursor else { return }
    var next: [UInt8]?
    var left = ReadAhead.pageRows
    var read: [DeviceKey] = []
    do {
      try worker.store.scan(.devices, prefix: Span(), from: cursor.span) { key, value in
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
      // Whoever asks for a device meets the same, and says so.
    }
    if let next, !cache.isFull { readAhead?.cursor = next } else { readAhead = nil }
  }

  /// The device, if it was not known.
  private func remember(_ keyBytes: Span<UInt8>, _ value: Span<UInt8>) -> DeviceKey? {
    guard let key = try? DeviceRecord.decode(key: keyBytes), worker.owns(key.device) else {
      return nil
    }
    let place = DeviceKey(id: key.device, environment: key.environment)
    guard !cache.remembers(place), dormant.slot(of: place) == nil else { return nil }
    cache.readAhead(place, record: value)
    return place
  }

  /// Finds out for which of a page's devices, in the order of their ids, nothing is stored: for most, as a rule, and
  /// one look at the mailbox says so of all of them. Where much is stored it would read too much, and is given up.
  private func readMailbox(of devices: [DeviceKey]) throws(StoreError) {
    guard let first = devices.first, let last = devices.last else { return }
    var place = 0
    var left = ReadAhead.pageNotifications
    let start = first.id.storeKey
    try worker.store.scan(.mailbox, prefix: Span(), from: start.span) { key, _ in
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
