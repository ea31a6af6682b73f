import ApusCore
import ApusDirectory
import ApusLoop
import ApusModel
import ApusTLS
import ApusTrust
import ApusWire

/// A frame that owns its bytes.
struct RehearsedFrame {
  var frame: BinaryFrame
  var bytes: [UInt8]
  /// Its sequence number, once it is among the pending frames.
  var sequence: UInt32?
}

// A provider on the binary interface of the development service: the interceptor sees the frames one at a time, and can
// plan a fault for each.

extension BinaryProvider {
  /// Replaces `receive` if there is an interceptor.
  func rehearse(_ input: Span<UInt8>, _ rehearsal: ProviderRehearsal) {
    // A clock that was just set must already apply.
    worker.readClock()
    var offset = 0
    while true {
      switch machine.next(input, at: &offset, nowSeconds: Int64(worker.nowSeconds)) {
      case .wait, .over: return
      case .fault(let fault): noteFault(Refusal(.frame(fault)), rehearsal)
      case .frame(let frame):
        let bytes = machine.bytes(of: frame, in: input, before: offset).copied()
        let rehearsed = rehearsal.begin(captured(frame, bytes, rehearsal), nil)
        rehearsed.frame = RehearsedFrame(frame: frame, bytes: bytes)
        carryOut(rehearsed.effect, rehearsed, rehearsal)
      }
    }
  }

  // MARK: Faults

  private func carryOut(
    _ effect: PlannedFault.Effect, _ rehearsed: RehearsedRequest, _ rehearsal: ProviderRehearsal
  ) {
    switch effect {
    case .none, .resetStream, .goAway: decide(rehearsed, rehearsal, .notAsked)
    case .preparation:
      guard let sequence = hold(rehearsed, rehearsal) else { return }
      rehearsal.prepare(rehearsed.request, sequence)
    case .delay(let milliseconds, let then):
      _ = hold(rehearsed, rehearsal)
      rehearsal.after(milliseconds: milliseconds) { [self] in
        carryOut(then, rehearsed, rehearsal)
        worker.markDirty(connection)
      }
    case .noAnswer:
      settle(rehearsed)
      rehearsal.report(rehearsed, status: 0) { $0.explanation = "the notification is discarded" }
    case .deadToken(let since):
      rehearsed.deadSinceMilliseconds = since ?? worker.wallMilliseconds
      if throwAwayDead(rehearsed, rehearsal) { return }
      if rehearsal.isLenient {
        adopt(rehearsed, rehearsal)
      } else {
        decide(rehearsed, rehearsal, .notAsked)
      }
    case .respond(let planned):
      refuse(rehearsed, rehearsal, Self.status(of: planned.reason), planned.reason)
    case .closeInTheMiddle:
      rehearsal.ending = .cut
      refuse(rehearsed, rehearsal, .processingError, nil)
    case .binaryError(let status, let milliseconds):
      refuse(rehearsed, rehearsal, status, nil)
      guard milliseconds > 0 else { return }
      rehearsal.holdBack(milliseconds: milliseconds) { [self] in worker.markDirty(connection) }
    case .binarySilence:
      rehearsal.ending = .silent
      refuse(rehearsed, rehearsal, .processingError, nil)
    case .binaryShutdown:
      decide(rehearsed, rehearsal, .notAsked)
      machine.drain()
    }
  }

  func prepared(_ sequence: UInt32) {
    guard let rehearsal, let rehearsed = rehearsal.requests[sequence] else { return }
    decide(rehearsed, rehearsal, .notAsked)
    worker.markDirty(connection)
  }

  /// Discards a notification to a planned dead token without an answer. False if no dead token is planned, or the token
  /// belongs to no device.
  func throwAwayDead(
    _ rehearsed: RehearsedRequest, _ rehearsal: ProviderRehearsal, adopted: DeviceToken? = nil
  ) -> Bool {
    guard let since = rehearsal.listDead(rehearsed, adopted: adopted) else { return false }
    settle(rehearsed)
    rehearsal.report(rehearsed, status: 0) { exchange in
      exchange.explanation = "the token is invalid: the notification is discarded"
      exchange.timestampMilliseconds = since
    }
    return true
  }

  /// The status that is nearest to a reason of the HTTP/2 interface.
  private static func status(of reason: String) -> BinaryStatus {
    switch Reason(text: Array(reason.utf8).span) {
    case .badDeviceToken, .deviceTokenNotForTopic, .unregistered, .expiredToken: .invalidToken
    case .missingTopic, .badTopic, .topicDisallowed: .missingTopic
    case .missingDeviceToken: .missingDeviceToken
    case .payloadEmpty: .missingPayload
    case .payloadTooLarge: .invalidPayloadSize
    default: .processingError
    }
  }

  // MARK: Decisions

  /// Makes a frame pending, and returns its sequence number.
  func hold(_ rehearsed: RehearsedRequest, _ rehearsal: ProviderRehearsal) -> UInt32? {
    guard let frame = rehearsed.frame else { return nil }
    if let sequence = frame.sequence { return sequence }
    let sequence = machine.submit(frame.frame, nowSeconds: Int64(worker.nowSeconds))
    rehearsed.frame?.sequence = sequence
    rehearsal.keep(rehearsed, sequence)
    return sequence
  }

