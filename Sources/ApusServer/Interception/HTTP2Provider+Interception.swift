import ApusCore
import ApusDirectory
import ApusHTTP2
import ApusLoop
import ApusModel
import ApusTLS
import ApusTrust
import ApusWire

// A provider of the development service: the interceptor sees each request, and can plan a fault for it.

extension HTTP2Provider {
  /// Replaces `decide` if there is an interceptor.
  func intercept(_ request: HTTP2Request, _ interception: Interception) {
    // A clock that was just set must already apply.
    context.readClock()
    // Not a push, so that no rule can mean it.
    if managesChannels { return manage(request, interception) }
    let intercepted = interception.begin(captured(request, interception), Self.key(request))
    if let last = interception.lastStreamID, request.streamID > last {
      return leaveUnanswered(request, "a GOAWAY says that this stream is not processed")
    }
    carryOut(intercepted.effect, request, intercepted, interception)
  }

  static func key(_ request: HTTP2Request) -> UInt32 { UInt32(request.streamID) }

  // MARK: Faults

  private func carryOut(
    _ effect: PlannedFault.Effect, _ request: HTTP2Request, _ intercepted: InterceptedRequest,
    _ interception: Interception
  ) {
    switch effect {
    case .none, .binaryError, .binarySilence, .binaryShutdown: proceed(request, intercepted)
    case .preparation:
      intercepted.held = request
      interception.prepare(intercepted.request, Self.key(request))
    case .respond(let planned): respond(planned, to: request)
    case .delay(let milliseconds, let then):
      intercepted.held = request
      interception.after(milliseconds: milliseconds) { [self] in
        guard let request = release(intercepted) else { return }
        carryOut(then, request, intercepted, interception)
        connection.markDirty()
      }
    case .noAnswer: withhold(request, intercepted, interception)
    case .deadToken(let since):
      intercepted.deadSinceMilliseconds = since ?? context.wallMilliseconds
      if answerDead(request, intercepted, interception) { return }
      // A broadcast has no token.
      if interception.isLenient, !request.isBroadcast {
        adopt(request, intercepted)
      } else {
        proceed(request, intercepted)
      }
    case .resetStream(let code):
      session.reset(request, code: HTTP2ErrorCode(rawValue: code))
      leaveUnanswered(request, "the stream was reset with code \(code)")
    case .goAway(let planned): goAway(planned, request, intercepted, interception)
    case .closeInTheMiddle:
      let id = IDText(context.ids.next())
      session.respond(
        request, status: 200, Self.idName(request), id: id.span, retryAfterSeconds: nil,
        body: Span())
      interception.ending = .cut
      leaveUnanswered(request, "the connection was closed in the middle of the response")
    }
  }

  func prepared(_ key: UInt32) {
    guard let intercepted = intercepting?.requests[key], let request = release(intercepted) else {
      return
    }
    proceed(request, intercepted)
    connection.markDirty()
  }

  /// Processes the request as usual.
  private func proceed(_ request: HTTP2Request, _ intercepted: InterceptedRequest) {
    if interception?.isLenient == true {
      if request.isBroadcast { return decideOnChannelLeniently(request, intercepted) }
      decideLeniently(request, intercepted, .notAsked)
    } else {
      decide(request)
    }
  }

  /// Answers a request to a planned dead token. False if no dead token is planned, or the token belongs to no device.
  func answerDead(
    _ request: HTTP2Request, _ intercepted: InterceptedRequest, _ interception: Interception,
    adopted: DeviceToken? = nil
  ) -> Bool {
    guard let since = interception.listDead(intercepted, adopted: adopted) else { return false }
    let reason = Reason.unregistered
    respond(
      .init(
        status: reason.status, reason: reason.text.description, timestampMilliseconds: since),
      to: request)
    return true
  }

  /// Resumes a held request. Nil if its stream has closed.
  func release(_ intercepted: InterceptedRequest) -> HTTP2Request? {
    guard let request = intercepted.held else { return nil }
    intercepted.held = nil
    context.readClock()
    guard request.isOpen, !isClosed else {
      leaveUnanswered(request, "the provider cancelled the request")
      return nil
    }
    // The wait does not count towards the request's timeout.
    request.restart(nowMilliseconds: context.loop.nowMilliseconds)
    return request
  }

  /// Sends no response. The stream stays open until either side ends it.
  private func withhold(
    _ request: HTTP2Request, _ intercepted: InterceptedRequest, _ interception: Interception
  ) {
    intercepted.held = request
    interception.report(intercepted, status: 0) { $0.explanation = "no response is sent" }
    guard interception.requests.count > Limits.concurrentStreams else { return }
    for intercepted in interception.requests.values where intercepted.isReported {
      if let request = intercepted.held, !request.isOpen { leaveUnanswered(request, "") }
    }
  }

  private func respond(_ planned: PlannedFault.Answer, to request: HTTP2Request) {
    let id = answerID(of: request)
    let body = planned.reason.isEmpty ? [] : Self.body(of: planned)
    let idBytes = Array(id.utf8)
    session.respond(
      request, status: planned.status, Self.idName(request), id: idBytes.span,
      retryAfterSeconds: planned.retryAfterSeconds, body: body.span)
    connection.markDirty()
    report(request, status: Int(planned.status)) { exchange in
      exchange.apnsID = id
      exchange.reason = planned.reason.isEmpty ? nil : planned.reason
      exchange.timestampMilliseconds = planned.timestampMilliseconds
    }
    session.release(request)
  }

  private static func body(of planned: PlannedFault.Answer) -> [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("reason")
    writer.string(planned.reason)
    if let milliseconds = planned.timestampMilliseconds {
      writer.key("timestamp")
      writer.integer(milliseconds)
    }
    writer.endObject()
    return writer.bytes
  }

