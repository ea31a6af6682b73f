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
final class BinaryProvider {
  let connection: Connection
  let worker: Worker
  /// Beside the worker's, which is a variable: a look at that costs a retain and a release.
  private let shard: ShardDriver
  var machine: BinaryConnection
  private(set) var sender: BinarySender
  /// Where somebody listens in; nil in a real service.
  let interception: Interception?
  /// Reading stops until this second: a flood for one device.
  private var pausedUntilSeconds: UInt64 = 0
  /// Second of the worker's clock at which a notification last came.
  private var activeSeconds: UInt64

  /// Nil when the certificate is not good here: "the handshake succeeds, then the server closes at once".
  init?(_ connection: Connection) {
    self.connection = connection
    worker = connection.worker
    shard = worker.shard
    activeSeconds = worker.nowSeconds
    let listener = connection.listener
    interception = connection.intercept(.binary)
    do throws(Refusal) {
      sender = try BinarySender(
        certificate: Self.credential(connection), environment: listener.environment,
        rules: listener.rules, directory: worker.trust.directory)
    } catch {
      guard let interception, interception.isLenient else {
        connection.noteRefusal(error)
        self.interception?.connectionClosed()
        return nil
      }
      sender = Self.lenientSender(connection, error, interception)
    }
    machine = BinaryConnection(
      limits: sender.frameLimits, confirmsAccepted: listener.rules.confirmsAccepted)
    if worker.isDraining { machine.drain() }
    connection.acknowledgeNow()
    setDeadline()
  }

  /// Nil for a certificate that names no topic: said with status 3 at the first notification.
  static func credential(_ connection: Connection) throws(Refusal) -> CertificateCredential? {
    guard let der = connection.tls.peerCertificateDER else { throw Refusal(.certificateUnusable) }
    do throws(Refusal) {
      return try CertificateCredential(der: der.span, authorities: connection.listener.authorities)
    } catch {
      guard error.explanation == .certificateTopicMissing else { throw error }
      return nil
    }
  }

  // MARK: Frames

  /// The times of one turn.
  private struct Now {
    /// Of the worker's clock.
    let seconds: Int64
    let wallMilliseconds: Int64
    let loopMilliseconds: UInt64

    init(_ worker: Worker) {
      seconds = Int64(worker.nowSeconds)
      wallMilliseconds = worker.wallMilliseconds
      loopMilliseconds = worker.loop.nowMilliseconds
    }
  }

  func receive(_ bytes: UnsafeRawBufferPointer) {
    activeSeconds = worker.nowSeconds
    receivedBytes += bytes.count
    let input = unsafe Span<UInt8>(_unsafeBytes: bytes)
    if let interception { return intercept(input, interception) }
    // None of it changes meanwhile. To look at it frame by frame would retain and release what is on the way each time.
    let (sender, sealer, now) = (sender, worker.sealer, Now(worker))
    let scratch = worker.binaryScratch
    var offset = 0
    while true {
      machine.lookAhead(input, from: offset, into: &scratch.batch)
      if scratch.batch.count > 0 {
        take(scratch, input, at: &offset, sender, sealer, now)
        continue
      }
      switch machine.next(input, at: &offset, nowSeconds: now.seconds) {
      case .wait, .over: return
      case .fault(let fault): note(Refusal(.frame(fault)))
      case .frame(let frame):
        do throws(Refusal) {
          let outcome = try judge(
            frame, machine.bytes(of: frame, in: input, before: offset), sender, sealer, now)
          note(outcome, of: frame, nowSeconds: now.seconds)
        } catch {
          refuse(frame, token: nil, error, nowSeconds: now.seconds)
        }
      }
    }
  }

