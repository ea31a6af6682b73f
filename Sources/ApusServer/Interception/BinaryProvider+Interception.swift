import ApusCore
import ApusDirectory
import ApusLoop
import ApusModel
import ApusTLS
import ApusTrust
import ApusWire

/// A frame that owns its bytes.
struct InterceptedFrame {
  var frame: BinaryFrame
  var bytes: [UInt8]
  /// Its sequence number, once it is among the pending frames.
  var sequence: UInt32?
}

// A provider on the binary interface of the development service: the interceptor sees the frames one at a time, and can
// plan a fault for each.

extension BinaryProvider {
  /// Replaces `receive` if there is an interceptor.
  func intercept(_ input: Span<UInt8>, _ interception: Interception) {
    // A clock that was just set must already apply.
    context.readClock()
    var offset = 0
    while true {
      switch machine.next(input, at: &offset, nowSeconds: Int64(context.nowSeconds)) {
      case .wait, .over: return
      case .fault(let fault): noteFault(Refusal(.frame(fault)), interception)
      case .frame(let frame):
        let bytes = machine.bytes(of: frame, in: input, before: offset).copied()
        let intercepted = interception.begin(captured(frame, bytes, interception), nil)
        intercepted.frame = InterceptedFrame(frame: frame, bytes: bytes)
        carryOut(intercepted.effect, intercepted, interception)
      }
    }
  }

  // MARK: Faults

  private func carryOut(
    _ effect: PlannedFault.Effect, _ intercepted: InterceptedRequest, _ interception: Interception
  ) {
    switch effect {
    case .none, .resetStream, .goAway: decide(intercepted, interception, .notAsked)
    case .preparation:
      guard let sequence = hold(intercepted, interception) else { return }
      interception.prepare(intercepted.request, sequence)
    case .delay(let milliseconds, let then):
      _ = hold(intercepted, interception)
      interception.after(milliseconds: milliseconds) { [self] in
        carryOut(then, intercepted, interception)
        connection.markDirty()
      }
    case .noAnswer:
      settle(intercepted)
      interception.report(intercepted, status: 0) {
        $0.explanation = "the notification is discarded"
      }
    case .deadToken(let since):
      intercepted.deadSinceMilliseconds = since ?? context.wallMilliseconds
      if throwAwayDead(intercepted, interception) { return }
      if interception.isLenient {
        adopt(intercepted, interception)
      } else {
        decide(intercepted, interception, .notAsked)
      }
    case .respond(let planned):
      refuse(intercepted, interception, Self.status(of: planned.reason), planned.reason)
    case .closeInTheMiddle:
      interception.ending = .cut
      refuse(intercepted, interception, .processingError, nil)
    case .binaryError(let status, let milliseconds):
      refuse(intercepted, interception, status, nil)
      guard milliseconds > 0 else { return }
      interception.holdBack(milliseconds: milliseconds) { [self] in connection.markDirty() }
    case .binarySilence:
      interception.ending = .silent
      refuse(intercepted, interception, .processingError, nil)
    case .binaryShutdown:
      decide(intercepted, interception, .notAsked)
      machine.drain()
    }
  }

  func prepared(_ sequence: UInt32) {
    guard let interception = intercepting, let intercepted = interception.requests[sequence] else {
      return
    }
    decide(intercepted, interception, .notAsked)
    connection.markDirty()
  }

