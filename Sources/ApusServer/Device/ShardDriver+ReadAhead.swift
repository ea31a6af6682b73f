import ApusCore
import ApusLoop
import ApusModel
import ApusStore

/// How far the records of devices have been read since the start, before anybody asked for them.
struct ReadAhead {
  fileprivate var cursor: [UInt8] = []
  private let timer: LoopTimer

  /// A page takes a millisecond or less: a device that comes meanwhile may wait for one at each of its steps.
  fileprivate static let pageRows = 2048
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
    do {
      try worker.store.scan(.devices, prefix: Span(), from: cursor.span) { key, value in
        guard left > 0 else {
          next = key.copied()
          return false
        }
        left -= 1
        remember(key, value)
        return true
      }
    } catch {
      // Whoever asks for a device meets the same, and says so.
    }
    if let next, !cache.isFull { readAhead?.cursor = next } else { readAhead = nil }
  }

  private func remember(_ keyBytes: Span<UInt8>, _ value: Span<UInt8>) {
    guard let key = try? DeviceRecord.decode(key: keyBytes), worker.owns(key.device) else { return }
    let place = DeviceKey(id: key.device, environment: key.environment)
    guard !cache.remembers(place) else { return }
    cache.readAhead(place, record: value)
  }
}
