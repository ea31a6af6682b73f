/// The sockets of a loop: the descriptor, interest and owner of each. Confined.
///
/// A socket has a slot instead of being indexed by its descriptor: descriptors are numbered per process, so the table
/// of each loop would be as long as that of all together. Entries are in chunks and never move.
///
/// The loop has an epoll of its own for sockets, which libuv watches: a watcher of libuv for each takes 200 bytes.
@safe
final class SocketTable {
  private static let chunkBits = 9
  private static let entriesPerChunk = 1 << chunkBits

  private var chunks = unsafe [UnsafeMutablePointer<Entry>]()
  /// Slots that were ever used.
  private(set) var count: Int32 = 0
  /// The slot freed last; -1 if none.
  private var firstFree: Int32 = -1

  enum Owner {
    case nobody
    case handler(any SocketHandler)
    /// The tag passed to the loop's `dormantSocketHandler`.
    case dormant(Int32)
    /// The slot freed before this one; -1 if none.
    case free(Int32)
  }

  /// 24 bytes.
  struct Entry {
    var owner: Owner
    /// -1: the slot is free.
    var descriptor: Int32
    /// Two bits of interest, two bits armed, whether it goes first, and the generation.
    private var state: UInt32 = 0

    init() {
      owner = .nobody
      descriptor = -1
    }

    /// The owner's interest, as bits of `Readiness`.
    var interest: UInt32 {
      get { state & 3 }
      set { state = state & ~3 | newValue }
    }

    /// What the system watches.
    var armed: UInt32 {
      get { state >> 2 & 3 }
      set { state = state & ~12 | newValue << 2 }
    }

    /// Whether `EventLoop.firstEpoll` watches it.
    var goesFirst: Bool {
      get { state & 16 != 0 }
      set { state = newValue ? state | 16 : state & ~16 }
    }

    /// Counts the occupants of the slot: an event of a socket closed within the same turn is ignored.
    var generation: UInt32 { state >> 5 }

    /// What should be watched: nothing without a handler, because the events would not stop.
    var wanted: UInt32 {
      switch owner {
      case .handler, .dormant: interest
      case .nobody, .free: 0
      }
    }

    /// Frees the entry for the next socket.
    mutating func becomeFree(before next: Int32) {
      owner = .free(next)
      descriptor = -1
      state = (state & ~31) &+ 32
    }
  }

  deinit {
    for slot in 0..<count { unsafe self[slot].deinitialize(count: 1) }
    unsafe chunks.forEach { unsafe $0.deallocate() }
  }

  /// The pointer is valid for the lifetime of the table.
  subscript(slot: Int32) -> UnsafeMutablePointer<Entry> {
    precondition(slot >= 0 && slot < count, "no socket has this slot")
    return unsafe chunks[Int(slot) >> Self.chunkBits] + (Int(slot) & (Self.entriesPerChunk - 1))
  }

  /// A slot without an owner and without interest.
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

  /// Frees a slot. The caller releases the owner, because its release may access the table.
  func free(_ slot: Int32) -> Owner {
    let entry = unsafe self[slot]
    let owner = unsafe entry.pointee.owner
    unsafe entry.pointee.becomeFree(before: firstFree)
    firstFree = slot
    return owner
  }

  /// Distinguishes this socket's events from those of other occupants of the slot.
  func key(_ slot: Int32) -> UInt64 {
    unsafe UInt64(self[slot].pointee.generation) << 32 | UInt64(UInt32(bitPattern: slot))
  }

  /// The slot for a key; nil if its socket was closed.
  func slot(of key: UInt64) -> Int32? {
    let slot = Int32(truncatingIfNeeded: key)
    return unsafe UInt64(self[slot].pointee.generation) == key >> 32 ? slot : nil
  }
}