  /// Judges a frame by itself. Its bytes may lie in the machine, which is not changed meanwhile.
  private func judge(
    _ frame: BinaryFrame, _ bytes: Span<UInt8>, _ sender: borrowing BinarySender,
    _ sealer: TokenSealer, _ now: Now
  ) throws(Refusal) -> Outcome {
    guard let token = DeviceToken(bytes: bytes.extracting(frame.token)) else {
      throw Refusal(.frame(.tokenLength(byteCount: frame.token.count)))
    }
    var payloads = PayloadSeries(bytes)
    let admitted = try Admission.admit(
      frame, payload: frame.payload, of: &payloads, token: token, claims: sealer.open(token),
      sender: sender)
    return pass(admitted, payload: bytes.extracting(frame.payload), now)
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
    if batch.count > 1 { shard.warm(claims) }
    var payloads = PayloadSeries(input)
    for index in 0..<batch.count {
      let frame = batch.frames[index]
      let payload = offset + frame.payload.lowerBound..<offset + frame.payload.upperBound
      offset += frame.byteCount
      do throws(Refusal) {
        let admitted = try Admission.admit(
          frame, payload: payload, of: &payloads, token: batch.tokens[index],
          claims: claims[index], sender: sender)
        let outcome = pass(admitted, payload: input.extracting(payload), now)
        note(outcome, of: frame, nowSeconds: now.seconds)
      } catch {
        return refuse(frame, token: batch.tokens[index], error, nowSeconds: now.seconds)
      }
    }
  }

  private func refuse(
    _ frame: BinaryFrame, token: DeviceToken?, _ refusal: Refusal, nowSeconds: Int64
  ) {
    note(refusal)
    connection.note(refusal, of: frame, token: token)
    machine.refuse(frame, status: refusal.explanation.status, nowSeconds: nowSeconds)
  }

  /// What became of an admitted notification so far.
  private enum Outcome {
    case accepted
    case undecided
    case failed(BinaryStatus)
  }

  /// Sends an admitted notification on its way.
  private func pass(
    _ admitted: borrowing AdmittedFrame, payload: Span<UInt8>, _ now: Now
  ) -> Outcome {
    if worker.owns(admitted.claims.device),
      shard.discard(
        admitted, nowMilliseconds: now.wallMilliseconds, loopMilliseconds: now.loopMilliseconds)
    {
      return .accepted
    }
    let answer = Answer(
      worker: UInt16(worker.index), connection: UInt32(connection.slot),
      generation: connection.generation, sequence: machine.nextSequence)
    guard let verdict = worker.route(notification(admitted, payload), answer, own: shard) else {
      return .undecided
    }
    if let rejection = verdict.rejection { shard.noteRejection(rejection.reason) }
    return Self.status(verdict.rejection).map { .failed($0) } ?? .accepted
  }

  private func note(_ outcome: Outcome, of frame: BinaryFrame, nowSeconds: Int64) {
    switch outcome {
    case .accepted: machine.accept(frame, nowSeconds: nowSeconds)
    case .undecided: _ = machine.submit(frame, nowSeconds: nowSeconds)
    case .failed(let status):
      machine.decide(machine.submit(frame, nowSeconds: nowSeconds), status: status)
    }
  }

  func notification(
    _ admitted: borrowing AdmittedFrame, _ payload: Span<UInt8>
  ) -> Notification {
    let notification = shard.takeNotification()
    Admission.fill(
      notification, from: admitted.head, claims: admitted.claims, interface: .binary,
      collapseID: Span(), payload: payload, nowMilliseconds: worker.wallMilliseconds)
    notification.id = worker.ids.next()
    notification.uniqueID = notification.id
    return notification
  }

  /// Counts what was wrong with a frame, by the word that the HTTP/2 interface has for it, and says it.
  func note(_ refusal: Refusal) {
    shard.noteRejection(refusal.reason)
    guard worker.log.writes(.debug) else { return }
    worker.log(
      .debug, "notification rejected", .text("peer", connection.peer.description),
      .text("status", refusal.explanation.status.text.description),
      .text(
        "explanation",
        refusal.explanation.text(fields: RequestFields(), directory: worker.trust.directory)))
  }

  // MARK: Decisions

  /// A frame was decided about.
  func finish(_ sequence: UInt32, rejection: Rejection?) {
    if let interception { noteDecided(sequence, rejection, interception) }
    if let rejection { shard.noteRejection(rejection.reason) }
    machine.decide(sequence, status: Self.status(rejection))
    worker.markDirty(connection)
  }

