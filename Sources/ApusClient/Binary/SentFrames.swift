import ApusModel
import ApusWire

/// The frames of notifications in a ring, with their states, and what was settled.
///
/// A place counts all frames that were ever added; those from `tail` to `end` are kept.
struct SentFrames: Sendable {
  enum State: Sendable, Hashable {
    case open
    /// Accepted by silence: it needs no outcome, but is resent if a packet proves that it was not read.
    case presumed
    /// The same, and now it must be resent.
    case again
    /// Has its outcome, and is not sent (again).
    case over
    /// The frame whose error packet ends a connection; see `FrameFormat.probe`.
    case probe
  }

  struct Entry: Sendable {
    var ticket: UInt64
    var id: NotificationID
    var deadlineMilliseconds: UInt64
    fileprivate(set) var offset: Int
    var byteCount: Int32
    fileprivate(set) var state: State

    init(
      ticket: UInt64, id: NotificationID, deadlineMilliseconds: UInt64, byteCount: Int,
      state: State
    ) {
      self.ticket = ticket
      self.id = id
      self.deadlineMilliseconds = deadlineMilliseconds
      offset = 0
      self.byteCount = Int32(byteCount)
      self.state = state
    }
  }

  /// Why there is no room for a frame.
  enum Shortage {
    case entries
    case bytes
  }

  private static let leastEntries = 64
  private static let leastBytes = 16_384

  private let limits: SentQueue.Window
  /// The index of a place is the place modulo the size, a power of two.
  private var entries: [Entry] = []
  private var arena = FrameArena()
  private(set) var tail = 0
  private(set) var end = 0
  /// Notifications without an outcome.
  private(set) var openCount = 0
  /// Notifications with an outcome that will be resent, or were resent and await the result.
  private(set) var againCount = 0
  private var settled: [SentQueue.Settled] = []

  init(limits: SentQueue.Window) { self.limits = limits }

  private(set) subscript(place: Int) -> Entry {
    get { entries[place & (entries.count - 1)] }
    _modify { yield &entries[place & (entries.count - 1)] }
  }

  /// The memory of the frames; see `Entry.offset`.
  var bytes: [UInt8] { arena.bytes }
  var capacity: Int { entries.count }

  func isPending(_ place: Int) -> Bool {
    switch self[place].state {
    case .open, .again: true
    case .presumed, .over, .probe: false
    }
  }

  // MARK: Room

  /// What is missing for a frame of this length; nil for nothing.
  func shortage(for byteCount: Int) -> Shortage? {
    if end - tail == entries.count { return .entries }
    return offset(for: byteCount) == nil ? .bytes : nil
  }

  /// Whether so much memory is in use that old frames should be dropped rather than more be allocated.
  func isLarge(_ shortage: Shortage) -> Bool {
    switch shortage {
    case .entries: entries.count * 4 >= entryLimit
    case .bytes: arena.bytes.count * 4 >= limits.bytes
    }
  }

  /// Allocates more memory; false if that would exceed the window.
  mutating func grow(_ shortage: Shortage, for byteCount: Int) -> Bool {
    switch shortage {
    case .entries: growEntries()
    case .bytes: growArena(for: byteCount)
    }
  }

  private var entryLimit: Int { 2 * limits.frames }

  private func offset(for byteCount: Int) -> Int? {
    arena.place(for: byteCount, oldest: tail < end ? self[tail].offset : nil)
  }

  private mutating func growEntries() -> Bool {
    guard entries.count < max(entryLimit, Self.leastEntries) else { return false }
    let empty = Entry(
      ticket: 0, id: NotificationID(high: 0, low: 0), deadlineMilliseconds: 0, byteCount: 0,
      state: .over)
    var grown = [Entry](repeating: empty, count: max(Self.leastEntries, 2 * entries.count))
    for place in tail..<end { grown[place & (grown.count - 1)] = self[place] }
    entries = grown
    return true
  }

  private mutating func growArena(for byteCount: Int) -> Bool {
    let size = min(max(2 * arena.bytes.count, byteCount, Self.leastBytes), limits.bytes)
    guard size > arena.bytes.count else { return false }
    var grown = FrameArena()
    grown.bytes = [UInt8](repeating: 0, count: size)
    var offset = 0
    let old = arena.bytes
    for place in tail..<end {
      let (start, count) = (self[place].offset, Int(self[place].byteCount))
      grown.write(old.span.extracting(start..<start + count), at: offset)
      self[place].offset = offset
      offset += count
    }
    arena = grown
    return true
  }

  // MARK: Frames

  /// Adds a frame; false if there is no room.
  mutating func append(_ frame: Span<UInt8>, _ entry: Entry) -> Bool {
    guard end - tail < entries.count, let offset = offset(for: frame.count) else { return false }
    arena.write(frame, at: offset)
    var entry = entry
    entry.offset = offset
    entries[end & (entries.count - 1)] = entry
    end += 1
    if entry.state == .open { openCount += 1 }
    return true
  }

  /// Writes the identifier of a frame.
  mutating func number(_ place: Int, _ identifier: UInt32, at position: Int) {
    arena.bytes.patch(bigEndian: identifier, at: self[place].offset + position)
  }

  mutating func dropFirst() { tail += 1 }

  /// Drops all frames before `place`.
  mutating func drop(before place: Int) { tail = place }

  mutating func dropLast() { end -= 1 }

  // MARK: States

  /// Ends a notification, and records how.
  mutating func settle(_ place: Int, _ settlement: SentQueue.Settlement, as state: State = .over) {
    let entry = self[place]
    switch entry.state {
    case .open: openCount -= 1
    case .again: againCount -= 1
    case .presumed, .over, .probe: break
    }
    self[place].state = state
    // A second acceptance is not reported.
    if entry.state == .again, settlement == .accepted { return }
    settled.append(SentQueue.Settled(ticket: entry.ticket, id: entry.id, settlement: settlement))
  }

  /// Ends a pending notification without an answer.
  mutating func fail(_ place: Int, _ cause: UnknownCause.Code, mayBeTaken: Bool) {
    switch self[place].state {
    case .open: settle(place, .unknown(cause, mayBeTaken: mayBeTaken))
    case .again: settle(place, .lost)
    case .presumed, .over, .probe: break
    }
  }

  /// It needs nothing more. Not for pending ones.
  mutating func finish(_ place: Int) { self[place].state = .over }

  /// What silence had suggested is certain for all notifications before `place`.
  mutating func confirm(before place: Int) {
    for kept in tail..<max(tail, place) where self[kept].state == .presumed { finish(kept) }
  }

  /// What silence had suggested is wrong: it is sent again.
  mutating func sendAgain(_ place: Int) {
    guard self[place].state == .presumed else { return }
    self[place].state = .again
    againCount += 1
  }

  /// Exchanges what was settled for another array, whose memory is used from now on.
  mutating func exchangeSettled(_ other: inout [SentQueue.Settled]) { swap(&other, &settled) }

  var hasSettled: Bool { !settled.isEmpty }
}