  /// Discards a notification to a planned dead token without an answer. False if no dead token is planned, or the token
  /// belongs to no device.
  func throwAwayDead(
    _ intercepted: InterceptedRequest, _ interception: Interception, adopted: DeviceToken? = nil
  ) -> Bool {
    guard let since = interception.listDead(intercepted, adopted: adopted) else { return false }
    settle(intercepted)
    interception.report(intercepted, status: 0) { exchange in
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
  func hold(_ intercepted: InterceptedRequest, _ interception: Interception) -> UInt32? {
    guard let frame = intercepted.frame else { return nil }
    if let sequence = frame.sequence { return sequence }
    let sequence = machine.submit(frame.frame, nowSeconds: Int64(context.nowSeconds))
    intercepted.frame?.sequence = sequence
    interception.keep(intercepted, sequence)
    return sequence
  }

  private func settle(_ intercepted: InterceptedRequest) {
    guard let frame = intercepted.frame else { return }
    if let sequence = frame.sequence {
      _ = intercepting?.take(sequence)
      machine.decide(sequence, status: nil)
    } else {
      machine.accept(frame.frame, nowSeconds: Int64(context.nowSeconds))
    }
  }

  private func refuse(
    _ intercepted: InterceptedRequest, _ interception: Interception, _ status: BinaryStatus,
    _ reason: String?
  ) {
    guard let frame = intercepted.frame else { return }
    if let sequence = frame.sequence {
      _ = interception.take(sequence)
      machine.decide(sequence, status: status)
    } else {
      machine.refuse(frame.frame, status: status, nowSeconds: Int64(context.nowSeconds))
    }
    interception.report(intercepted, status: Int(status.rawValue)) { exchange in
      exchange.reason = reason ?? status.text.description
    }
  }

  /// Decides on a frame without a fault.
  func decide(
    _ intercepted: InterceptedRequest, _ interception: Interception, _ adoption: Adoption
  ) {
    guard let frame = intercepted.frame else { return }
    let sender = sender
    do throws(Refusal) {
      guard let token = DeviceToken(bytes: frame.bytes.span.extracting(frame.frame.token)) else {
        throw Refusal(.frame(.tokenLength(byteCount: frame.frame.token.count)))
      }
      if try keepForUpstream(frame, token, intercepted, interception) { return }
      let admitted: AdmittedFrame?
      if interception.isLenient {
        admitted = try admitLeniently(frame, token, intercepted, interception, sender, adoption)
      } else {
        var payloads = PayloadSeries(frame.bytes.span)
        admitted = try Admission.admit(
          frame.frame, payload: frame.frame.payload, of: &payloads, token: token,
          claims: context.sealer.open(token), sender: sender)
      }
      if let admitted { pass(admitted, intercepted, interception) }
    } catch {
      recordRejection(error)
      intercepted.explanation = explanation(of: error)
      refuse(intercepted, interception, error.explanation.status, nil)
    }
  }

  func explanation(of refusal: Refusal) -> String {
    refusal.explanation.text(
      fields: RequestFields(byteCapacity: 0), directory: context.trust.directory)
  }

  private func pass(
    _ admitted: borrowing AdmittedFrame, _ intercepted: InterceptedRequest,
    _ interception: Interception
  ) {
    guard let frame = intercepted.frame, let sequence = hold(intercepted, interception) else {
      return
    }
    let notification = notification(
      admitted, frame.bytes.span.extracting(frame.frame.payload), context.ids.next())
    intercepted.id = notification.id
    if let verdict = providers.router.route(notification, answer(to: sequence)) {
      finish(sequence, rejection: verdict.rejection)
    }
  }

  // MARK: Reporting

  /// Reports the decision on a frame.
  func noteDecided(_ sequence: UInt32, _ rejection: Rejection?, _ interception: Interception) {
    guard let intercepted = interception.take(sequence) else { return }
    let status = Self.status(rejection) ?? .noError
    interception.report(intercepted, status: Int(status.rawValue)) { exchange in
      exchange.notificationID = rejection == nil ? intercepted.id : nil
      guard rejection != nil else { return }
      exchange.reason = status.text.description
      exchange.explanation = "the service could not decide"
    }
  }

  /// Reports input that is not a valid frame.
  private func noteFault(_ refusal: Refusal, _ interception: Interception) {
    recordRejection(refusal)
    let intercepted = InterceptedRequest(
      ProviderRequest(
        connection: interception.connection, receivedMilliseconds: context.wallMilliseconds), nil)
    intercepted.explanation = explanation(of: refusal)
    let status = refusal.explanation.status
    interception.report(intercepted, status: Int(status.rawValue)) {
      $0.reason = status.text.description
    }
  }

  func interceptionEnded(_ interception: Interception) {
    for intercepted in interception.requests.values {
      interception.report(intercepted, status: Int(BinaryStatus.unknown.rawValue)) { exchange in
        exchange.explanation = "the connection ended before the decision"
      }
    }
    interception.connectionClosed()
  }

  // MARK: The end

  /// Replaces the usual last packet if a fault decides how the connection ends.
  func flushLast(
    _ packet: BinaryErrorPacket?, _ interception: Interception
  ) -> Connection.Ending {
    guard interception.ending == .cut else { return hasSpoken ? .afterPause : .now }
    packet?.append(to: &context.scratch)
    context.scratch.removeLast(context.scratch.count / 2)
    sendScratch()
    connection.writeOutput()
    connection.abort()
    return .none
  }
}