  /// The one fault that is left for a notification which was admitted: the service's own.
  static func status(_ rejection: Rejection?) -> BinaryStatus? {
    rejection == nil ? nil : .processingError
  }

  /// A notice about a frame that is not decided yet.
  func take(_ notice: Verdict.Notice, _ sequence: UInt32) {
    switch notice {
    // One device gets more than it may: the rest waits where it is, in the provider's socket.
    case .flood: pausedUntilSeconds = worker.nowSeconds + 1
    case .heldBack:
      machine.hold(sequence)
      worker.markDirty(connection)
    case .admitted:
      machine.resume(sequence, nowSeconds: Int64(worker.nowSeconds))
      worker.markDirty(connection)
    }
  }

  /// Whether nothing more is to be read for now.
  var wantsPause: Bool {
    machine.pendingCount >= Limits.binaryWindowFrames || worker.nowSeconds < pausedUntilSeconds
      || worker.mustPause(undecided: machine.pendingCount)
  }

  // MARK: Output

  /// Says what is to be said.
  func flush() -> Connection.Ending {
    defer { setDeadline() }
    acknowledge()
    if let interception, interception.heldUntilMilliseconds > worker.loop.nowMilliseconds {
      return .none
    }
    worker.scratch.removeAll(keepingCapacity: true)
    while connection.mayWrite, worker.scratch.count < TLSBuffers.recordBytes {
      switch machine.nextEffect() {
      case .none:
        sendScratch()
        return .none
      case .confirm(let packet): packet.append(to: &worker.scratch)
      case .end(let packet):
        sendScratch()
        if let interception, interception.ending != .none { return flushLast(packet, interception) }
        packet?.append(to: &worker.scratch)
        sendScratch()
        return hasSpoken ? .afterPause : .now
      }
    }
    sendScratch()
    // More is to be said than goes into a record.
    if connection.mayWrite { worker.markDirty(connection) }
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
    guard !worker.scratch.isEmpty else { return }
    hasSpoken = true
    connection.encrypt(worker.scratch, count: worker.scratch.count)
    worker.scratch.removeAll(keepingCapacity: true)
  }

  // MARK: Time and the end

  private func setDeadline() {
    var seconds = activeSeconds + UInt64(Limits.binaryIdleSeconds)
    if let machineSeconds = machine.deadlineSeconds {
      seconds = min(seconds, UInt64(machineSeconds))
    }
    if pausedUntilSeconds > worker.nowSeconds { seconds = min(seconds, pausedUntilSeconds) }
    if let end = sender.notAfterSeconds, !machine.isEnded {
      seconds = min(seconds, worker.secondAfter(end))
    }
    connection.deadlineSeconds = seconds
    worker.watch(connection)
  }

  func deadlineReached() {
    machine.tick(nowSeconds: Int64(worker.nowSeconds))
    let idle = worker.nowSeconds - min(activeSeconds, worker.nowSeconds)
    if idle >= UInt64(Limits.binaryIdleSeconds), machine.pendingCount == 0 { machine.finish() }
    if let end = sender.notAfterSeconds, worker.certificateSeconds > end { judgeTrust() }
  }

  /// What connections are judged by was replaced, or the clock jumped.
  func trustChanged() {
    judgeTrust()
    setDeadline()
  }

  /// Ends the connection if its certificate is no longer valid; what came before is still decided.
  private func judgeTrust() {
    guard !machine.isEnded, interception?.isLenient != true else { return }
    do throws(Refusal) {
      try sender.reexamine(
        directory: worker.trust.directory, nowSeconds: worker.certificateSeconds)
    } catch {
      connection.noteRevocation(error)
      machine.finish()
      worker.markDirty(connection)
    }
  }

  /// The provider sends no more; what it sent is still decided.
  func peerFinished() { machine.finish() }

  /// The service stops: no more frames are taken.
  func drain() { machine.drain() }

  /// The socket is gone.
  func connectionClosed() {
    if let interception { interceptionEnded(interception) }
  }
}

/// Memory in which frames are judged, several at a time: of a worker, lent to one connection at a time.
final class BinaryScratch {
  var batch = FrameBatch()
  /// What the batch's tokens say.
  var claims: [TokenClaims?] = []
}
