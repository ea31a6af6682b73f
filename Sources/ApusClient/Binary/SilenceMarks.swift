/// When the peer's system had received which of the connection's notifications.
struct SilenceMarks: Sendable {
  private struct Mark {
    var through: Int
    var milliseconds: UInt64
  }

  /// Oldest first. Those before `head` are done.
  private var marks: [Mark] = []
  private var head = 0

  /// The place behind the last notification that has a mark; nil if there is none on this connection.
  var through: Int? { marks.last?.through }

  mutating func add(through place: Int, atMilliseconds milliseconds: UInt64) {
    if head > 64, head * 2 > marks.count {
      marks.removeFirst(head)
      head = 0
    }
    marks.append(Mark(through: place, milliseconds: milliseconds))
  }

  /// The next place before which all notifications have been with the peer for `silence` milliseconds.
  mutating func take(after silence: UInt64, nowMilliseconds: UInt64) -> Int? {
    guard head < marks.count, marks[head].milliseconds + silence <= nowMilliseconds else {
      return nil
    }
    head += 1
    return marks[head - 1].through
  }

  mutating func removeAll() {
    marks.removeAll(keepingCapacity: true)
    head = 0
  }
}
