import ApusModel
import ApusWire

/// The layout of a client's frames, and which of them are numbered.
///
/// Source: Binary Provider API; commands 0 and 1 are its legacy formats.
struct FrameFormat: Sendable, Hashable {
  var command: BinaryCommand

  /// The offset of the identifier in a frame of `byteCount` bytes; nil for command 0, which has none.
  ///
  /// Frames of command 2 contain the items 1 to 5 in order, so the last 15 bytes are the identifier, item 4 (7 bytes)
  /// and item 5 (4 bytes).
  func identifierOffset(byteCount: Int) -> Int? {
    switch command {
    case .simple: nil
    case .enhanced: 1
    case .framed: byteCount - 15
    }
  }

  /// A notification without token and payload, which no service accepts. Its error packet proves that everything before
  /// it was processed. Nil for command 0, which has no packets.
  var probe: [UInt8]? {
    var bytes: [UInt8] = []
    let nothing: [UInt8] = []
    switch command {
    case .simple: return nil
    case .enhanced:
      bytes.append(enhanced: nothing.span, payload: nothing.span, identifier: 0, expiration: 0)
    case .framed:
      bytes.append(
        framed: nothing.span, payload: nothing.span, identifier: 0, expiration: 0,
        priority: Priority.immediate.rawValue)
    }
    return bytes
  }
}

/// The notifications of successive connections: those to be written, those written without an outcome, and behind these
/// some with an outcome.
///
/// The binary interface does not confirm success, so acceptance is inferred. A notification is accepted when an error
/// packet names a later one, when the service confirms it, or when the peer's system has had it for
/// `Window.silenceMilliseconds` and no packet came. The last inference is only as reliable as the window is long.
/// Notifications accepted by silence therefore stay here until their room is needed: if a late packet proves that the
/// service discarded them, they are resent.
///
/// Each connection numbers its notifications from 1. Numbers are then places in the queue; numbers kept across
/// connections would have gaps and need a search. 0 is not used, since services send 0 when they cannot tell which
/// notification they mean.
///
/// A value without I/O and clock. The driver appends frames, writes the records of ``nextRecord(limit:)``, reports
/// their progress (``handedOver(through:)``, ``reached(through:nowMilliseconds:)``), passes in each packet and each end
/// of a connection, and takes ``settled`` after each call.
struct SentQueue: Sendable {
  struct Window: Sendable, Hashable {
    /// Limits for notifications without an outcome, and for their bytes.
    var frames: Int
    var bytes: Int
    /// How long the service must have been silent about a notification that its system has. Nil if the service
    /// confirms: then silence means nothing.
    var silenceMilliseconds: UInt64?
  }

  /// How a notification ended.
  enum Settlement: Sendable, Hashable {
    case accepted
    /// With the status of the packet.
    case rejected(UInt8)
    case unknown(UnknownCause.Code, mayBeTaken: Bool)
    /// Accepted by silence, but a packet after the window rejected it.
    case rejectedLate(UInt8)
    /// Accepted by silence, but a late packet proved that it was discarded, and the result of resending it is unknown.
    case lost
  }

