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
