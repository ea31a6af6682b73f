import ApusModel

/// The dynamic table of a decoder (RFC 7541, section 2.3.2), with the default size.
///
/// The bytes of the entries are contiguous, the oldest first, in twice the memory that they can fill: they are moved
/// to its beginning when the end is reached, which costs about one move per byte.
@safe struct DynamicTable: ~Copyable {
  /// SETTINGS_HEADER_TABLE_SIZE (RFC 9113, section 6.5.2).
  static let largestBytes = 4096
  private static let capacity = 2 * largestBytes
  /// A power of two; with 32 bytes of overhead each there are never more.
  private static let entryCapacity = largestBytes / HeaderField.overheadBytes

  private struct Entry {
    var offset: UInt16 = 0
    var nameCount: UInt16 = 0
    var valueCount: UInt16 = 0
    /// See `HeaderField`; `.max` if not listed.
    var listed: UInt8 = .max
    var isFine = false

    var length: Int { Int(nameCount) + Int(valueCount) }
  }

  private let bytes: UnsafeMutablePointer<UInt8>
  private let entries: UnsafeMutablePointer<Entry>
  private(set) var count = 0
  /// Entries ever made: the newest one's index, modulo the capacity, is one less.
  private var made = 0
  /// The size as defined by the RFC.
  private(set) var byteCount = 0
  private var limit = largestBytes
  /// The offset for the bytes of the next entry.
  private var end = 0

  init() {
    unsafe bytes = .allocate(capacity: Self.capacity)
    unsafe entries = .allocate(capacity: Self.entryCapacity)
    unsafe entries.initialize(repeating: Entry(), count: Self.entryCapacity)
  }

  deinit {
    unsafe bytes.deallocate()
    unsafe entries.deallocate()
  }

  /// The entry at an index from 0, the newest, to `count` - 1.
  subscript(place: Int) -> HeaderField {
    let entry = unsafe entries[(made &- 1 &- place) & (Self.entryCapacity - 1)]
    let start = unsafe bytes + Int(entry.offset)
    return unsafe HeaderField(
      listed: HeaderName(rawValue: entry.listed), isFine: entry.isFine,
      name: UnsafeBufferPointer(start: start, count: Int(entry.nameCount)),
      value: UnsafeBufferPointer(
        start: start + Int(entry.nameCount), count: Int(entry.valueCount)))
  }

  /// Adds an entry whose bytes are elsewhere. One larger than the table empties it, which is not an error.
  mutating func add(_ field: HeaderField) {
    let size = field.byteCount
    evict(until: limit - size)
    guard size <= limit else { return }
    let (name, value) = unsafe (field.unsafeName, field.unsafeValue)
    if end + name.count + value.count > Self.capacity { compact() }
    let start = unsafe bytes + end
    if let from = name.baseAddress { unsafe start.update(from: from, count: name.count) }
    if let from = value.baseAddress {
      unsafe (start + name.count).update(from: from, count: value.count)
    }
    unsafe entries[made & (Self.entryCapacity - 1)] = Entry(
      offset: UInt16(end), nameCount: UInt16(name.count), valueCount: UInt16(value.count),
      listed: field.listed?.rawValue ?? .max, isFine: field.isFine)
    made += 1
    count += 1
    byteCount += size
    end += name.count + value.count
  }

  /// Section 4.3.
  mutating func resize(to limit: Int) {
    self.limit = limit
    evict(until: limit)
  }

  private mutating func evict(until size: Int) {
    while byteCount > max(size, 0) {
      let oldest = unsafe entries[(made &- count) & (Self.entryCapacity - 1)]
      byteCount -= oldest.length + HeaderField.overheadBytes
      count -= 1
    }
  }

  /// Moves the remaining entries to the beginning.
  private mutating func compact() {
    let first =
      count == 0
      ? end : Int(unsafe entries[(made &- count) & (Self.entryCapacity - 1)].offset)
    unsafe bytes.update(from: bytes + first, count: end - first)
    for place in 0..<count {
      unsafe entries[(made &- 1 &- place) & (Self.entryCapacity - 1)].offset -= UInt16(first)
    }
    end -= first
  }
}