  private func goAway(
    _ planned: PlannedFault.GoAway, _ request: HTTP2Request, _ intercepted: InterceptedRequest,
    _ interception: Interception
  ) {
    let last: Int32 =
      switch planned.lastStream {
      case .all: .max
      case .none: 0
      case .thisOne: request.streamID
      case .before: max(0, request.streamID - 2)
      }
    if planned.lastStream == .all {
      session.announceShutdown()
    } else {
      let data = planned.reason.map { Self.body(of: .init(status: 0, reason: $0)) } ?? []
      session.goAway(
        lastStreamID: last, code: HTTP2ErrorCode(rawValue: planned.code), debugData: data)
      interception.lastStreamID = last
      isOver = true
    }
    if planned.closes { interception.ending = .closed }
    guard !planned.closes, last >= request.streamID else {
      return leaveUnanswered(request, "a GOAWAY says that this stream is not processed")
    }
    proceed(request, intercepted)
    connection.markDirty()
  }

  // MARK: The end

  /// Replaces `flush` if a fault ends the connection.
  func flushLast(_ interception: Interception) -> Connection.Ending {
    context.scratch.removeAll(keepingCapacity: true)
    while connection.mayWrite, session.wantsWrite {
      let before = context.scratch.count
      session.pendingOutput(into: &context.scratch, limit: before + TLSBuffers.recordBytes)
      if context.scratch.count == before { break }
    }
    let count = context.scratch.count
    guard interception.ending == .cut else {
      connection.encrypt(context.scratch, count: count)
      isOver = true
      return .now
    }
    // A HEADERS frame has 9 bytes, and at least 18 for a compressed id. Half of that is cut off.
    connection.encrypt(context.scratch, count: max(0, count - Self.cutBytes))
    connection.writeOutput()
    connection.abort()
    return .none
  }

  private static let cutBytes = 16

  /// Ends all held requests, because the connection shuts down.
  func letGo(_ interception: Interception) {
    for intercepted in interception.requests.values {
      guard let request = intercepted.held else { continue }
      intercepted.held = nil
      session.reset(request, code: .cancel)
      leaveUnanswered(request, "the service shut down")
    }
  }

  func interceptionEnded(_ interception: Interception) {
    for intercepted in interception.requests.values {
      guard let request = intercepted.held else { continue }
      intercepted.held = nil
      leaveUnanswered(request, "the connection ended before the response")
    }
    interception.connectionClosed()
  }

  // MARK: Reporting

  /// Ends the request without a response.
  private func leaveUnanswered(_ request: HTTP2Request, _ explanation: String) {
    report(request, status: 0) { $0.explanation = explanation }
    session.release(request)
    connection.markDirty()
  }

  func noteAccepted(_ open: OpenRequest) {
    let isKnown = connection.listener.environment == .development
    report(open.request, status: 200) { exchange in
      exchange.apnsID = answerID(of: open.request, open.id)
      exchange.uniqueID = isKnown ? open.uniqueID.text : nil
      exchange.notificationID = open.id
      if isClosed { exchange.notes.append("the connection ended before the response") }
    }
  }

  func noteBroadcast(_ request: HTTP2Request, _ id: NotificationID?, unique: NotificationID) {
    report(request, status: 200) { exchange in
      exchange.apnsID = answerID(of: request, id)
      exchange.uniqueID = unique.text
      exchange.notificationID = unique
    }
  }

  func noteRefused(_ request: HTTP2Request, _ rejection: Rejection, _ apnsID: NotificationID?) {
    report(request, status: Int(rejection.reason.status)) { exchange in
      exchange.reason = rejection.reason.text.description
      exchange.timestampMilliseconds = rejection.timestampMilliseconds
      exchange.apnsID = answerID(of: request, apnsID)
      exchange.explanation = exchange.explanation ?? explanation(of: rejection)
    }
  }

  /// Notes why a request is rejected, before the rejection is sent.
  func explain(_ refusal: Refusal, of request: HTTP2Request, _ interception: Interception) {
    interception.requests[Self.key(request)]?.explanation = refusal.explanation.text(
      fields: request.fields, directory: context.trust.directory)
  }

  /// The explanation of a rejection that was decided after admission.
  private func explanation(of rejection: Rejection) -> String {
    let explanation: Explanation
    switch rejection.reason {
    case .unregistered:
      explanation = .inactiveToken(sinceMilliseconds: rejection.timestampMilliseconds ?? 0)
    case .tooManyRequests: explanation = .tooManyToDevice
    case .idleTimeout: return "the rest of the request did not arrive in time"
    default: return "the service could not decide"
    }
    return explanation.text(
      fields: RequestFields(byteCapacity: 0), directory: context.trust.directory)
  }

  func report(
    _ request: HTTP2Request, status: Int, _ change: (inout ProviderExchange) -> Void
  ) {
    guard let interception = intercepting, !managesChannels else { return }
    let intercepted =
      interception.take(Self.key(request))
      ?? InterceptedRequest(captured(request, interception), nil)
    interception.report(intercepted, status: status, change)
  }

  /// The id of the answer: the request's own as the provider spelled it, or a new one.
  func answerID(of request: HTTP2Request, _ own: NotificationID? = nil) -> String {
    let given =
      request.isBroadcast
      ? BroadcastAdmission.requestID(of: request.fields)
      : Admission.messageID(of: request.fields)
    guard case .given = given else { return (own ?? context.ids.next()).text }
    let name = Self.idName(request)
    return request.value(request.fields.contains(name) ? name : .apnsID).text
  }

  /// The field that has the id of the answer.
  private static func idName(_ request: HTTP2Request) -> HeaderName {
    request.isBroadcast ? .apnsRequestID : .apnsID
  }
}
