import ApusModel

/// The rows of one family, accessible by key and in key order.
///
/// Sorted rows in leaves of bounded size: a write moves the rows of one leaf, whatever the size of the table, and a
/// scan finds its first row by bisection. A copy of the table shares its leaves, so that a scan can iterate over one
/// while writes continue.
struct MemoryTable: Sendable {
  struct Row: Sendable {
    var key: [UInt8]
    var value: [UInt8]

    func isBefore(_ other: Span<UInt8>) -> Bool { key.span.precedes(other) }
    func isBehind(_ other: Span<UInt8>) -> Bool { other.precedes(key.span) }
    func isAt(_ other: Span<UInt8>) -> Bool { other.equals(key.span) }
  }

  /// A full leaf is split in two; small neighbours are joined.
  private static let leafRows = 256

  /// The rows in key order. No leaf is empty.
  private var leaves: [[Row]] = []
  /// Bytes of all keys and values.
  private(set) var byteCount = 0

  func value(of key: Span<UInt8>) -> [UInt8]? {
    let place = place(of: key)
    return place.isThere ? leaves[place.leaf][place.index].value : nil
  }

  mutating func put(_ key: Span<UInt8>, _ value: [UInt8]) {
    byteCount += value.count
    let place = place(of: key)
    if place.isThere {
      byteCount -= leaves[place.leaf][place.index].value.count
      leaves[place.leaf][place.index].value = value
      return
    }
    byteCount += key.count
    if leaves.isEmpty { leaves.append([]) }
    leaves[place.leaf].insert(Row(key: key.copied(), value: value), at: place.index)
    if leaves[place.leaf].count > Self.leafRows { split(place.leaf) }
  }

  mutating func remove(_ key: Span<UInt8>) {
    let place = place(of: key)
    guard place.isThere else { return }
    let row = leaves[place.leaf].remove(at: place.index)
    byteCount -= row.key.count + row.value.count
    if leaves[place.leaf].isEmpty {
      leaves.remove(at: place.leaf)
    } else {
      join(max(0, place.leaf - 1))
    }
  }

  /// Removes the rows from `start` up to, but not including, `end`.
  mutating func removeRange(from start: Span<UInt8>, to end: Span<UInt8>) {
    var keys: [[UInt8]] = []
    let all: [UInt8] = []
    scan(prefix: all.span, from: start) { key, _ in
      guard key.precedes(end) else { return false }
      keys.append(key.copied())
      return true
    }
    for key in keys { remove(key.span) }
  }

  /// Visits the rows whose keys begin with `prefix` and do not precede `start`, until `visit` returns false.
  func scan(
    prefix: Span<UInt8>, from start: Span<UInt8>,
    _ visit: (_ key: Span<UInt8>, _ value: Span<UInt8>) -> Bool
  ) {
    let first = place(of: start.precedes(prefix) ? prefix : start)
    var index = first.index
    for leaf in leaves[min(first.leaf, leaves.count)...] {
      while index < leaf.count {
        let row = leaf[index]
        let key = row.key.span
        guard key.count >= prefix.count, key.extracting(..<prefix.count).equals(prefix),
          visit(key, row.value.span)
        else { return }
        index += 1
      }
      index = 0
    }
  }

  private mutating func split(_ leaf: Int) {
    let half = leaves[leaf].count / 2
    let rest = Array(leaves[leaf][half...])
    leaves[leaf].removeSubrange(half...)
    leaves.insert(rest, at: leaf + 1)
  }

  /// Joins a leaf with the next one if together they fill at most half a leaf; with a higher limit it would soon split
  /// again.
  private mutating func join(_ leaf: Int) {
    guard leaf + 1 < leaves.count,
      leaves[leaf].count + leaves[leaf + 1].count <= Self.leafRows / 2
    else { return }
    let next = leaves.remove(at: leaf + 1)
    leaves[leaf] += next
  }

  /// The position of `key`, or where to insert it: in the last leaf that does not begin after it.
  private func place(of key: Span<UInt8>) -> (leaf: Int, index: Int, isThere: Bool) {
    let leaf = max(0, Self.bisect(leaves.count) { !leaves[$0][0].isBehind(key) } - 1)
    guard leaf < leaves.count else { return (0, 0, false) }
    let index = Self.bisect(leaves[leaf].count) { leaves[leaf][$0].isBefore(key) }
    let isThere = index < leaves[leaf].count && leaves[leaf][index].isAt(key)
    return (leaf, index, isThere)
  }

  /// The first number below `count` for which `isBefore` is false; it is true for all those before.
  private static func bisect(_ count: Int, _ isBefore: (Int) -> Bool) -> Int {
    var low = 0
    var high = count
    while low < high {
      let middle = (low + high) / 2
      if isBefore(middle) { low = middle + 1 } else { high = middle }
    }
    return low
  }
}
