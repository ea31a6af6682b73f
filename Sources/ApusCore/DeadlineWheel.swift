/// Deadlines in whole seconds for very many connections that are nearly always alive.
///
/// A wheel of buckets, one per second. An entry is examined when its bucket comes round; if it was active since, it is
/// added again for the rest of its time. So activity costs nothing, and a quiet connection costs one look per
/// interval.
package struct DeadlineWheel {
  /// A slot in the worker's table of connections, with the generation that distinguishes successive occupants.
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

  /// A power of two above most deadlines in seconds; an entry farther away is examined once per turn of the wheel.
  private static let bucketCount = 4096
  /// The capacity in entries that an empty list keeps.
  private static let keptEntries = 64

  package init(nowSeconds: UInt64) {
    buckets = Array(repeating: [], count: Self.bucketCount)
    current = nowSeconds
  }

  /// Schedules a look at `entry` for `deadlineSeconds`, or within one turn of the wheel if that is farther away;
  /// returns when.
  @discardableResult
  package mutating func add(_ entry: Entry, deadlineSeconds: UInt64) -> UInt64 {
    let farthest = current + UInt64(Self.bucketCount) - 1
    let due = min(max(deadlineSeconds, current + 1), farthest)
    buckets[Int(due) & (Self.bucketCount - 1)].append(entry)
    return due
  }

  /// Advances to `nowSeconds`: the entries in the buckets passed become due.
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

  /// Whether due entries remain to be taken.
  package var hasDue: Bool { taken < due.count }

  /// Takes the next due entry, the earliest first. One call for each, so that the caller can spread the work: all
  /// entries added within one second become due within one.
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
