import ApusModel

/// Writes that reach the disk together or not at all, in the order in which they were added.
///
/// Noncopyable: after passing it to `DurableStore.commit` the caller cannot change it, so it crosses to the commit
/// thread without a lock.
///
/// The bytes are those of RocksDB's write batch (`db/write_batch.cc`, `WriteBatch::rep_`), which is also the format of
/// its log. Encoding them here rather than through `rocksdb_writebatch_put_cf` has three reasons: a group needs no
/// handle of a database that may be reopened meanwhile, groups are merged by appending (the C interface of 7.8 has no
/// append), and the memory store reads the same groups.
package struct WriteGroup: ~Copyable, Sendable {
  /// The sequence number (8 bytes), which the engine fills in, and the count (4), which `CommitQueue` fills in, then
  /// the records.
  var bytes: [UInt8]

  /// The number of writes in the group.
  package private(set) var count = 0

  /// An empty group. `DurableStore.makeGroup` returns one with reused memory.
  package init() { self.init(recycling: []) }

  init(recycling buffer: consuming [UInt8]) {
    bytes = buffer
    bytes.removeAll(keepingCapacity: true)
    bytes.append(addingCapacity: WriteRecord.headerByteCount) { output in
      for _ in 0..<WriteRecord.headerByteCount { output.append(0) }
    }
  }

  /// Bytes that the writes will take in the log.
  package var byteCount: Int { bytes.count - WriteRecord.headerByteCount }

  /// Sets the value of `key`, whatever it was before.
  package mutating func put(_ family: StoreFamily, key: Span<UInt8>, value: Span<UInt8>) {
    WriteRecord.append(.put, family, to: &bytes)
    WriteRecord.append(lengthPrefixed: key, to: &bytes)
    WriteRecord.append(lengthPrefixed: value, to: &bytes)
    count += 1
  }

  /// Puts a notification into its slot in `mailbox`: `put` of the record that `StoredNotification.encode` makes,
  /// encoded in place.
  package mutating func put(
    _ fields: StoredNotification.Fields, collapseID: Span<UInt8>, payload: Span<UInt8>,
    at place: MailboxKey
  ) {
    let key = place.encoded()
    let valueByteCount = StoredNotification.byteCount(collapseID, payload)
    bytes.append(
      addingCapacity: WriteRecord.mostBytesBeforeValue + key.span.count + valueByteCount
    ) { output in
      output.append(WriteRecord.Kind.put.rawValue)
      WriteRecord.append(varint: WriteRecord.number(of: .mailbox), to: &output)
      WriteRecord.append(varint: UInt32(key.span.count), to: &output)
      output.append(copying: key.span)
      WriteRecord.append(varint: UInt32(valueByteCount), to: &output)
      StoredNotification.append(fields, collapseID, payload, to: &output)
    }
    count += 1
  }

  /// Removes `key`, whether or not it exists.
  package mutating func delete(_ family: StoreFamily, key: Span<UInt8>) {
    WriteRecord.append(.delete, family, to: &bytes)
    WriteRecord.append(lengthPrefixed: key, to: &bytes)
    count += 1
  }

  /// Removes `key`, which was put at most once, and is never put again: row and removal then vanish together when they
  /// meet in the engine, so that neither reaches a table if the row is short-lived.
  package mutating func deleteOnly(_ family: StoreFamily, key: Span<UInt8>) {
    WriteRecord.append(.deleteSingle, family, to: &bytes)
    WriteRecord.append(lengthPrefixed: key, to: &bytes)
    count += 1
  }

  /// Removes all keys from `start` up to, but not including, `end`.
  package mutating func deleteRange(
    _ family: StoreFamily, from start: Span<UInt8>, to end: Span<UInt8>
  ) {
    WriteRecord.append(.deleteRange, family, to: &bytes)
    WriteRecord.append(lengthPrefixed: start, to: &bytes)
    WriteRecord.append(lengthPrefixed: end, to: &bytes)
    count += 1
  }

  /// Empties the group and keeps its memory.
  package mutating func removeAll() {
    bytes.removeSubrange(WriteRecord.headerByteCount...)
    count = 0
  }
}

