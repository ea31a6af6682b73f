import ApusAdmin
import ApusCore
import ApusLoop
import ApusModel

/// The listeners of a worker. They rest for a moment when too many connections come for which there is no room.
/// Confined.
///
/// All connections wait while one of those is taken up and ended. What comes during the rest waits in the system's
/// queue.
final class ListeningSockets {
  private static let limit = RateLimit(
    capacity: Limits.crowdedAtOnce, refill: Limits.crowdedPerSecond)

  private let loop: EventLoop
  private var entries: [(kind: ListenerKind, listener: Listener)] = []
  private var crowd = RateLimit.Bucket()
  private var pauseTimer: LoopTimer?
  private(set) var isPaused = false
  private var crowdedPauses: UInt64 = 0
  private var descriptorReport = CountReport()
  /// What listeners had counted that are closed.
  private var closed = Counts()

  private struct Counts {
    var refused: UInt64 = 0
    var pauses: UInt64 = 0

    mutating func add(_ listener: Listener) {
      refused += UInt64(listener.refusedForDescriptors)
      pauses += UInt64(listener.pauseCount)
    }
  }

  init(loop: EventLoop) { self.loop = loop }

  func append(_ listener: Listener, of kind: ListenerKind) {
    if isPaused { listener.pause() }
    entries.append((kind, listener))
  }

  func close(_ isMeant: (ListenerKind) -> Bool) {
    for entry in entries where isMeant(entry.kind) {
      entry.listener.close()
      closed.add(entry.listener)
    }
    entries.removeAll { isMeant($0.kind) }
  }

  /// A connection has come for which there was no room.
  func noteCrowded() {
    guard !entries.isEmpty, !isPaused else { return }
    let now = Int64(clamping: loop.nowMilliseconds)
    if Self.limit.take(from: &crowd, atMilliseconds: now) { return }
    isPaused = true
    crowdedPauses += 1
    for entry in entries { entry.listener.pause() }
    let timer = pauseTimer ?? LoopTimer(loop: loop) { [unowned self] in goOn() }
    timer.start(afterMilliseconds: Limits.crowdedPauseMilliseconds)
    pauseTimer = timer
  }

  private func goOn() {
    isPaused = false
    for entry in entries { entry.listener.resume() }
  }

  // MARK: Counters

  private var counts: Counts {
    var counts = closed
    for entry in entries { counts.add(entry.listener) }
    return counts
  }

  /// Connections that were closed because the process had no descriptor for them.
  var refusedForDescriptors: UInt64 { counts.refused }

  var pauses: ListenerPauses {
    var pauses = ListenerPauses()
    pauses.crowded = crowdedPauses
    pauses.noDescriptor = counts.pauses
    return pauses
  }

  /// How often the process lacked a descriptor for a connection since this last said so; nil where it said so lately,
  /// or where there is nothing new.
  func takeDescriptorReport(nowSeconds: UInt64) -> UInt64? {
    let counts = counts
    return descriptorReport.take(counts.refused + counts.pauses, nowSeconds: nowSeconds)
  }
}
