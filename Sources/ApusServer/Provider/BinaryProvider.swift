import ApusCore
import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusTLS
import ApusTrust
import ApusWire

/// A provider on the binary interface: bytes become frames, frames become notifications, verdicts become silence, an
/// error packet or, where the listener confirms, a packet for each.
final class BinaryProvider: ConnectionDriver {
  let providers: ProviderContext
  let shard: ShardDriver
  var machine: BinaryConnection
  private(set) var sender: BinarySender
  /// Nil until the sender's app has an upstream.
  var relaying: RelayingSender?
  /// Nil in a normal service.
  let interception: (any ProviderInterception)?
  /// Reading stops until this second: a flood for one device.
  private var pausedUntilSeconds: UInt64 = 0
  /// Second of the worker's clock at which a notification last came.
  private var activeSeconds: UInt64

  /// Nil when the certificate is not good here: "the handshake succeeds, then the server closes at once".
  init?(
    _ connection: Connection, _ providers: ProviderContext,
    interception: (any ProviderInterception)?
  ) {
    let context = connection.context
    self.providers = providers
    shard = providers.shard
    activeSeconds = context.nowSeconds
    let listener = connection.listener
    self.interception = interception
    do throws(Refusal) {
      sender = try BinarySender(
        certificate: connection.certificateCredential(), environment: listener.environment,
        rules: listener.rules, directory: context.trust.directory)
    } catch {
      guard let forgiven: BinarySender = interception?.forgive(error, of: connection) else {
        connection.noteRefusal(error)
        interception?.connectionClosed()
        return nil
      }
      sender = forgiven
    }
    machine = BinaryConnection(
      limits: sender.frameLimits, confirmsAccepted: listener.rules.confirmsAccepted)
    super.init(connection)
    if context.shutdown.isDraining { machine.drain() }
    connection.acknowledgeNow()
    setDeadline()
  }

  // MARK: Frames

  /// The times of one turn.
  struct Now {
    /// Of the worker's clock.
    let seconds: Int64
    let wallMilliseconds: Int64
    let loopMilliseconds: UInt64

    init(_ context: WorkerContext) {
      seconds = Int64(context.nowSeconds)
      wallMilliseconds = context.wallMilliseconds
      loopMilliseconds = context.loop.nowMilliseconds
    }
  }

  override func receive(_ bytes: UnsafeRawBufferPointer) {
    activeSeconds = context.nowSeconds
    receivedBytes += bytes.count
    let input = unsafe Span<UInt8>(_unsafeBytes: bytes)
    if let interception { return interception.receive(input, of: self) }
    // None of it changes meanwhile. To look at it frame by frame would retain and release what is on the way each time.
    let (sender, sealer, now) = (sender, context.sealer, Now(context))
    let upstream = beginRelaying()
    defer { if let upstream { handOver(to: upstream) } }
    let scratch = providers.binaryScratch
    var offset = 0
    while true {
      if upstream == nil {
        machine.lookAhead(input, from: offset, into: &scratch.batch)
        if scratch.batch.count > 0 {
          take(scratch, input, at: &offset, sender, sealer, now)
          continue
        }
      }
      switch machine.next(input, at: &offset, nowSeconds: now.seconds) {
      case .wait, .over: return
      case .fault(let fault): recordRejection(Refusal(.frame(fault)))
      case .frame(let frame):
        do throws(Refusal) {
          let outcome = try judge(
            frame, machine.bytes(of: frame, in: input, before: offset), sender, sealer, upstream,
            now)
          decide(outcome, of: frame, nowSeconds: now.seconds)
        } catch {
          refuse(frame, token: nil, error, nowSeconds: now.seconds)
        }
      }
    }
  }

  /// Judges a frame by itself. Its bytes may lie in the machine, which is not changed meanwhile.
  private func judge(
    _ frame: BinaryFrame, _ bytes: Span<UInt8>, _ sender: borrowing BinarySender,
    _ sealer: TokenSealer, _ upstream: (any UpstreamRelay)?, _ now: Now
  ) throws(Refusal) -> Outcome {
    guard let token = DeviceToken(bytes: bytes.extracting(frame.token)) else {
      throw Refusal(.frame(.tokenLength(byteCount: frame.token.count)))
    }
    let claims = sealer.open(token)
    if let upstream {
      return try relay(frame, bytes, token: token, claims: claims, to: upstream, now)
    }
    var payloads = PayloadSeries(bytes)
    let admitted = try Admission.admit(
      frame, payload: frame.payload, of: &payloads, token: token, claims: claims, sender: sender)
    return pass(admitted, payload: bytes.extracting(frame.payload), id: context.ids.next(), now)
  }

