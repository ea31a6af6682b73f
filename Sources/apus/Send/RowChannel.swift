import ApusClient
import ApusModel
import Glibc
import Synchronization

/// A row ready to be sent.
struct SendRow: Sendable {
  var number: Int
  var id: NotificationID
  var request: PushRequest
}

/// A bounded queue of rows from the thread that reads them to the tasks that send them.
@safe final class RowChannel: @unchecked Sendable {
  private struct State {
    var rows: [SendRow?] = []
    var head = 0
    var waiting: [CheckedContinuation<SendRow?, Never>] = []
    var isEnded = false

    var isEmpty: Bool { head == rows.count }

    mutating func takeFirst() -> SendRow? {
      guard !isEmpty else { return nil }
      let row = rows[head].take()
      head += 1
      if isEmpty {
        rows.removeAll(keepingCapacity: true)
        head = 0
      }
      return row
    }
  }

  /// Counts the free slots.
  private let room: UnsafeMutablePointer<sem_t>
  private let state = Mutex(State())

  init(capacity: Int) {
    unsafe room = .allocate(capacity: 1)
    unsafe sem_init(room, 0, UInt32(capacity))
  }

  deinit {
    unsafe sem_destroy(room)
    unsafe room.deallocate()
  }

  /// Waits for a free slot. Returns false, without taking the row, if the channel has ended.
  func put(_ row: SendRow) -> Bool {
    while unsafe sem_wait(room) != 0 {}
    let (isTaken, reader) = state.withLock { state in
      guard !state.isEnded else { return (false, CheckedContinuation<SendRow?, Never>?.none) }
      guard let reader = state.waiting.popLast() else {
        state.rows.append(row)
        return (true, nil)
      }
      return (true, reader)
    }
    guard isTaken else {
      unsafe sem_post(room)
      return false
    }
    if let reader {
      unsafe sem_post(room)
      reader.resume(returning: row)
    }
    return true
  }

  /// The next row; nil after the last one.
  func next() async -> SendRow? {
    await withCheckedContinuation { continuation in
      let row = state.withLock { state -> SendRow?? in
        if let row = state.takeFirst() { return .some(row) }
        if state.isEnded { return .some(nil) }
        state.waiting.append(continuation)
        return nil
      }
      guard let row else { return }
      if row != nil { unsafe sem_post(room) }
      continuation.resume(returning: row)
    }
  }

  /// Marks the end of the rows; queued rows are still delivered.
  func end() {
    let waiting = state.withLock { state in
      state.isEnded = true
      defer { state.waiting = [] }
      return state.waiting
    }
    for reader in waiting { reader.resume(returning: nil) }
    // Wakes a thread that waits for a slot.
    unsafe sem_post(room)
  }

  /// Ends the channel and returns the rows still queued.
  func abandon() -> [SendRow] {
    let rows = state.withLock { state in
      let rows = state.rows[state.head...].compactMap(\.self)
      state.rows = []
      state.head = 0
      return rows
    }
    end()
    return rows
  }
}
