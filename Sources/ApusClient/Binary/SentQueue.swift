import ApusModel
import ApusWire

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
/// of a connection, and calls ``exchangeSettled(_:)`` after each call.
struct SentQueue: Sendable {
  struct Window: Sendable, Hashable {
    /// Limits for notifications without an outcome, and for their bytes.
    var frames: Int
    var bytes: Int
    /// How long the service must have been silent about a notification that its system has. Nil if the service
    /// confirms: then silence means nothing.
    var silenceMilliseconds: UInt64?
  }

  /// What the driver does after a packet.
  enum PacketVerdict: Sendable, Hashable {
    case goOn
    /// The service reads no more: end the connection, and write the rest on another.
    case ended
    /// The same, and the packet answered the probe.
    case proven
    /// The same, and the packet named nothing that was sent.
    case notUnderstood
  }

  let format: FrameFormat
  let window: Window
  /// Most identifiers of a connection: all but 0. Smaller in tests.
  let identifierLimit: Int

  // Places count all frames that were ever in the queue: frames.tail <= handed <= next <= frames.end.

  private(set) var frames: SentFrames
  /// Entries before this place are neither open nor to be resent.
  private var firstOpen = 0
  /// Entries before this place were passed completely to the system, or have their outcome.
  private var handed = 0
  /// The next entry to write.
  private(set) var next = 0
  /// The place with identifier 1.
  private var connectionStart = 0
  /// Whether a notification was accepted on this connection, by silence or by a packet.
  private(set) var hasAccepted = false
  private var marks = SilenceMarks()
  private var dropped = DroppedFrames()

  init(format: FrameFormat, window: Window, identifierLimit: Int = Int(UInt32.max) - 1) {
    self.format = format
    self.window = window
    self.identifierLimit = identifierLimit
    frames = SentFrames(limits: window)
  }

  /// Whether there is something to write.
  var wantsWrite: Bool { next < frames.end && !needsNewConnection }

  /// Whether everything written has its outcome.
  var isSettled: Bool { firstOpen >= next }

  /// Notifications that still need an outcome or a resend.
  var pendingCount: Int { frames.openCount + frames.againCount }

  /// Whether a probe waits to be written behind everything else.
  var endsInProbe: Bool { next < frames.end && frames[frames.end - 1].state == .probe }

  /// Frames that wait to be written.
  var unwrittenCount: Int { frames.end - next }

  /// Whether the connection has used all identifiers: it takes nothing more, and the rest needs another.
  var needsNewConnection: Bool { next - connectionStart >= identifierLimit }

  // MARK: Outcomes

  /// Whether anything was settled since the last ``exchangeSettled(_:)``.
  var hasSettled: Bool { frames.hasSettled }

  /// Exchanges what was settled for an empty array, whose memory is used from now on.
  mutating func exchangeSettled(_ settled: inout [Settled]) { frames.exchangeSettled(&settled) }

  /// Notifications that turned out not to be accepted after silence, but were no longer kept; an upper bound.
  var forgottenCount: Int { dropped.forgottenCount }

  /// The same since the last call.
  mutating func takeForgottenCount() -> Int { dropped.takeForgotten() }

  // MARK: Input

  /// Adds a frame, whose identifier is written later; false if the window is full.
  mutating func append(
    _ frame: Span<UInt8>, ticket: UInt64, id: NotificationID, deadlineMilliseconds: UInt64
  ) -> Bool {
    guard frames.openCount < window.frames else { return false }
    return put(
      frame,
      .init(
        ticket: ticket, id: id, deadlineMilliseconds: deadlineMilliseconds,
        byteCount: frame.count, state: .open))
  }

  /// Adds the probe behind all other frames; nothing may be added after it. False if the command has no probe, or there
  /// is no room for it.
  mutating func appendProbe() -> Bool {
    guard let frame = format.probe else { return false }
    return put(
      frame.span,
      .init(
        ticket: 0, id: NotificationID(high: 0, low: 0), deadlineMilliseconds: .max,
        byteCount: frame.count, state: .probe))
  }

  private mutating func put(_ frame: Span<UInt8>, _ entry: SentFrames.Entry) -> Bool {
    makeRoom(for: frame.count) && frames.append(frame, entry)
  }

  // MARK: Output