  struct Settled: Sendable, Hashable {
    var ticket: UInt64
    var id: NotificationID
    var settlement: Settlement
  }

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
    var offset: Int
    var byteCount: Int32
    var state: State
  }

  struct Mark: Sendable {
    var through: Int
    var milliseconds: UInt64
  }

  let format: FrameFormat
  let window: Window
  /// Most identifiers of a connection: all but 0. Smaller in tests.
  let identifierLimit: Int

  // Places count all frames that were ever in the queue: tail <= handed <= next <= end.

  /// The ring: the index of a place is the place modulo the size, a power of two.
  var entries: [Entry] = []
  var arena = FrameArena()
  /// The oldest entry that is kept.
  var tail = 0
  /// Entries before this place are neither open nor to be resent.
  var firstOpen = 0
  /// Entries before this place were passed completely to the system, or have their outcome.
  var handed = 0
  /// The next entry to write.
  var next = 0
  var end = 0
  /// The place with identifier 1.
  var connectionStart = 0
  /// Whether a notification was accepted on this connection, by silence or by a packet.
  var hasAccepted = false
  /// When the peer's system had received which place, oldest first. Marks before `markHead` are done.
  var marks: [Mark] = []
  var markHead = 0
  /// Notifications without an outcome.
  var openCount = 0
  /// Notifications with an outcome that will be resent, or were resent and await the result.
  var againCount = 0
  /// Notifications that turned out not to be accepted after silence, but were no longer kept. An upper bound, since
  /// some of them may have been cancelled.
  var forgottenCount = 0
  /// Notifications of this connection that were dropped after acceptance by silence, and the place behind the last.
  var droppedCount = 0
  var droppedThrough = 0
  /// What was settled since the driver last took it.
  var settled: [Settled] = []

  init(format: FrameFormat, window: Window, identifierLimit: Int = Int(UInt32.max) - 1) {
    self.format = format
    self.window = window
    self.identifierLimit = identifierLimit
  }

  /// Whether there is something to write.
  var wantsWrite: Bool { next < end && !needsNewConnection }

  /// Whether everything written has its outcome.
  var isSettled: Bool { firstOpen >= next }

  /// Notifications that still need an outcome or a resend.
  var pendingCount: Int { openCount + againCount }

  /// Whether a probe waits to be written behind everything else.
  var endsInProbe: Bool { next < end && self[end - 1].state == .probe }

  /// Frames that wait to be written.
  var unwrittenCount: Int { end - next }

  /// Whether the connection has used all identifiers: it takes nothing more, and the rest needs another.
  var needsNewConnection: Bool { next - connectionStart >= identifierLimit }

  subscript(place: Int) -> Entry {
    get { entries[place & (entries.count - 1)] }
    _modify { yield &entries[place & (entries.count - 1)] }
  }

  // MARK: Input

  /// Adds a frame, whose identifier is written later; false if the window is full.
  mutating func append(
    _ frame: Span<UInt8>, ticket: UInt64, id: NotificationID, deadlineMilliseconds: UInt64
  ) -> Bool {
    guard openCount < window.frames else { return false }
    return put(
      frame,
      Entry(
        ticket: ticket, id: id, deadlineMilliseconds: deadlineMilliseconds, offset: 0,
        byteCount: Int32(frame.count), state: .open))
  }

  /// Adds the probe behind all other frames; nothing may be added after it. False if the command has no probe, or there
  /// is no room for it.
  mutating func appendProbe() -> Bool {
    guard let frame = format.probe else { return false }
    return put(
      frame.span,
      Entry(
        ticket: 0, id: NotificationID(high: 0, low: 0), deadlineMilliseconds: .max, offset: 0,
        byteCount: Int32(frame.count), state: .probe))
  }

  private mutating func put(_ frame: Span<UInt8>, _ entry: Entry) -> Bool {
    guard makeRoomForEntry(), let offset = makeRoom(for: frame.count) else { return false }
    arena.write(frame, at: offset)
    var entry = entry
    entry.offset = offset
    entries[end & (entries.count - 1)] = entry
    end += 1
    if entry.state == .open { openCount += 1 }
    return true
  }

  // MARK: Output

  /// The range in `arena.bytes` of the next frames, numbered: at most `limit` bytes, but at least one frame. `next` is
  /// then the place behind them. Nil if there is nothing to write.
  mutating func nextRecord(limit: Int) -> Range<Int>? {
    while next < end, self[next].state == .over { next += 1 }
    guard wantsWrite else { return nil }
    let start = self[next].offset
    var upper = start
    while next < end, !needsNewConnection {
      let (offset, byteCount, state) = (
        self[next].offset, Int(self[next].byteCount), self[next].state
      )
      guard state != .over, offset == upper, upper == start || upper + byteCount - start <= limit
      else { break }
      if let place = format.identifierOffset(byteCount: byteCount) {
        arena.bytes.patch(
          bigEndian: UInt32(truncatingIfNeeded: next - connectionStart + 1), at: offset + place)
      }
      upper += byteCount
      next += 1
    }
    return start..<upper
  }

  // MARK: Progress

  /// The system has all bytes of the frames before this place: the service may now have read them.
  mutating func handedOver(through place: Int) { handed = max(handed, min(place, next)) }

  /// The peer's system has them: the silence starts.
  mutating func reached(through place: Int, nowMilliseconds: UInt64) {
    handedOver(through: place)
    guard window.silenceMilliseconds != nil, place > (marks.last?.through ?? connectionStart) else {
      return
    }
    if markHead > 64, markHead * 2 > marks.count {
      marks.removeFirst(markHead)
      markHead = 0
    }
    marks.append(Mark(through: min(place, next), milliseconds: nowMilliseconds))
  }

  /// Accepts what the service has been silent about for long enough. Call only after reading everything from the
  /// connection, and while it is open.
  mutating func confirmSilent(nowMilliseconds: UInt64) {
    guard let silence = window.silenceMilliseconds else { return }
    while markHead < marks.count, marks[markHead].milliseconds + silence <= nowMilliseconds {
      accept(before: marks[markHead].through, as: .presumed)
      markHead += 1
    }
    trim()
  }

  /// Ends what is overdue. What was already written, even if only to the connection's buffer, is still sent.
  mutating func expire(nowMilliseconds: UInt64) {
    while firstOpen < end {
      if isPending(firstOpen) {
        // Entries are in the order of their deadlines.
        guard self[firstOpen].deadlineMilliseconds <= nowMilliseconds else { break }
        fail(firstOpen, .timedOut, mayBeTaken: firstOpen < next)
      }
      firstOpen += 1
    }
    trim()
  }

  /// Ends one notification.
  mutating func cancel(_ ticket: UInt64) {
    for place in firstOpen..<end where self[place].ticket == ticket && self[place].state == .open {
      fail(place, .cancelled, mayBeTaken: place < next)
    }
    trim()
  }

  /// Ends those that are not with the system: the service has not read them.
  mutating func abandonUnwritten(_ cause: UnknownCause.Code) {
    for place in max(firstOpen, handed)..<end { fail(place, cause, mayBeTaken: false) }
    trim()
  }

  /// Ends all of them, together with the connection.
  mutating func abandon(_ cause: UnknownCause.Code) {
    for place in firstOpen..<end { fail(place, cause, mayBeTaken: place < handed) }
    trim()
  }
}
