import ApusModel
import ApusWire

/// How the frames of a client are laid out, and which of them are numbered.
///
/// Source: "Binary Provider API"; commands 0 and 1 are its legacy formats.
struct FrameFormat: Sendable, Hashable {
  var command: BinaryCommand

  /// Where the identifier stands in a frame of `byteCount` bytes; nil for command 0, which has none.
  ///
  /// Frames of command 2 have the items 1 to 5 in their order, so that the last 15 bytes are the identifier, item 4
  /// (7 bytes) and item 5 (4 bytes).
  func identifierOffset(byteCount: Int) -> Int? {
    switch command {
    case .simple: nil
    case .enhanced: 1
    case .framed: byteCount - 15
    }
  }

  /// A notification that no service takes: no token, no payload. Its error packet says that everything before it was
  /// processed. Nil for command 0, which has no packets.
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

/// The notifications that go over one connection after the other: those that are to be written, those that were and
/// have no outcome, and behind these some that have one.
///
/// The binary interface is silent about success, so that what is known follows from what is not said. A notification is
/// accepted when a later one is named in an error packet, when the service confirms it, or when the peer's system has
/// had it for `Window.silenceMilliseconds` without a word from the service; that last kind is only as good as the
/// window is long. What is accepted by silence therefore stays here until its room is needed: a packet that comes late
/// after all proves that the service threw away what followed, and that is sent again.
///
/// Each connection numbers its notifications from 1. Numbers that went over from the connection before would have gaps
/// in no order, and would have to be searched for; these are places in the queue. 0 is left out, since services say 0
/// where they cannot tell which notification they mean.
///
/// A value without I/O and without a clock. The driver appends frames, writes the records that ``nextRecord(limit:)``
/// gives, tells how far they have come (``handedOver(through:)``, ``reached(through:nowMilliseconds:)``), hands in each
/// packet and each end of a connection, and after each verb takes what is in ``settled``.
struct SentQueue: Sendable {
  struct Window: Sendable, Hashable {
    /// Notifications without an outcome, and their bytes. More are not taken.
    var frames: Int
    var bytes: Int
    /// For how long the service must have been silent about a notification that its system has. Nil where the service
    /// confirms: then silence says nothing.
    var silenceMilliseconds: UInt64?
  }

  /// What became of a notification.
  enum Settlement: Sendable, Hashable {
    case accepted
    /// With the status of the packet.
    case rejected(UInt8)
    case unknown(UnknownCause.Code, mayBeTaken: Bool)
    /// It was accepted by silence, and a packet that came after the window says that it is rejected.
    case belied(UInt8)
    /// It was accepted by silence, a late packet says that it was thrown away, and what came of sending it again is not
    /// known.
    case lost
  }

  struct Settled: Sendable, Hashable {
    var ticket: UInt64
    var id: NotificationID
    var settlement: Settlement
  }

  enum State: Sendable, Hashable {
    case open
    /// Accepted by silence: no outcome is due, but it is sent again where a packet proves that it was not read.
    case presumed
    /// The same, and now it is to be sent again.
    case again
    /// Has its outcome, and is not sent (again).
    case over
    /// The frame that ends a connection with a proof; see `FrameFormat.probe`.
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
  /// Identifiers that a connection has, at most: all but 0. Smaller in tests.
  let identifierLimit: Int

  // Places count all frames that the queue ever had: tail <= handed <= next <= end.

  /// The ring: a place is an index modulo its size, which is a power of two.
  var entries: [Entry] = []
  var arena = FrameArena()
  /// The oldest that is kept.
  var tail = 0
  /// No place before it has an entry that is open or to be sent again.
  var firstOpen = 0
  /// Those before it have been given whole to the system, or have their outcome.
  var handed = 0
  /// The next to be written.
  var next = 0
  var end = 0
  /// The place whose identifier is 1.
  var connectionStart = 0
  /// Whether a notification was accepted on this connection by silence or by a packet.
  var hasAccepted = false
  /// When the peer's system had what, oldest first. Those before `markHead` are done with.
  var marks: [Mark] = []
  var markHead = 0
  /// Notifications without an outcome.
  var openCount = 0
  /// Those that have one and are to be sent again, or were and wait for what comes of it.
  var againCount = 0
  /// Notifications that were accepted by silence and then shown not to be, when they were no longer kept: at most so
  /// many, as some of them may have been cancelled.
  var forgottenCount = 0
  /// Of this connection, those that were let go after they were accepted by silence, and the place behind the last.
  var droppedCount = 0
  var droppedThrough = 0
  /// What the last verbs settled, for the driver to take.
  var settled: [Settled] = []

  init(format: FrameFormat, window: Window, identifierLimit: Int = Int(UInt32.max) - 1) {
    self.format = format
    self.window = window
    self.identifierLimit = identifierLimit
  }

  /// Whether there is something to write.
  var wantsWrite: Bool { next < end && !needsNewConnection }

  /// Whether everything that was written has its outcome.
  var isSettled: Bool { firstOpen >= next }

  /// Notifications that something is still to come of.
  var pendingCount: Int { openCount + againCount }

  /// Whether a probe waits to be written behind everything else.
  var endsInProbe: Bool { next < end && self[end - 1].state == .probe }

  /// Frames that wait to be written.
  var unwrittenCount: Int { end - next }

  /// Whether the connection has used its identifiers up: it takes nothing more, and the rest needs another.
  var needsNewConnection: Bool { next - connectionStart >= identifierLimit }

  subscript(place: Int) -> Entry {
    get { entries[place & (entries.count - 1)] }
    _modify { yield &entries[place & (entries.count - 1)] }
  }

  // MARK: In

  /// Takes a frame, whose identifier is written later; false when the window is full.
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

  /// Puts the frame behind all others that ends the connection with a proof; nothing is to be appended after it. False
  /// where there is none, or no room for it.
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

  // MARK: Out

  /// The place in `arena.bytes` of the next frames, numbered: a run of at most `limit` bytes, and at least one frame.
  /// `next` is then the place behind the run. Nil when there is nothing to write.
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

  // MARK: How far it has come

  /// The system has all bytes of the frames before this place: from now on the service may have read them.
  mutating func handedOver(through place: Int) { handed = max(handed, min(place, next)) }

  /// The peer's system has them: the time of silence begins.
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

  /// Accepts what the service has been silent about for long enough. To be called only when everything that the
  /// connection brought was read, and it still stands.
  mutating func confirmSilent(nowMilliseconds: UInt64) {
    guard let silence = window.silenceMilliseconds else { return }
    while markHead < marks.count, marks[markHead].milliseconds + silence <= nowMilliseconds {
      accept(before: marks[markHead].through, as: .presumed)
      markHead += 1
    }
    trim()
  }

  /// Ends what is overdue. What was written, if only to the connection's own memory, goes its way all the same.
  mutating func expire(nowMilliseconds: UInt64) {
    while firstOpen < end {
      if isPending(firstOpen) {
        // They come in the order of their deadlines.
        guard self[firstOpen].deadlineMilliseconds <= nowMilliseconds else { break }
        fail(firstOpen, .timedOut, mayBeTaken: firstOpen < next)
      }
      firstOpen += 1
    }
    trim()
  }

  /// Ends one notification, wherever it is.
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

  /// Ends all of them, with the connection.
  mutating func abandon(_ cause: UnknownCause.Code) {
    for place in firstOpen..<end { fail(place, cause, mayBeTaken: place < handed) }
    trim()
  }
}
