import ApusModel

/// What a batch of groups leaves of each row: one statement of PostgreSQL may touch a row only once, so of several
/// writes of a key the last one counts.
///
/// For each family the ranges are removed first, then the keys, then the values are put.
struct FoldedWrites: Sendable {
  private struct Write {
    var entry: WriteRecord.Entry
    var isReplaced = false
  }

  private var writes: [Write] = []
  /// Places in `writes` by the hash of family and key, plus one; 0 is a free place.
  private var table: [UInt32] = []

  /// - Parameter bytes: A batch in the format of `WriteGroup`, with its header.
  mutating func fold(_ bytes: Span<UInt8>, count: Int) {
    writes.removeAll(keepingCapacity: true)
    resetTable(for: count)
    var position = WriteRecord.headerByteCount
    while var entry = WriteRecord.next(in: bytes, at: &position) {
      // The difference is the embedded engine's.
      if entry.kind == .deleteSingle { entry.kind = .delete }
      if entry.kind == .deleteRange, let end = entry.value {
        replace(entry.family, from: bytes.extracting(entry.key), to: bytes.extracting(end), bytes)
      } else {
        enter(entry, bytes)
      }
      writes.append(Write(entry: entry))
    }
  }

  /// Calls `body` for each write of a kind in a family that no later one replaces.
  func forEach(
    _ family: StoreFamily, _ kind: WriteRecord.Kind, _ body: (WriteRecord.Entry) -> Void
  ) {
    for write in writes
    where !write.isReplaced && write.entry.family == family && write.entry.kind == kind {
      body(write.entry)
    }
  }

  private mutating func resetTable(for count: Int) {
    var size = 64
    while size < 2 * count { size *= 2 }
    if size > table.count || size < table.count / 16 {
      table = [UInt32](repeating: 0, count: size)
    } else {
      for index in table.indices { table[index] = 0 }
    }
  }

  /// Finds the earlier write of the same key, which is replaced, or a free place.
  private mutating func enter(_ entry: WriteRecord.Entry, _ bytes: Span<UInt8>) {
    let key = bytes.extracting(entry.key)
    var place = Int(truncatingIfNeeded: Self.hash(entry.family, key)) & (table.count - 1)
    while table[place] != 0 {
      let earlier = Int(table[place]) - 1
      let other = writes[earlier].entry
      if other.family == entry.family, bytes.extracting(other.key).equals(key) {
        writes[earlier].isReplaced = true
        break
      }
      place = (place + 1) & (table.count - 1)
    }
    table[place] = UInt32(writes.count + 1)
  }

  /// The earlier writes in a range are undone by its removal, which is executed first.
  private mutating func replace(
    _ family: StoreFamily, from start: Span<UInt8>, to end: Span<UInt8>, _ bytes: Span<UInt8>
  ) {
    for index in writes.indices
    where writes[index].entry.family == family && writes[index].entry.kind != .deleteRange {
      let key = bytes.extracting(writes[index].entry.key)
      if !key.precedes(start), key.precedes(end) { writes[index].isReplaced = true }
    }
  }

  /// FNV-1a.
  private static func hash(_ family: StoreFamily, _ key: Span<UInt8>) -> UInt64 {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325 ^ UInt64(family.rawValue)
    for index in key.indices { hash = (hash ^ UInt64(key[index])) &* 0x100_0000_01b3 }
    return hash ^ hash >> 32
  }
}
