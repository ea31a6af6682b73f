import ApusModel

/// The rows of one family, findable by key and walkable in the order of the keys.
///
/// Rows are bucketed by the first eight bytes of their keys, sorted within: a mailbox scan reads one bucket of a few
/// rows, and a bucket's keys sort as its rows do against those of other buckets.
struct MemoryTable: Sendable {
  struct Row: Sendable {
    var key: [UInt8]
    var value: [UInt8]
  }

  private static let bucketBytes = 8

  private var buckets: [[UInt8]: [Row]] = [:]
  /// Bytes of all keys and values.
  private(set) var byteCount = 0

  func value(of key: Span<UInt8>) -> [UInt8]? {
    guard let rows = buckets[Self.bucket(of: key)] else { return nil }
    let place = Self.place(of: key, in: rows)
    return place.isThere ? rows[place.index].value : nil
  }

  mutating func put(_ key: Span<UInt8>, _ value: [UInt8]) {
    byteCount += value.count
    let bucket = Self.bucket(of: key)
    let place = Self.place(of: key, in: buckets[bucket] ?? [])
    if place.isThere {
      byteCount -= buckets[bucket]?[place.index].value.count ?? 0
      buckets[bucket]?[place.index].value = value
    } else {
      byteCount += key.count
      buckets[bucket, default: []].insert(Row(key: key.copied(), value: value), at: place.index)
    }
  }

  mutating func remove(_ key: Span<UInt8>) {
    let bucket = Self.bucket(of: key)
    let place = Self.place(of: key, in: buckets[bucket] ?? [])
    guard place.isThere, let row = buckets[bucket]?.remove(at: place.index) else { return }
    byteCount -= row.key.count + row.value.count
    if buckets[bucket]?.isEmpty == true { buckets[bucket] = nil }
  }

  /// The rows whose keys begin with `prefix`, in the order of their keys.
  func rows(prefix: Span<UInt8>) -> [Row] {
    let prefix = prefix.copied()
    if prefix.count >= Self.bucketBytes {
      let rows = buckets[Array(prefix.prefix(Self.bucketBytes))] ?? []
      return rows.filter { $0.key.starts(with: prefix) }
    }
    return buckets.keys.filter { $0.starts(with: prefix) }
      .sorted { $0.lexicographicallyPrecedes($1) }
      .flatMap { buckets[$0] ?? [] }
  }

  private static func bucket(of key: Span<UInt8>) -> [UInt8] {
    key.extracting(..<min(bucketBytes, key.count)).copied()
  }

  /// Where `key` is among sorted rows, or would be.
  private static func place(
    of key: Span<UInt8>, in rows: [Row]
  ) -> (index: Int, isThere: Bool) {
    var low = 0
    var high = rows.count
    while low < high {
      let middle = (low + high) / 2
      let other = rows[middle].key
      if precedes(other.span, key) { low = middle + 1 } else { high = middle }
    }
    guard low < rows.count else { return (low, false) }
    let found = rows[low].key
    return (low, key.equals(found.span))
  }

  private static func precedes(_ left: Span<UInt8>, _ right: Span<UInt8>) -> Bool {
    for index in 0..<min(left.count, right.count) where left[index] != right[index] {
      return left[index] < right[index]
    }
    return left.count < right.count
  }
}