  /// The range in `frames.bytes` of the next frames, numbered: at most `limit` bytes, but at least one frame. `next` is
  /// then the place behind them. Nil if there is nothing to write.
  mutating func nextRecord(limit: Int) -> Range<Int>? {
    while next < frames.end, frames[next].state == .over { next += 1 }
    guard wantsWrite else { return nil }
    let start = frames[next].offset
    var upper = start
    while next < frames.end, !needsNewConnection {
      let entry = frames[next]
      let (offset, byteCount, state) = (entry.offset, Int(entry.byteCount), entry.state)
      guard state != .over, offset == upper, upper == start || upper + byteCount - start <= limit
      else { break }
      if let position = format.identifierOffset(byteCount: byteCount) {
        frames.number(
          next, UInt32(truncatingIfNeeded: next - connectionStart + 1), at: position)
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
    guard window.silenceMilliseconds != nil, place > marks.through ?? connectionStart else {
      return
    }
    marks.add(through: min(place, next), atMilliseconds: nowMilliseconds)
  }

  /// Accepts what the service has been silent about for long enough. Call only after reading everything from the
  /// connection, and while it is open.
  mutating func confirmSilent(nowMilliseconds: UInt64) {
    guard let silence = window.silenceMilliseconds else { return }
    while let place = marks.take(after: silence, nowMilliseconds: nowMilliseconds) {
      accept(before: place, as: .presumed)
    }
    trim()
  }

  /// Ends what is overdue. What was already written, even if only to the connection's buffer, is still sent.
  mutating func expire(nowMilliseconds: UInt64) {
    while firstOpen < frames.end {
      if frames.isPending(firstOpen) {
        // Entries are in the order of their deadlines.
        guard frames[firstOpen].deadlineMilliseconds <= nowMilliseconds else { break }
        frames.fail(firstOpen, .timedOut, mayBeTaken: firstOpen < next)
      }
      firstOpen += 1
    }
    trim()
  }

  /// Ends one notification.
  mutating func cancel(_ ticket: UInt64) {
    for place in firstOpen..<frames.end
    where frames[place].ticket == ticket && frames[place].state == .open {
      frames.fail(place, .cancelled, mayBeTaken: place < next)
    }
    trim()
  }

  /// Ends those that are not with the system: the service has not read them.
  mutating func abandonUnwritten(_ cause: UnknownCause.Code) {
    for place in max(firstOpen, handed)..<frames.end {
      frames.fail(place, cause, mayBeTaken: false)
    }
    trim()
  }

  /// Ends all of them, together with the connection.
  mutating func abandon(_ cause: UnknownCause.Code) {
    for place in firstOpen..<frames.end { frames.fail(place, cause, mayBeTaken: place < handed) }
    trim()
  }

  // MARK: Connections

  // What a connection's packets and its end prove. Source of the rules: Binary Provider API, The format of the
  // error-response packet, and its table of status codes.

  /// A connection is open; nothing has been written to it.
  mutating func connectionBegan() {
    connectionStart = next
    handed = next
    // Open entries are behind this place: packets of this connection cannot concern earlier ones.
    frames.drop(before: next)
    firstOpen = next
    hasAccepted = false
    dropped.connectionBegan()
    marks.removeAll()
  }

  /// Processes a packet. After any result but `goOn`, no further packet of this connection may be passed in.
  mutating func received(_ packet: BinaryErrorPacket) -> PacketVerdict {
    defer { trim() }
    let place = place(of: packet.identifier)
    switch BinaryStatus(rawValue: packet.status) {
    case .noError:
      // The service confirms in stream order, so this covers all earlier ones too. An unknown number proves nothing.
      if let place { accept(before: place + 1, as: .over) }
      return .goOn
    case .shutdown:
      // Here the identifier is that of the last notification that was sent successfully, unlike in other packets.
      if let place {
        accept(before: place + 1, as: .over)
        sendAgain(after: place)
        return .ended
      }
      guard packet.identifier == 0, format.command != .simple else { return giveUp() }
      // No notification has the number 0, so nothing on this connection was accepted. If silence suggested otherwise,
      // either the silence or the service is wrong.
      guard !hasAccepted else {
        doubtPresumed()
        return giveUp()
      }
      sendAgain(after: connectionStart - 1)
      return .ended
    default:
      guard let place else { return giveUp() }
      let isProbe = place >= frames.tail && frames[place].state == .probe
      accept(before: place, as: .over)
      reject(place, packet.status)
      // Notifications sent after it were discarded.
      sendAgain(after: place)
      return isProbe ? .proven : .ended
    }
  }

  /// The service sent something that is not a packet. The connection has ended.
  mutating func receivedNonsense() -> PacketVerdict {
    defer { trim() }
    return giveUp()
  }

  /// The connection ended without a packet. What the system had may have been read; the rest was not read, and stays.
  ///
  /// - Parameter isUnread: Whether the service certainly read nothing, as when it refuses the certificate.
  mutating func connectionLost(isUnread: Bool = false) {
    if isUnread, !hasAccepted {
      sendAgain(after: connectionStart - 1)
    } else {
      settleHanded(.connectionLost)
    }
    trim()
  }

  /// The place of an identifier of this connection; nil if it was not used, or not passed to the system yet.
  private func place(of identifier: UInt32) -> Int? {
    guard format.command != .simple, identifier > 0 else { return nil }
    let place = connectionStart + Int(identifier) - 1
    return place < handed ? place : nil
  }

  // MARK: Consequences

  /// Everything before `place` was accepted: by silence (`presumed`), or for certain (`over`).
  private mutating func accept(before place: Int, as state: SentFrames.State) {
    while firstOpen < place {
      if frames.isPending(firstOpen) {
        frames.settle(firstOpen, .accepted, as: state)
        hasAccepted = true
      }
      firstOpen += 1
    }
    if state == .over { frames.confirm(before: place) }
  }

  private mutating func reject(_ place: Int, _ status: UInt8) {
    guard place >= frames.tail else { return dropped.rejected(place) }
    switch frames[place].state {
    case .open: frames.settle(place, .rejected(status))
    case .presumed, .again: frames.settle(place, .rejectedLate(status))
    case .probe: frames.finish(place)
    case .over: break
    }
  }

  /// Entries after `place` were not read: they are written again, even if silence had suggested acceptance.
  private mutating func sendAgain(after place: Int) {
    dropped.unread(after: place)
    next = max(place + 1, frames.tail)
    for unread in next..<handed { frames.sendAgain(unread) }
    firstOpen = next
    handed = next
    forgetProbe()
    marks.removeAll()
  }

  /// Entries that were accepted by silence may not have been accepted.
  private mutating func doubtPresumed() {
    for place in frames.tail..<handed where frames[place].state == .presumed {
      frames.settle(place, .lost)
    }
    dropped.doubted()
  }

  /// The packet proves nothing, and the connection has ended.
  private mutating func giveUp() -> PacketVerdict {
    settleHanded(.answerNotUnderstood)
    return .notUnderstood
  }

  /// The service may have accepted what the system had, and nothing else.
  private mutating func settleHanded(_ cause: UnknownCause.Code) {
    for place in frames.tail..<handed {
      frames.fail(place, cause, mayBeTaken: true)
      frames.finish(place)
    }
    next = handed
    firstOpen = handed
    forgetProbe()
    marks.removeAll()
  }

  /// An unread probe concerned a connection that has ended: the next one gets its own if needed.
  private mutating func forgetProbe() { if endsInProbe { frames.dropLast() } }

  // MARK: Room

  /// Makes room for a frame; false if the window has none.
  private mutating func makeRoom(for byteCount: Int) -> Bool {
    while let shortage = frames.shortage(for: byteCount) {
      if frames.isLarge(shortage), dropOldest() { continue }
      guard frames.grow(shortage, for: byteCount) || dropOldest() else { return false }
    }
    return true
  }

  /// Drops entries that can no longer be needed.
  private mutating func trim() {
    while frames.tail < frames.end, frames[frames.tail].state == .over {
      if frames.tail == handed {
        // A notification that ended before it was written.
        guard next == handed else { return }
        next += 1
        handed += 1
      }
      frames.dropFirst()
    }
    firstOpen = max(firstOpen, frames.tail)
  }

  /// Drops the oldest entry if it is over, or accepted by silence.
  private mutating func dropOldest() -> Bool {
    guard frames.tail < handed else { return false }
    switch frames[frames.tail].state {
    case .presumed: dropped.dropped(frames.tail)
    case .over: break
    case .open, .again, .probe: return false
    }
    frames.dropFirst()
    firstOpen = max(firstOpen, frames.tail)
    trim()
    return true
  }
}