/// One write of a group: kind (1 byte), family number (varint), then the key and, for a put, the value, or for a
/// range, its end, each preceded by its length (varint).
enum WriteRecord {
  /// Sequence number, 8 bytes, and count, 4 bytes, both little-endian.
  static let headerByteCount = 12

  /// `kTypeColumnFamilyDeletion`, `kTypeColumnFamilyValue`, `kTypeColumnFamilySingleDeletion` and
  /// `kTypeColumnFamilyRangeDeletion` of RocksDB's `db/dbformat.h`.
  enum Kind: UInt8 {
    case delete = 0x04
    case put = 0x05
    case deleteSingle = 0x08
    case deleteRange = 0x0e
  }

  /// The number of a family in the engine. Number 0 is the family `default`, which always exists and stays empty.
  static func number(of family: StoreFamily) -> UInt32 { UInt32(family.rawValue) + 1 }

  static func append(_ kind: Kind, _ family: StoreFamily, to bytes: inout [UInt8]) {
    bytes.append(kind.rawValue)
    append(varint: number(of: family), to: &bytes)
  }

  static func append(lengthPrefixed source: Span<UInt8>, to bytes: inout [UInt8]) {
    append(varint: UInt32(source.count), to: &bytes)
    bytes.append(source)
  }

  /// Seven bits per byte, the least significant first, the top bit set on all but the last.
  static func append(varint value: UInt32, to bytes: inout [UInt8]) {
    var rest = value
    while rest >= 0x80 {
      bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
      rest &>>= 7
    }
    bytes.append(UInt8(truncatingIfNeeded: rest))
  }

  static func append(varint value: UInt32, to bytes: inout OutputSpan<UInt8>) {
    var rest = value
    while rest >= 0x80 {
      bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
      rest &>>= 7
    }
    bytes.append(UInt8(truncatingIfNeeded: rest))
  }

  /// The most bytes of a put without key and value: its kind and three numbers.
  static let mostBytesBeforeValue = 1 + 3 * 5

  /// Writes the count of a batch into its header; the engine assigns the sequence number.
  static func setCount(_ count: Int, in bytes: inout [UInt8]) {
    let value = UInt32(count)
    for index in 0..<4 { bytes[8 + index] = UInt8(truncatingIfNeeded: value &>> UInt32(8 * index)) }
  }

  /// A write of a group. `value` is that of a put, or the end of a range.
  struct Entry {
    var kind: Kind
    var family: StoreFamily
    var key: Range<Int>
    var value: Range<Int>?
  }

  /// The write at `position`, which is advanced; nil at the end. Only for groups of this process: anything that
  /// `WriteGroup` would not write is a bug and traps.
  static func next(in bytes: Span<UInt8>, at position: inout Int) -> Entry? {
    guard position < bytes.count else { return nil }
    guard let kind = Kind(rawValue: bytes[position]) else { preconditionFailure("unknown kind") }
    position += 1
    let number = varint(in: bytes, at: &position)
    guard number > 0, let family = StoreFamily(rawValue: UInt8(number - 1)) else {
      preconditionFailure("unknown family \(number)")
    }
    let key = run(in: bytes, at: &position)
    let value =
      kind == .delete || kind == .deleteSingle ? nil : run(in: bytes, at: &position)
    return Entry(kind: kind, family: family, key: key, value: value)
  }

  private static func run(in bytes: Span<UInt8>, at position: inout Int) -> Range<Int> {
    let length = Int(varint(in: bytes, at: &position))
    let range = position..<position + length
    precondition(range.upperBound <= bytes.count, "a write reaches beyond its group")
    position = range.upperBound
    return range
  }

  private static func varint(in bytes: Span<UInt8>, at position: inout Int) -> UInt32 {
    var value: UInt32 = 0
    var shift: UInt32 = 0
    while true {
      let byte = bytes[position]
      position += 1
      value |= UInt32(byte & 0x7f) &<< shift
      if byte & 0x80 == 0 { return value }
      shift += 7
    }
  }
}
