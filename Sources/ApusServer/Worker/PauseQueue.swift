import ApusLoop
import ApusModel

/// Connections in the pause behind their last words. All pauses are equally long, so the first in is the first out.
final class PauseQueue {
  private struct Entry {
    var slot: Int32
    var generation: UInt32
    var endMilliseconds: UInt64
  }

  private unowned let worker: Worker
  private var entries: [Entry] = []
  private var head = 0
  private var timer: LoopTimer?

  init(worker: Worker) {
    self.worker = worker
    timer = LoopTimer(loop: worker.loop) { [unowned self] in timePassed() }
  }

  func append(_ connection: Connection) {
    entries.append(
      Entry(
        slot: connection.slot, generation: connection.generation,
        endMilliseconds: worker.loop.nowMilliseconds + Limits.lastWordsMilliseconds))
    if timer?.isActive == false { timer?.start(afterMilliseconds: Limits.lastWordsMilliseconds) }
  }

  private func timePassed() {
    let now = worker.loop.nowMilliseconds
    while head < entries.count, entries[head].endMilliseconds <= now {
      worker.connection(slot: entries[head].slot, generation: entries[head].generation)?
        .pauseEnded()
      head += 1
    }
    entries.removeFirst(head)
    head = 0
    if let next = entries.first {
      timer?.start(afterMilliseconds: max(1, next.endMilliseconds - now))
    }
  }
}

/// Ends the connections of the binary interface one after the other when the service stops.
///
/// "Spread the drain over connections": a fleet of senders that lose all their connections in one moment comes back in
/// one moment too.
final class DrainQueue {
  private unowned let worker: Worker
  private var waiting: [(slot: Int32, generation: UInt32)]
  private let perStep: Int
  private var timer: LoopTimer?

  private static let stepMilliseconds: UInt64 = 10

  /// Takes at most `Limits.binaryDrainSpreadMilliseconds`, and a step for each of a few.
  init(worker: Worker, _ connections: [Connection]) {
    self.worker = worker
    waiting = connections.map { ($0.slot, $0.generation) }
    let steps = Int(Limits.binaryDrainSpreadMilliseconds / Self.stepMilliseconds)
    perStep = (waiting.count + steps - 1) / steps
    guard !waiting.isEmpty else { return }
    timer = LoopTimer(loop: worker.loop) { [unowned self] in step() }
    timer?.start(
      afterMilliseconds: Self.stepMilliseconds, repeatMilliseconds: Self.stepMilliseconds)
  }

  private func step() {
    for entry in waiting.suffix(perStep) {
      worker.connection(slot: entry.slot, generation: entry.generation)?.drain()
    }
    waiting.removeLast(min(perStep, waiting.count))
    if waiting.isEmpty { timer?.stop() }
  }
}
