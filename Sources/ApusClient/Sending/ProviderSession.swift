import ApusHTTP2
import ApusModel

/// The requests on one connection: bytes in, outcomes out, bytes out. No I/O and no clock.
final class ProviderSession {
  /// What is to be done about a push that had a stream.
  enum Settlement {
    case outcome(SendOutcome)
    /// The service has certainly not acted on it: it is sent again, with the same id, on another connection.
    case sendAgain(String)
  }

  private let http2 = HTTP2ClientSession()
  /// By stream.
  private var sends: [Int32: PendingSend] = [:]
  /// The first stream of which no byte was taken for writing; the same holds for all after it.
  private var firstUnwritten: Int32?
  /// Whether no more pushes are put on it, though those that are on it are waited for.
  private(set) var isRetired = false
  /// Answers that came.
  private(set) var answerCount = 0
  private var lossText = ""

  /// Whether the service's SETTINGS came.
  var isReady: Bool { http2.isReady }
  /// Whether pushes may be put on it, now or later.
  var takesPushes: Bool { !isRetired && !http2.isClosing }
  /// Pushes without an outcome.
  var openCount: Int { sends.count }
  /// What the service's last GOAWAY said.
  var goAway: HTTP2GoAway? { http2.goAway }

  /// Puts pushes on free streams. Before the service's SETTINGS none is free.
  func fill(
    from queue: inout SendQueue, fields: inout RequestFields, authority: Span<UInt8>,
    authorization: Span<UInt8>
  ) {
    while takesPushes, http2.availableStreams > 0, let send = queue.takeFirst() {
      send.push.write(to: &fields, authority: authority, authorization: authorization)
      let payload = send.push.payload
      guard let streamID = http2.submit(fields: fields, body: payload.span) else {
        return queue.putBack([send])
      }
      send.attempts += 1
      sends[streamID] = send
      if firstUnwritten == nil { firstUnwritten = streamID }
    }
  }

  var hasFreeStream: Bool { takesPushes && http2.availableStreams > 0 }

  // MARK: Bytes

  /// False: the service broke the protocol. Write what is pending, close, and call ``connectionLost(_:)``.
  func receive(_ bytes: UnsafeRawBufferPointer) -> Bool { unsafe http2.receive(bytes) == .ok }

  var wantsWrite: Bool { http2.wantsWrite }
  /// Whether the connection is to be closed, since nothing more will be read or written.
  var isFinished: Bool { http2.isFinished }

  /// Appends what is to be sent to `buffer`, up to a length of `limit` bytes in all.
  func pendingOutput(into buffer: inout [UInt8], limit: Int) {
    // From now on any of them may have reached the service.
    firstUnwritten = nil
    http2.pendingOutput(into: &buffer, limit: limit)
  }

  // MARK: Outcomes

  /// Hands over what became known, push by push.
  func settle(_ body: (PendingSend, Settlement) -> Void) {
    while let response = http2.nextResponse() {
      defer { http2.release(response) }
      if response.failure == nil { answerCount += 1 }
      guard let send = sends.removeValue(forKey: response.streamID) else { continue }
      body(send, settlement(of: response, send))
    }
  }

  private func settlement(of response: HTTP2Response, _ send: PendingSend) -> Settlement {
    switch response.failure {
    case nil:
      return .outcome(SendOutcome(answer: response, to: send.push.id))
    case .refused:
      isRetired = true
      return .sendAgain("the service refused the stream")
    case .goneAway:
      return .sendAgain(http2.goAway?.text ?? "the service closed the connection")
    case .reset(let code):
      return .outcome(
        .unknown(
          UnknownCause(.requestReset, "HTTP/2 code \(code.rawValue)"), retryMayDuplicate: true))
    case .connectionLost:
      if let firstUnwritten, response.streamID >= firstUnwritten { return .sendAgain(lossText) }
      return .outcome(
        .unknown(UnknownCause(.connectionLost, lossText), retryMayDuplicate: true))
    }
  }

  /// The connection is gone; ``settle(_:)`` tells what that means for each push on it.
  func connectionLost(_ text: String) {
    lossText = text
    isRetired = true
    http2.connectionLost()
  }

  // MARK: Time and the end

  /// Gives up on the pushes whose time is over.
  ///
  /// A connection on which a request stayed unanswered for its whole time gets no more of them.
  func expire(nowMilliseconds: UInt64) {
    for (streamID, send) in sends where send.deadlineMilliseconds <= nowMilliseconds {
      sends[streamID] = nil
      isRetired = true
      send.finish(UnknownCause(.timedOut, "no answer came"), retryMayDuplicate: true)
    }
  }

  /// Ends a push for its caller. Its stream stays until the answer comes or its time is over, so that a caller who
  /// cancels does not cost the others their connection.
  func cancel(_ number: UInt64) {
    for send in sends.values where send.number == number {
      send.finish(UnknownCause(.cancelled), retryMayDuplicate: true)
    }
  }

  /// Whether the connection has no more use.
  var isDone: Bool { !takesPushes && sends.isEmpty }

  /// Ends the connection from this side: GOAWAY.
  func goodbye() {
    isRetired = true
    http2.close()
  }
}
