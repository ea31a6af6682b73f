import ApusCore
import ApusLoop
import ApusModel

/// Connections that wait before they close, after their last output. All waits are equally long, so the queue is first
/// in, first out.
final class PauseQueue {
  private struct Entry {
    var connection: DeadlineWheel.Entry
    var endMilliseconds: UInt64
  }

  private unowned let table: ConnectionTable
  private var entries = FIFO<Entry>()
  private var timer: LoopTimer?

  init(_ table: ConnectionTable) {
    self.table = table
    timer = LoopTimer(loop: table.context.loop) { [unowned self] in timePassed() }
  }

  func append(_ connection: Connection) {
    entries.append(
      Entry(
        connection: connection.entry,
        endMilliseconds: table.context.loop.nowMilliseconds + Limits.pauseBeforeCloseMilliseconds))
    if timer?.isActive == false {
      timer?.start(afterMilliseconds: Limits.pauseBeforeCloseMilliseconds)
    }
  }

  private func timePassed() {
    let now = table.context.loop.nowMilliseconds
    while let entry = entries.first, entry.endMilliseconds <= now {
      entries.popFirst()
      table.connection(entry.connection)?.pauseEnded()
    }
    if let next = entries.first {
      timer?.start(afterMilliseconds: max(1, next.endMilliseconds - now))
    }
  }
}
