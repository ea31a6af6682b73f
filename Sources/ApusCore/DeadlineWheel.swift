/// Deadlines in whole seconds for very many connections that are nearly always alive.
///
/// A wheel of buckets, a second each. An entry is looked at when its bucket comes round; whoever was active since
/// then is put back for the rest of its time. So activity costs nothing, and a quiet connection one look an interval.
package struct DeadlineWheel {
  /// A place in the worker's table of connections, with the generation that tells it from its successor.
  package struct Entry: Equatable, Sendable {
    package var slot: Int32
    package var generation: UInt32

    package init(slot: Int32, generation: UInt32) {
      self.slot = slot
      self.generation = generation
    }
  }

  private var buckets: [[Entry]]
  private var current: UInt64
  /// Entries whose bucket came round, and how many of them were taken.
  private var due: [Entry] = []
  private var taken = 0

  /// A power of two above the seconds that most deadlines are away; what is farther is looked at once a turn.
  private static let bucketCount = 4096
  /// Entries for which a list keeps its memory.
  private static let keptEntries = 64

  package init(nowSeconds: UInt64) {
    buckets = Array(repeating: [], count: Self.bucketCount)
    current = nowSeconds
  }

  /// Looks at `entry` at `deadlineSeconds`, or a turn of the wheel earlier when that is farther away; says when.
  @discardableResult
  package mutating func add(_ entry: Entry, deadlineSeconds: UInt64) -> UInt64 {
    let farthest = current + UInt64(Self.bucketCount) - 1
    let due = min(max(deadlineSeconds, current + 1), farthest)
    buckets[Int(due) & (Self.bucketCount - 1)].append(entry)
    return due
  }

  /// Moves on to `nowSeconds`, which makes the entries due whose bucket came round.
  ///
  /// A clock that jumped by more than a turn makes every entry due once.
  package mutating func advance(toSeconds nowSeconds: UInt64) {
    guard nowSeconds > current else { return }
    let steps = min(nowSeconds - current, UInt64(Self.bucketCount))
    for step in 1...steps {
      let index = Int((current + step) & UInt64(Self.bucketCount - 1))
      guard !buckets[index].isEmpty else { continue }
      due.append(contentsOf: buckets[index])
      buckets[index].removeAll(keepingCapacity: buckets[index].count <= Self.keptEntries)
    }
    current = nowSeconds
  }

  /// Whether entries are due that were not taken.
  package var hasDue: Bool { taken < due.count }

  /// Takes the next entry that is due, the earliest first. One call for each, so that the caller can spread the work:
  /// all who came within one second are due within one.
  package mutating func takeDue() -> Entry? {
    guard hasDue else { return nil }
    defer {
      taken += 1
      if taken == due.count {
        due.removeAll(keepingCapacity: due.count <= Self.keptEntries)
        taken = 0
      }
    }
    return due[taken]
  }
}