  /// Takes the frames of a batch, whose bytes begin at `offset`, up to the first that is refused: then nothing that
  /// follows counts.
  private func take(
    _ scratch: BinaryScratch, _ input: Span<UInt8>, at offset: inout Int,
    _ sender: borrowing BinarySender, _ sealer: TokenSealer, _ now: Now
  ) {
    sealer.open(scratch.batch.tokens, into: &scratch.claims)
    // As values of this function: each look into the object would retain and release what it gives.
    let (batch, claims) = (scratch.batch, scratch.claims)
    if batch.count > 1 { shard.memory.prefetch(claims) }
    var payloads = PayloadSeries(input)
    for index in 0..<batch.count {
      let frame = batch.frames[index]
      let payload = offset + frame.payload.lowerBound..<offset + frame.payload.upperBound
      offset += frame.byteCount
      do throws(Refusal) {
        let admitted = try Admission.admit(
          frame, payload: payload, of: &payloads, token: batch.tokens[index],
          claims: claims[index], sender: sender)
        let outcome = pass(
          admitted, payload: input.extracting(payload), id: context.ids.next(), now)
        decide(outcome, of: frame, nowSeconds: now.seconds)
      } catch {
        return refuse(frame, token: batch.tokens[index], error, nowSeconds: now.seconds)
      }
    }
  }

  private func refuse(
    _ frame: BinaryFrame, token: DeviceToken?, _ refusal: Refusal, nowSeconds: Int64
  ) {
    recordRejection(refusal)
    connection.audit(refusal, of: frame, token: token)
    machine.refuse(frame, status: refusal.explanation.status, nowSeconds: nowSeconds)
  }

  /// The state of an admitted notification.
  enum Outcome {
    case accepted
    case undecided
    case failed(BinaryStatus)
    /// Rejected at once: nothing behind it is looked at.
    case refused(BinaryStatus)
  }

  /// Sends an admitted notification on its way.
  func pass(
    _ admitted: borrowing AdmittedFrame, payload: Span<UInt8>, id: NotificationID, _ now: Now
  ) -> Outcome {
    if context.owns(admitted.claims.device),
      shard.discard(
        admitted, nowMilliseconds: now.wallMilliseconds, loopMilliseconds: now.loopMilliseconds)
    {
      return .accepted
    }
    guard let verdict = providers.router.route(notification(admitted, payload, id), nextAnswer)
    else {
      return .undecided
    }
    if let rejection = verdict.rejection { shard.noteRejection(rejection.reason) }
    return Self.status(verdict.rejection).map { .failed($0) } ?? .accepted
  }

  /// Where the decision about the next frame is to go.
  var nextAnswer: Answer { answer(to: machine.nextSequence) }

  func answer(to sequence: UInt32) -> Answer {
    Answer(
      worker: UInt16(context.index), connection: UInt32(connection.slot),
      generation: connection.entry.generation, sequence: sequence)
  }

  private func decide(_ outcome: Outcome, of frame: BinaryFrame, nowSeconds: Int64) {
    switch outcome {
    case .accepted: machine.accept(frame, nowSeconds: nowSeconds)
    case .undecided: _ = machine.submit(frame, nowSeconds: nowSeconds)
    case .refused(let status): machine.refuse(frame, status: status, nowSeconds: nowSeconds)
    case .failed(let status):
      machine.decide(machine.submit(frame, nowSeconds: nowSeconds), status: status)
    }
  }

  func notification(
    _ admitted: borrowing AdmittedFrame, _ payload: Span<UInt8>, _ id: NotificationID
  ) -> Notification {
    let notification = shard.takeNotification()
    Admission.fill(
      notification, from: admitted.head, claims: admitted.claims, interface: .binary,
      collapseID: Span(), payload: payload, nowMilliseconds: context.wallMilliseconds)
    notification.id = id
    notification.uniqueID = id
    return notification
  }

  /// Counts what was wrong with a frame, by the word that the HTTP/2 interface has for it, and says it.
  func recordRejection(_ refusal: Refusal) {
    shard.noteRejection(refusal.reason)
    guard context.log.writes(.debug) else { return }
    context.log(
      .debug, "notification rejected", .text("peer", connection.peer.description),
      .text("status", refusal.explanation.status.text.description),
      .text(
        "explanation",
        refusal.explanation.text(fields: RequestFields(), directory: context.trust.directory)))
  }

  // MARK: Decisions

  override func decided(_ verdict: Verdict) {
    let sequence = verdict.answer.sequence
    if let notice = verdict.notice {
      take(notice, sequence)
    } else if !relayDecided(sequence, isAccepted: verdict.rejection == nil) {
      finish(sequence, rejection: verdict.rejection)
    }
  }

  /// A frame was decided about.
  func finish(_ sequence: UInt32, rejection: Rejection?) {
    interception?.decided(sequence, rejection, of: self)
    if let rejection { shard.noteRejection(rejection.reason) }
    machine.decide(sequence, status: Self.status(rejection))
    connection.markDirty()
  }

  /// The one fault that is left for a notification which was admitted: the service's own.
  static func status(_ rejection: Rejection?) -> BinaryStatus? {
    rejection == nil ? nil : .processingError
  }

