/// The pushes that wait for a stream, in order.
///
/// A push that gets its outcome while it waits stays until its turn, and is then skipped.
struct SendQueue {
  let capacity: Int
  /// Those before `head` were taken.
  private var sends: [PendingSend?] = []
  private var head = 0
  /// No push here has an earlier deadline.
  private(set) var earliestDeadlineMilliseconds = UInt64.max

  init(capacity: Int) { self.capacity = capacity }

  var count: Int { sends.count - head }
  var isEmpty: Bool { count == 0 }

  /// False if the queue is full.
  mutating func append(_ send: PendingSend) -> Bool {
    guard count < capacity else { return false }
    sends.append(send)
    includeDeadline(send)
    return true
  }

  /// Puts pushes that already had a stream back at the front, in their order. They may exceed the capacity by at most
  /// the number of streams.
  mutating func putBack(_ returned: [PendingSend]) {
    guard !returned.isEmpty else { return }
    sends.replaceSubrange(..<head, with: returned.map(Optional.some))
    head = 0
    for send in returned { includeDeadline(send) }
  }

  private mutating func includeDeadline(_ send: PendingSend) {
    earliestDeadlineMilliseconds = min(earliestDeadlineMilliseconds, send.deadlineMilliseconds)
  }

  /// Drops finished pushes at the front and returns the first unfinished one.
  mutating func first() -> PendingSend? {
    guard head < sends.count else { return nil }
    while head < sends.count {
      if let first = sends[head], !first.isFinished { return first }
      dropFirst()
    }
    return nil
  }

  /// Removes the push that ``first()`` returned.
  mutating func dropFirst() {
    sends[head] = nil
    head += 1
    if head == sends.count {
      sends.removeAll(keepingCapacity: true)
      head = 0
      earliestDeadlineMilliseconds = .max
    } else if head >= 1024, head * 2 >= sends.count {
      sends.removeFirst(head)
      head = 0
    }
  }

  var unfinished: [PendingSend] { sends[head...].compactMap(\.self).filter { !$0.isFinished } }

  mutating func takeAll() -> [PendingSend] { take(where: { _ in true }) }

  /// Removes overdue pushes.
  mutating func takeOverdue(nowMilliseconds: UInt64) -> [PendingSend] {
    guard earliestDeadlineMilliseconds <= nowMilliseconds else { return [] }
    return take { $0.deadlineMilliseconds <= nowMilliseconds }
  }

  /// Removes the pushes that `isWanted` selects; the others keep their order.
  private mutating func take(where isWanted: (PendingSend) -> Bool) -> [PendingSend] {
    var taken: [PendingSend] = []
    var kept: [PendingSend?] = []
    earliestDeadlineMilliseconds = .max
    for send in sends[head...] {
      guard let send, !send.isFinished else { continue }
      if isWanted(send) {
        taken.append(send)
      } else {
        kept.append(send)
        includeDeadline(send)
      }
    }
    sends = kept
    head = 0
    return taken
  }
}
