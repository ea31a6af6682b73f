package import ApusModel
package import ApusWire

/// One connection of the binary provider interface: bytes and decisions go in, and what is said to the provider comes
/// out in the order of its frames.
///
/// The interface is silent about success, so a provider that reads "frame k was bad" takes everything before k for
/// accepted, and sends everything behind k again. Hence the one rule here: nothing is said about a frame until each
/// frame before it was accepted for good (durable, or acknowledged by its device). Decisions come in any order; the
/// ring of pending frames puts what follows from them in order.
///
/// The driver, for each input: ``next(_:at:nowSeconds:)`` until it says `wait` or `over`; for each frame either
/// ``submit(_:nowSeconds:)``, ``accept(_:nowSeconds:)`` or ``refuse(_:status:nowSeconds:)``; ``decide(_:status:)`` when
/// a decision comes back; and at the turn's end ``nextEffect()`` until it says `none`. Before each `next` it may take
/// the frames of a ``lookAhead(_:from:into:)``, in their order and up to the first that is refused.
///
/// Sources: "Binary Provider API"; "Communicating with APNs".
package struct BinaryConnection: ~Copyable, Sendable {
  package enum Step: Sendable, Hashable {
    /// Everything that came was taken; more is needed.
    case wait
    /// A frame to judge: its bytes are ``bytes(of:in:before:)`` until the next call.
    case frame(BinaryFrame)
    /// A frame that is none. It is refused already; the fault is for the log.
    case fault(BinaryFrameFault)
    /// Nothing more is taken from this connection: what came is thrown away.
    case over
  }

  package enum Effect: Sendable, Hashable {
    case none
    /// A notification was accepted: said where the listener confirms.
    case confirm(BinaryErrorPacket)
    /// The connection's end: the packet, if there is one, as a record of its own; then close_notify and FIN.
    case end(BinaryErrorPacket?)
  }

  /// Whether frames are taken, and what ends the connection once those that were taken are settled.
  private enum Intake: Sendable, Hashable {
    case open
    /// The last pending frame is one that was refused.
    case failed
    /// ``finish()``, or a frame that stopped on its way. There is nothing left to be said.
    case finished
    /// The service stops.
    case draining
    case ended
  }

  private let limits: BinaryFrameLimits
  private let confirmsAccepted: Bool
  private var intake = Intake.open
  private var pending = FrameRing()
  /// The beginning of a frame whose end has not come, or a frame that was put together and handed out. Memory grows
  /// with what has come, not with what a header announces.
  private var partial: [UInt8] = []
  private var partialSinceSeconds: Int64 = 0
  private var isPartialHandedOut = false
  /// The identifier of the last accepted notification that has one.
  private var lastAccepted: UInt32?
  /// Whether one without an identifier was accepted, which no packet can name.
  private var hasAcceptedSimple = false

  package init(limits: BinaryFrameLimits, confirmsAccepted: Bool) {
    self.limits = limits
    self.confirmsAccepted = confirmsAccepted
  }

  /// Frames that are not settled.
  package var pendingCount: Int { pending.count }

  /// Whether the connection has said its last.
  package var isEnded: Bool { intake == .ended }

  // MARK: Frames

  /// Finds the whole frames that stand in `input` from `offset` on, up to a batch of them. The caller takes each in its
  /// turn and moves `offset` behind it by its `byteCount`.
  ///
  /// This is no more than a look: where something else than a frame follows, it is left to ``next(_:at:nowSeconds:)``.
  /// A fault is noted as the last of the pending frames, so it must not be found before those in front of it are
  /// submitted.
  package mutating func lookAhead(
    _ input: Span<UInt8>, from offset: Int, into batch: inout FrameBatch
  ) {
    batch.removeAll()
    if isPartialHandedOut { dropPartial() }
    guard intake == .open, partial.isEmpty else { return }
    batch.fill(input, from: offset, limits: limits)
  }

  /// The next frame of `input` from `offset` on, and moves `offset` behind what was taken.
  package mutating func next(
    _ input: Span<UInt8>, at offset: inout Int, nowSeconds: Int64
  ) -> Step {
    if isPartialHandedOut { dropPartial() }
    guard intake == .open else {
      offset = input.count
      return .over
    }
    guard partial.isEmpty else { return nextAssembled(input, at: &offset, nowSeconds: nowSeconds) }
    guard offset < input.count else { return .wait }
    let rest = input.extracting(offset..<input.count)
    switch BinaryFrame.scan(rest, limits: limits) {
    case .frame(let frame):
      offset += frame.byteCount
      return .frame(frame)
    case .incomplete:
      partialSinceSeconds = nowSeconds
      keep(rest, &offset)
      return .wait
    case .fault(let fault, let command, let identifier):
      return refuse(fault, command, identifier, nowSeconds)
    }
  }

  private mutating func nextAssembled(
    _ input: Span<UInt8>, at offset: inout Int, nowSeconds: Int64
  ) -> Step {
    while true {
      switch BinaryFrame.scan(partial.span, limits: limits) {
      case .frame(let frame):
        isPartialHandedOut = true
        return .frame(frame)
      case .incomplete(let needed):
        guard offset < input.count else { return .wait }
        let count = min(needed - partial.count, input.count - offset)
        keep(input.extracting(offset..<offset + count), &offset)
      case .fault(let fault, let command, let identifier):
        return refuse(fault, command, identifier, nowSeconds)
      }
    }
  }

  private mutating func keep(_ bytes: Span<UInt8>, _ offset: inout Int) {
    partial.append(bytes)
    offset += bytes.count
  }

  private mutating func dropPartial() {
    isPartialHandedOut = false
    // A sender whose frames are cut by its records has one cut in each: the memory of a usual frame stays for the next.
    partial.removeAll(keepingCapacity: partial.capacity <= 2 * Limits.binaryPayloadBytes)
  }

  /// The bytes of the frame that `next` handed out last, which took it from `input` and moved to `offset`.
  @_lifetime(copy input, borrow self)
  package func bytes(
    of frame: BinaryFrame, in input: Span<UInt8>, before offset: Int
  ) -> Span<UInt8> {
    if isPartialHandedOut { return partial.span }
    return input.extracting(offset - frame.byteCount..<offset)
  }

  // MARK: Decisions

  /// The frame was admitted and is on its way. Returns the number under which its decision comes back.
  package mutating func submit(_ frame: BinaryFrame, nowSeconds: Int64) -> UInt32 {
    pending.append(
      PendingFrame(
        identifier: frame.identifier ?? 0, isSilent: frame.isSimple,
        startedSeconds: nowSeconds))
  }

  /// The number that `submit` gives next.
  package var nextSequence: UInt32 { pending.nextSequence }

  /// The frame was admitted and is accepted for good already: `submit` and `decide` at once.
  package mutating func accept(_ frame: BinaryFrame, nowSeconds: Int64) {
    // With nothing before it, and nothing to be said about it, it is settled: it needs no place among the pending.
    guard pending.count == 0, !confirmsAccepted else {
      return decide(submit(frame, nowSeconds: nowSeconds), status: nil)
    }
    if frame.isSimple { hasAcceptedSimple = true } else { lastAccepted = frame.identifier ?? 0 }
  }

  /// The frame is bad. "Notifications already sent after it are discarded."
  package mutating func refuse(_ frame: BinaryFrame, status: BinaryStatus, nowSeconds: Int64) {
    refuse(
      PendingFrame(
        identifier: frame.identifier ?? 0, isSilent: frame.isSimple,
        startedSeconds: nowSeconds, outcome: .failed(status)))
  }

  private mutating func refuse(
    _ fault: BinaryFrameFault, _ command: BinaryCommand?, _ identifier: UInt32?,
    _ nowSeconds: Int64
  ) -> Step {
    refuse(
      PendingFrame(
        identifier: identifier ?? 0, isSilent: command == .simple, startedSeconds: nowSeconds,
        outcome: .failed(fault.status)))
    return .fault(fault)
  }

  private mutating func refuse(_ frame: PendingFrame) {
    guard intake == .open else { return }
    _ = pending.append(frame)
    intake = .failed
    isPartialHandedOut = false
    partial = []
  }

  /// A submitted frame was decided about; nil for "accepted for good".
  ///
  /// Only a fault of the service, such as a disk that fails, refuses a frame so late. What came behind it may be on its
  /// way already, and its sender will send that again: better than to keep silent about what was lost.
  package mutating func decide(_ sequence: UInt32, status: BinaryStatus?) {
    pending.decide(sequence, status.map { .failed($0) } ?? .accepted)
  }

  // MARK: The end

  /// Nothing more is taken: the provider sends no more, or is trusted no longer. What came is still decided, and an
  /// error still said.
  package mutating func finish() { stopTaking(.finished) }

  /// The service stops. "Shutdown: the identifier is that of the last notification that was accepted."
  package mutating func drain() { stopTaking(.draining) }

  private mutating func stopTaking(_ reason: Intake) {
    guard intake == .open || intake == .finished && reason == .draining else { return }
    intake = reason
  }

  /// Time has passed: gives up on a frame that was begun and does not go on, and on a decision that does not come.
  package mutating func tick(nowSeconds: Int64) {
    if let first = pending.first, first.outcome == .undecided,
      nowSeconds - first.startedSeconds >= Int64(Limits.answerSeconds)
    {
      pending.decideFirst(.failed(.processingError))
    }
    if hasPartialFrame, nowSeconds - partialSinceSeconds >= Int64(Limits.binaryFrameSeconds) {
      stopTaking(.finished)
    }
  }

  /// When ``tick(nowSeconds:)`` has something to do; nil while nothing is under way.
  package var deadlineSeconds: Int64? {
    let answer = pending.first.map { $0.startedSeconds + Int64(Limits.answerSeconds) }
    guard hasPartialFrame, intake == .open else { return answer }
    let frame = partialSinceSeconds + Int64(Limits.binaryFrameSeconds)
    return min(answer ?? frame, frame)
  }

  private var hasPartialFrame: Bool { !partial.isEmpty && !isPartialHandedOut }

  // MARK: Effects

  /// What is to be said next. After `end` there is nothing any more.
  package mutating func nextEffect() -> Effect {
    while let frame = pending.first {
      switch frame.outcome {
      case .undecided: return .none
      case .accepted:
        pending.removeFirst()
        guard !frame.isSilent else {
          hasAcceptedSimple = true
          continue
        }
        lastAccepted = frame.identifier
        guard confirmsAccepted else { continue }
        return .confirm(BinaryErrorPacket(status: .noError, identifier: frame.identifier))
      case .failed(let status):
        pending.removeAll()
        intake = .ended
        return .end(
          frame.isSilent ? nil : BinaryErrorPacket(status: status, identifier: frame.identifier))
      }
    }
    switch intake {
    case .open, .ended, .failed: return .none
    case .finished:
      intake = .ended
      return .end(nil)
    case .draining:
      intake = .ended
      return .end(lastWords)
    }
  }

  /// The packet of a shutdown: everything behind the notification that it names must be sent again. Where nothing was
  /// accepted that is identifier 0, whether or not a frame came: one may be under way, and its sender is to know that
  /// it was not taken. Where a notification without identifier was accepted, 0 would have that sent twice.
  private var lastWords: BinaryErrorPacket? {
    if let lastAccepted { return BinaryErrorPacket(status: .shutdown, identifier: lastAccepted) }
    return hasAcceptedSimple ? nil : BinaryErrorPacket(status: .shutdown, identifier: 0)
  }
}