  /// A notice about a frame that is not decided yet.
  private func take(_ notice: Verdict.Notice, _ sequence: UInt32) {
    switch notice {
    // One device gets more than it may: the rest waits where it is, in the provider's socket.
    case .flood: pauseReading(seconds: 1)
    case .heldBack:
      machine.hold(sequence)
      connection.markDirty()
    case .admitted:
      machine.resume(sequence, nowSeconds: Int64(context.nowSeconds))
      connection.markDirty()
    case .answered: relayedAnswered(sequence)
    }
  }

  /// Reads nothing more for so long.
  func pauseReading(seconds: Int) {
    guard seconds > 0 else { return }
    pausedUntilSeconds = max(pausedUntilSeconds, context.nowSeconds + UInt64(seconds))
  }

  /// Whether nothing more is to be read for now.
  override var wantsPause: Bool {
    machine.pendingCount >= Limits.binaryWindowFrames || context.nowSeconds < pausedUntilSeconds
      || shard.mustPause(undecided: machine.pendingCount) || isRelayBlocked
  }

  // MARK: Output

  /// Says what is to be said.
  override func flush() -> Connection.Ending {
    defer { setDeadline() }
    acknowledge()
    if interception?.holdsBack(self) == true { return .none }
    context.scratch.removeAll(keepingCapacity: true)
    while connection.mayWrite, context.scratch.count < TLSBuffers.recordBytes {
      switch machine.nextEffect() {
      case .none:
        sendScratch()
        return .none
      case .confirm(let packet): packet.append(to: &context.scratch)
      case .end(let packet):
        sendScratch()
        if let ending = interception?.end(packet, of: self) { return ending }
        packet?.append(to: &context.scratch)
        sendScratch()
        return hasSpoken ? .afterPause : .now
      }
    }
    sendScratch()
    // More is to be said than goes into a record.
    if connection.mayWrite { connection.markDirty() }
    return .none
  }

  /// Silence leaves the system nothing to acknowledge the provider's bytes with, so it waits for 40 ms; and a provider
  /// that writes one notification at a time has its next one held back as long (RFC 896). One that writes many has it
  /// acknowledged by their number.
  private func acknowledge() {
    if receivedBytes > 0, receivedBytes < 2 * Limits.binaryPayloadBytes {
      connection.acknowledgeNow()
    }
    receivedBytes = 0
  }

  private var receivedBytes = 0
  private(set) var hasSpoken = false

  /// What was gathered leaves as a record of its own.
  func sendScratch() {
    guard !context.scratch.isEmpty else { return }
    hasSpoken = true
    connection.encrypt(context.scratch, count: context.scratch.count)
    context.scratch.removeAll(keepingCapacity: true)
  }

  // MARK: Time and the end

  private func setDeadline() {
    var seconds = activeSeconds + UInt64(Limits.binaryIdleSeconds)
    if let machineSeconds = machine.deadlineSeconds {
      seconds = min(seconds, UInt64(machineSeconds))
    }
    if pausedUntilSeconds > context.nowSeconds { seconds = min(seconds, pausedUntilSeconds) }
    if let end = sender.notAfterSeconds, !machine.isEnded {
      seconds = min(seconds, context.secondAfter(end))
    }
    connection.schedule.deadlineSeconds = seconds
    connection.watch()
  }

  override func deadlineReached() {
    machine.tick(nowSeconds: Int64(context.nowSeconds))
    let idle = context.nowSeconds - min(activeSeconds, context.nowSeconds)
    if idle >= UInt64(Limits.binaryIdleSeconds), machine.pendingCount == 0 { machine.finish() }
    if let end = sender.notAfterSeconds, context.certificateSeconds > end { judgeTrust() }
  }

  /// What connections are judged by was replaced, or the clock jumped.
  override func trustChanged(hasLostAuthority: Bool) {
    judgeTrust()
    // Not the deadline alone: if that of a pause is over by now, reading goes on.
    connection.markDirty()
  }

  /// Ends the connection if its certificate is no longer valid; what came before is still decided.
  private func judgeTrust() {
    guard !machine.isEnded, interception?.isLenient != true else { return }
    do throws(Refusal) {
      try sender.reexamine(
        directory: context.trust.directory, nowSeconds: context.certificateSeconds)
    } catch {
      connection.noteRevocation(error)
      machine.finish()
      connection.markDirty()
    }
  }

  /// The provider has finished sending; what it sent is still decided.
  override func peerFinished() { machine.finish() }

  /// The service shuts down: frames that have arrived are decided, and the packet tells of those that come later.
  override func drain() {
    connection.readBeforeDrain()
    machine.drain()
  }

  /// The socket is gone.
  override func connectionClosed(_ end: Connection.End) {
    endRelaying()
    interception?.connectionClosed(self)
  }
}

/// Memory in which frames are judged, several at a time: of a worker, lent to one connection at a time.
final class BinaryScratch {
  var batch = FrameBatch()
  /// What the batch's tokens say.
  var claims: [TokenClaims?] = []
  /// Frames for upstream.
  var kept: [KeptNotification] = []
}