  private func settle(_ rehearsed: RehearsedRequest) {
    guard let frame = rehearsed.frame else { return }
    if let sequence = frame.sequence {
      _ = rehearsal?.take(sequence)
      machine.decide(sequence, status: nil)
    } else {
      machine.accept(frame.frame, nowSeconds: Int64(worker.nowSeconds))
    }
  }

  private func refuse(
    _ rehearsed: RehearsedRequest, _ rehearsal: ProviderRehearsal, _ status: BinaryStatus,
    _ reason: String?
  ) {
    guard let frame = rehearsed.frame else { return }
    if let sequence = frame.sequence {
      _ = rehearsal.take(sequence)
      machine.decide(sequence, status: status)
    } else {
      machine.refuse(frame.frame, status: status, nowSeconds: Int64(worker.nowSeconds))
    }
    rehearsal.report(rehearsed, status: Int(status.rawValue)) { exchange in
      exchange.reason = reason ?? status.text.description
    }
  }

  /// Decides on a frame without a fault.
  func decide(
    _ rehearsed: RehearsedRequest, _ rehearsal: ProviderRehearsal, _ adoption: Adoption
  ) {
    guard let frame = rehearsed.frame else { return }
    let sender = sender
    do throws(Refusal) {
      guard let token = DeviceToken(bytes: frame.bytes.span.extracting(frame.frame.token)) else {
        throw Refusal(.frame(.tokenLength(byteCount: frame.frame.token.count)))
      }
      let admitted: AdmittedFrame?
      if rehearsal.isLenient {
        admitted = try admitLeniently(frame, token, rehearsed, rehearsal, sender, adoption)
      } else {
        var payloads = PayloadSeries(frame.bytes.span)
        admitted = try Admission.admit(
          frame.frame, payload: frame.frame.payload, of: &payloads, token: token,
          claims: worker.sealer.open(token), sender: sender)
      }
      if let admitted { pass(admitted, rehearsed, rehearsal) }
    } catch {
      note(error)
      rehearsed.explanation = explanation(of: error)
      refuse(rehearsed, rehearsal, error.explanation.status, nil)
    }
  }

  func explanation(of refusal: Refusal) -> String {
    refusal.explanation.text(
      fields: RequestFields(byteCapacity: 0), directory: worker.trust.directory)
  }

  private func pass(
    _ admitted: borrowing AdmittedFrame, _ rehearsed: RehearsedRequest,
    _ rehearsal: ProviderRehearsal
  ) {
    guard let frame = rehearsed.frame, let sequence = hold(rehearsed, rehearsal) else { return }
    let notification = notification(
      admitted, frame.bytes.span.extracting(frame.frame.payload))
    rehearsed.id = notification.id
    let answer = Answer(
      worker: UInt16(worker.index), connection: UInt32(connection.slot),
      generation: connection.generation, sequence: sequence)
    if let verdict = worker.route(notification, answer, own: worker.shard) {
      finish(sequence, rejection: verdict.rejection)
    }
  }

  // MARK: Reporting

  /// Reports the decision on a frame.
  func noteDecided(_ sequence: UInt32, _ rejection: Rejection?, _ rehearsal: ProviderRehearsal) {
    guard let rehearsed = rehearsal.take(sequence) else { return }
    let status = Self.status(rejection) ?? .noError
    rehearsal.report(rehearsed, status: Int(status.rawValue)) { exchange in
      exchange.notificationID = rejection == nil ? rehearsed.id : nil
      guard rejection != nil else { return }
      exchange.reason = status.text.description
      exchange.explanation = "the service could not decide"
    }
  }

  /// Reports input that is not a valid frame.
  private func noteFault(_ refusal: Refusal, _ rehearsal: ProviderRehearsal) {
    note(refusal)
    let rehearsed = RehearsedRequest(
      ProviderRequest(
        connection: rehearsal.connection, receivedMilliseconds: worker.wallMilliseconds), nil)
    rehearsed.explanation = explanation(of: refusal)
    let status = refusal.explanation.status
    rehearsal.report(rehearsed, status: Int(status.rawValue)) {
      $0.reason = status.text.description
    }
  }

  func rehearsalEnded(_ rehearsal: ProviderRehearsal) {
    for rehearsed in rehearsal.requests.values {
      rehearsal.report(rehearsed, status: Int(BinaryStatus.unknown.rawValue)) { exchange in
        exchange.explanation = "the connection ended before the decision"
      }
    }
    rehearsal.connectionClosed()
  }

  // MARK: The end

  /// Replaces the usual last packet if a fault decides how the connection ends.
  func flushLast(
    _ packet: BinaryErrorPacket?, _ rehearsal: ProviderRehearsal
  ) -> Connection.Ending {
    guard rehearsal.ending == .cut else { return hasSpoken ? .afterPause : .now }
    packet?.append(to: &worker.scratch)
    worker.scratch.removeLast(worker.scratch.count / 2)
    sendScratch()
    connection.writeOutput()
    connection.abort()
    return .none
  }
}
