import Glibc

/// Rows by connection slot, in chunks that are mapped from the system and returned to it.
///
/// Not on the heap: small long-lived rows between freed memory would keep its pages. Growing copies nothing, and the
/// memory is returned after a storm of connections.
@safe struct DormantRows<Row>: ~Copyable {
  @safe private struct Chunk {
    /// Nil while none of its rows is taken.
    var rows: UnsafeMutablePointer<Row>?
    var taken = 0
  }

  private var chunks: [Chunk] = []
  /// A bit for each slot.
  private var taken: [UInt64] = []
  /// The chunk that became empty last. Without it, a single row that comes and goes would cost two system calls each
  /// time.
  private var spare: UnsafeMutablePointer<Row>?

  static var chunkBytes: Int { 65_536 }
  static var rowsInChunk: Int { chunkBytes / MemoryLayout<Row>.stride }

  init() {}

  deinit {
    for slot in slots { unsafe pointer(slot).deinitialize(count: 1) }
    for index in chunks.indices {
      if let rows = unsafe chunks[index].rows { unsafe munmap(rows, Self.chunkBytes) }
    }
    if let spare = unsafe spare { unsafe munmap(spare, Self.chunkBytes) }
  }

  /// Whether the slot has a row.
  func has(_ slot: Int) -> Bool {
    slot >> 6 < taken.count && taken[slot >> 6] & 1 << UInt64(slot & 63) != 0
  }

  /// The slots that have a row, in ascending order.
  var slots: [Int] {
    var slots: [Int] = []
    for (index, word) in taken.enumerated() {
      var word = word
      while word != 0 {
        slots.append(index << 6 | word.trailingZeroBitCount)
        word &= word - 1
      }
    }
    return slots
  }

  /// The row of a slot; the slot must have one.
  subscript(slot: Int) -> Row {
    unsafeAddress { unsafe UnsafePointer(pointer(slot)) }
    unsafeMutableAddress { unsafe pointer(slot) }
  }

  private func pointer(_ slot: Int) -> UnsafeMutablePointer<Row> {
    let (chunk, place) = slot.quotientAndRemainder(dividingBy: Self.rowsInChunk)
    guard has(slot), let rows = unsafe chunks[chunk].rows else {
      preconditionFailure("slot \(slot) is not dormant")
    }
    return unsafe rows + place
  }

  /// Whether there is memory for a row of the slot, which must not have one.
  mutating func reserve(_ slot: Int) -> Bool {
    let index = slot / Self.rowsInChunk
    while chunks.count <= index { chunks.append(Chunk()) }
    if unsafe chunks[index].rows == nil { unsafe chunks[index].rows = spare ?? Self.makeChunk() }
    if unsafe chunks[index].rows == spare { unsafe spare = nil }
    while taken.count <= slot >> 6 { taken.append(0) }
    return unsafe chunks[index].rows != nil
  }

  /// Inserts the row of a slot that `reserve` returned true for.
  mutating func insert(_ row: consuming Row, at slot: Int) {
    let (index, place) = slot.quotientAndRemainder(dividingBy: Self.rowsInChunk)
    guard !has(slot), let rows = unsafe chunks[index].rows else {
      preconditionFailure("slot \(slot) is not free")
    }
    unsafe (rows + place).initialize(to: row)
    chunks[index].taken += 1
    taken[slot >> 6] |= 1 << UInt64(slot & 63)
  }

  mutating func remove(at slot: Int) {
    unsafe pointer(slot).deinitialize(count: 1)
    taken[slot >> 6] &= ~(1 << UInt64(slot & 63))
    let index = slot / Self.rowsInChunk
    chunks[index].taken -= 1
    guard chunks[index].taken == 0 else { return }
    if let spare = unsafe spare { unsafe munmap(spare, Self.chunkBytes) }
    unsafe spare = chunks[index].rows
    unsafe chunks[index].rows = nil
  }

  private static func makeChunk() -> UnsafeMutablePointer<Row>? {
    let memory = unsafe mmap(
      nil, chunkBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    guard let memory = unsafe memory, unsafe memory != MAP_FAILED else { return nil }
    return unsafe memory.bindMemory(to: Row.self, capacity: rowsInChunk)
  }
}
