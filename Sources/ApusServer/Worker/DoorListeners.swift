import ApusCore
import ApusLoop
import ApusModel

/// The listeners of a worker. They rest for a moment when too many connections come for which there is no room.
/// Confined.
///
/// All connections wait while one of those is taken up and ended. What comes during the rest waits in the system's
/// queue.
final class DoorListeners {
  private static let limit = RateLimit(
    capacity: Limits.crowdedAtOnce, refill: Limits.crowdedPerSecond)

  private let loop: EventLoop
  private var entries: [(kind: ListenerKind, listener: Listener)] = []
  private var crowd = RateLimit.Bucket()
  private var restTimer: LoopTimer?
  private(set) var isResting = false

  init(loop: EventLoop) { self.loop = loop }

  func append(_ listener: Listener, of kind: ListenerKind) {
    if isResting { listener.pause() }
    entries.append((kind, listener))
  }

  func close(_ isMeant: (ListenerKind) -> Bool) {
    for entry in entries where isMeant(entry.kind) { entry.listener.close() }
    entries.removeAll { isMeant($0.kind) }
  }

  /// A connection has come for which there was no room.
  func noteCrowded() {
    guard !entries.isEmpty, !isResting else { return }
    let now = Int64(clamping: loop.nowMilliseconds)
    if Self.limit.take(from: &crowd, atMilliseconds: now) { return }
    isResting = true
    for entry in entries { entry.listener.pause() }
    let timer = restTimer ?? LoopTimer(loop: loop) { [unowned self] in goOn() }
    timer.start(afterMilliseconds: Limits.crowdedRestMilliseconds)
    restTimer = timer
  }

  private func goOn() {
    isResting = false
    for entry in entries { entry.listener.resume() }
  }
}
