package import ApusModel
package import ApusWire

/// One connection of the binary provider interface: bytes and decisions go in, and packets for the provider come out
/// in the order of its frames.
///
/// The interface does not report success: a provider that reads an error for frame k assumes that everything before k
/// was accepted, and resends everything after k. Hence the one rule here: nothing is reported about a frame until each
/// frame before it was accepted for good (durable, or acknowledged by its device). Decisions arrive in any order; the
/// ring of pending frames restores the order of their effects.
///
/// The driver calls, for each input: ``next(_:at:nowSeconds:)`` until it returns `wait` or `over`; for each frame
/// either ``submit(_:nowSeconds:)``, ``accept(_:nowSeconds:)`` or ``refuse(_:status:nowSeconds:)``;
/// ``decide(_:status:)`` when a decision comes back; and at the turn's end ``nextEffect()`` until it returns `none`.
/// Before each `next` it may process the frames of a ``lookAhead(_:from:into:)``, in order and up to the first that is
/// rejected.
///
/// Sources: "Binary Provider API"; "Communicating with APNs".
package struct BinaryConnection: ~Copyable, Sendable {
  package enum Step: Sendable, Hashable {
    /// The whole input was consumed; more is needed.
    case wait
    /// A frame to judge: its bytes are ``bytes(of:in:before:)`` until the next call.
    case frame(BinaryFrame)
    /// An invalid frame. It is already rejected; the fault is for the log.
    case fault(BinaryFrameFault)
    /// The connection accepts nothing more: input is discarded.
    case over
  }

  package enum Effect: Sendable, Hashable {
    case none
    /// A notification was accepted; sent only if the listener confirms.
    case confirm(BinaryErrorPacket)
    /// End the connection: send the packet, if any, as a record of its own; then close_notify and FIN.
    case end(BinaryErrorPacket?)
  }

  /// Whether frames are accepted, and what ends the connection once the accepted ones are settled.
  private enum Intake: Sendable, Hashable {
    case open
    /// The last pending frame was rejected.
    case failed
    /// ``finish()``, or a frame that stopped half-way. No packet follows.
    case finished
    /// The service is shutting down.
    case draining
    case ended
  }

  private let limits: BinaryFrameLimits
  private let confirmsAccepted: Bool
  private var intake = Intake.open
  private var pending = FrameRing()
  /// The beginning of an incomplete frame, or an assembled frame that was handed out. Memory grows with the bytes
  /// received, not with what a header announces.
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

  /// Frames not yet settled.
  package var pendingCount: Int { pending.count }

  /// Whether the connection has sent its last packet.
  package var isEnded: Bool { intake == .ended }

  // MARK: Frames

  /// Finds the complete frames in `input` from `offset` on, up to a batch of them. The caller processes each in turn
  /// and advances `offset` by its `byteCount`.
  ///
  /// This only looks ahead: anything other than a frame is left to ``next(_:at:nowSeconds:)``. A fault becomes the
  /// last of the pending frames, so it must not be found before the frames preceding it are submitted.
  package mutating func lookAhead(
    _ input: Span<UInt8>, from offset: Int, into batch: inout FrameBatch
  ) {
    batch.removeAll()
    if isPartialHandedOut { dropPartial() }
    guard intake == .open, partial.isEmpty else { return }
    batch.fill(input, from: offset, limits: limits)
  }

  /// The next frame of `input` from `offset` on; moves `offset` past the bytes consumed.
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
    // A provider whose frames are split by its TLS records has one split in each: keep the memory of a usual frame for
    // the next.
    partial.removeAll(keepingCapacity: partial.capacity <= 2 * Limits.binaryPayloadBytes)
  }

  /// The bytes of the frame that `next` last returned after consuming `input` up to `offset`.
  @_lifetime(copy input, borrow self)
  package func bytes(
    of frame: BinaryFrame, in input: Span<UInt8>, before offset: Int
  ) -> Span<UInt8> {
    if isPartialHandedOut { return partial.span }
    return input.extracting(offset - frame.byteCount..<offset)
  }

  // MARK: Decisions

  /// The frame was admitted and is being processed. Returns the number for its decision.
  package mutating func submit(_ frame: BinaryFrame, nowSeconds: Int64) -> UInt32 {
    pending.append(
      PendingFrame(
        identifier: frame.identifier ?? 0, isSilent: frame.isSimple,
        startedSeconds: nowSeconds))
  }

  /// The number that `submit` returns next.
  package var nextSequence: UInt32 { pending.nextSequence }

  /// The frame was admitted and is already accepted for good: `submit` and `decide` in one call.
  package mutating func accept(_ frame: BinaryFrame, nowSeconds: Int64) {
    // Settled at once: nothing precedes it and nothing is reported, so it need not be pending.
    guard pending.count == 0, !confirmsAccepted else {
      return decide(submit(frame, nowSeconds: nowSeconds), status: nil)
    }
    if frame.isSimple { hasAcceptedSimple = true } else { lastAccepted = frame.identifier ?? 0 }
  }

  /// The frame is rejected. Notifications after it are discarded.
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

  /// The decision on a submitted frame; nil means accepted for good.
  ///
  /// Only a fault of the service, such as a failing disk, rejects a frame this late. Later frames may already be
  /// delivered, and the provider will resend them: that is better than hiding a loss.
  package mutating func decide(_ sequence: UInt32, status: BinaryStatus?) {
    pending.decide(sequence, status.map { .failed($0) } ?? .accepted)
  }

  /// A notification that was accepted is rejected after all, by a service that it was passed on to. Everything behind
  /// it counts as discarded for its sender, whatever was decided about that.
  ///
  /// - Returns: False if the connection has said its last word.
  package mutating func refuseAccepted(
    _ sequence: UInt32, identifier: UInt32, isSilent: Bool, status: BinaryStatus
  ) -> Bool {
    guard intake != .ended else { return false }
    if !pending.fail(sequence, status) {
      // Everything before it is settled.
      pending.removeAll()
      _ = pending.append(
        PendingFrame(
          identifier: identifier, isSilent: isSilent, startedSeconds: 0, outcome: .failed(status)))
    }
    intake = .failed
    isPartialHandedOut = false
    partial = []
    return true
  }

  /// The submitted frame is held back until its device has made progress: its decision may take longer than others.
  package mutating func hold(_ sequence: UInt32) { pending.hold(sequence) }

  /// The submitted frame is no longer held back.
  package mutating func resume(_ sequence: UInt32, nowSeconds: Int64) {
    pending.resume(sequence, nowSeconds: nowSeconds)
  }

  // MARK: The end

  /// Accepts nothing more: the provider has closed its side, or is no longer trusted. Pending frames are still
  /// decided, and an error is still reported.
  package mutating func finish() { stopTaking(.finished) }

  /// The service shuts down: the Shutdown packet names the last accepted notification.
  package mutating func drain() { stopTaking(.draining) }

  private mutating func stopTaking(_ reason: Intake) {
    guard intake == .open || intake == .finished && reason == .draining else { return }
    intake = reason
  }

  /// Checks the time: gives up on a frame that is not completed, and on a decision that does not come.
  ///
  /// While frames are pending, the driver may not be reading because of them: then the rest of a frame gets more time.
  package mutating func tick(nowSeconds: Int64) {
    if let first = pending.first, first.outcome == .undecided,
      nowSeconds - first.startedSeconds >= Int64(Limits.answerSeconds)
    {
      pending.decideFirst(.failed(.processingError))
    }
    if hasPartialFrame, nowSeconds - partialSinceSeconds >= Int64(Limits.binaryFrameSeconds) {
      if pending.count > 0 { partialSinceSeconds = nowSeconds } else { stopTaking(.finished) }
    }
  }

  /// When ``tick(nowSeconds:)`` will have something to do; nil while nothing is pending, or the first frame is held
  /// back.
  package var deadlineSeconds: Int64? {
    let due = pending.first.flatMap { $0.outcome == .heldBack ? nil : $0.startedSeconds }
    let answer = due.map { $0 + Int64(Limits.answerSeconds) }
    guard hasPartialFrame, intake == .open else { return answer }
    let frame = partialSinceSeconds + Int64(Limits.binaryFrameSeconds)
    return min(answer ?? frame, frame)
  }

  private var hasPartialFrame: Bool { !partial.isEmpty && !isPartialHandedOut }

  // MARK: Effects

  /// The next packet or end of the connection. After `end` there is nothing more.
  package mutating func nextEffect() -> Effect {
    while let frame = pending.first {
      switch frame.outcome {
      case .undecided, .heldBack: return .none
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
      return .end(errorPacketAtEnd)
    }
  }

  /// The packet of a shutdown: the provider must resend everything after the notification that it names. If nothing
  /// was accepted that is identifier 0, whether or not a frame came: one may be on its way, and its provider must
  /// learn that it was not accepted. If a notification without identifier was accepted, 0 would make the provider send
  /// that one twice.
  private var errorPacketAtEnd: BinaryErrorPacket? {
    if let lastAccepted { return BinaryErrorPacket(status: .shutdown, identifier: lastAccepted) }
    return hasAcceptedSimple ? nil : BinaryErrorPacket(status: .shutdown, identifier: 0)
  }
}
