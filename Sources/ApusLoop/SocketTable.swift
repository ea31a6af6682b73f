/// The sockets of a loop: for each its descriptor, what its owner wants to hear of, and who hears of it. Confined.
///
/// A socket has a slot, and not its descriptor for an index: descriptors are numbered for the process, and the table of
/// each of its loops would be as long as that of all together. Entries lie in chunks and never move.
@safe
final class SocketTable {
  private static let chunkBits = 9
  private static let entriesPerChunk = 1 << chunkBits

  private var chunks = unsafe [UnsafeMutablePointer<Entry>]()
  /// Slots that were ever used.
  private(set) var count: Int32 = 0
  /// The slot that was freed last; -1: none.
  private var firstFree: Int32 = -1

  enum Owner {
    case nobody
    case handler(any SocketHandler)
    /// The tag that the loop's `parkedSocketHandler` is told.
    case parked(Int32)
    /// The slot that was freed before this one; -1: none.
    case free(Int32)
  }

  /// 24 bytes.
  struct Entry {
    var owner: Owner
    /// -1: the slot is free.
    var descriptor: Int32
    /// Two bits of interest, two of what is armed, and the generation.
    private var state: UInt32 = 0

    init() {
      owner = .nobody
      descriptor = -1
    }

    /// What the owner wants to hear of, as bits of `Readiness`.
    var interest: UInt32 {
      get { state & 3 }
      set { state = state & ~3 | newValue }
    }

    /// What the system watches.
    var armed: UInt32 {
      get { state >> 2 & 3 }
      set { state = state & ~12 | newValue << 2 }
    }

    /// Counts the sockets that had the slot: an event of one that was closed within the same turn is nobody's.
    var generation: UInt32 { state >> 4 }

    /// What should be watched. Without a handler nothing, since nobody would end it.
    var wanted: UInt32 {
      switch owner {
      case .handler, .parked: interest
      case .nobody, .free: 0
      }
    }

    /// For the next socket.
    mutating func becomeFree(before next: Int32) {
      owner = .free(next)
      descriptor = -1
      state = (state & ~15) &+ 16
    }
  }

  deinit {
    for slot in 0..<count { unsafe self[slot].deinitialize(count: 1) }
    unsafe chunks.forEach { unsafe $0.deallocate() }
  }

  /// The pointer is good for as long as the table is there.
  subscript(slot: Int32) -> UnsafeMutablePointer<Entry> {
    precondition(slot >= 0 && slot < count, "no socket has this slot")
    return unsafe chunks[Int(slot) >> Self.chunkBits] + (Int(slot) & (Self.entriesPerChunk - 1))
  }

  /// A slot with nobody and no interest.
  func take(_ descriptor: Int32) -> Int32 {
    let slot = firstFree >= 0 ? firstFree : append()
    let entry = unsafe self[slot]
    if case .free(let next) = unsafe entry.pointee.owner { firstFree = next }
    unsafe entry.pointee.owner = .nobody
    unsafe entry.pointee.descriptor = descriptor
    return slot
  }

  private func append() -> Int32 {
    if unsafe Int(count) == chunks.count << Self.chunkBits {
      unsafe chunks.append(.allocate(capacity: Self.entriesPerChunk))
    }
    count += 1
    unsafe self[count - 1].initialize(to: Entry())
    return count - 1
  }

  /// Empties a slot. Whoever had it may reach for the table when released, so this is left to the caller.
  func free(_ slot: Int32) -> Owner {
    let entry = unsafe self[slot]
    let owner = unsafe entry.pointee.owner
    unsafe entry.pointee.becomeFree(before: firstFree)
    firstFree = slot
    return owner
  }

  /// What tells this socket's events from those of others that had the slot or will have it.
  func key(_ slot: Int32) -> UInt64 {
    unsafe UInt64(self[slot].pointee.generation) << 32 | UInt64(UInt32(bitPattern: slot))
  }

  /// The slot that a key means; nil: its socket has gone.
  func slot(of key: UInt64) -> Int32? {
    let slot = Int32(truncatingIfNeeded: key)
    return unsafe UInt64(self[slot].pointee.generation) == key >> 32 ? slot : nil
  }
}
