import ApusHTTP2
import ApusModel

/// The requests on one connection: bytes in, outcomes and bytes out. No I/O and no clock.
final class ProviderSession {
  /// How a push that had a stream ends.
  enum Settlement {
    case outcome(SendOutcome)
    /// The service has certainly not processed it, or processing it twice does no harm: it is sent again with the same
    /// id.
    case sendAgain(String)
  }

  /// Why a session takes no push now.
  enum Hindrance {
    /// It is closing, or the service's SETTINGS have not arrived.
    case notReady
    /// The service allows no more concurrent requests.
    case streams
    /// The service's window has no room for another body. A push waits here rather than in HTTP/2, because another
    /// connection may have room.
    case window
    /// It was idle for so long that it awaits the answer to a PING. If it died meanwhile, no push has an unknown
    /// outcome.
    case silence
  }

  private let http2 = HTTP2ClientSession()
  /// By request tag; nil: free, or the caller already has its outcome.
  private var sends: [PendingSend?] = []
  private var freeTags: [Int] = []
  /// Pushes without an outcome.
  private(set) var openCount = 0
  /// Whether it takes no more pushes and only waits for the open ones.
  private(set) var isRetired = false
  /// Answers received.
  private(set) var answerCount = 0
  private var lossText = ""
  /// Set when the connection must be closed: the reason.
  private(set) var deathText: String?

  private let startedMilliseconds: UInt64
  /// When bytes last arrived from the service.
  private(set) var heardMilliseconds: UInt64
  /// When the PING was sent that is still unanswered.
  private(set) var pingedMilliseconds: UInt64?
  /// Since when the service has allowed no request.
  private var closedSinceMilliseconds: UInt64?
  /// When its last push got its outcome.
  private(set) var idleSinceMilliseconds: UInt64

  init(nowMilliseconds: UInt64) {
    startedMilliseconds = nowMilliseconds
    heardMilliseconds = nowMilliseconds
    idleSinceMilliseconds = nowMilliseconds
  }

  /// Whether the service's SETTINGS have arrived.
  var isReady: Bool { http2.isReady }
  /// Whether it takes pushes, now or later.
  var takesPushes: Bool { !isRetired && !http2.isClosing }
  /// The service's last GOAWAY.
  var goAway: HTTP2GoAway? { http2.goAway }
  /// The service's time in its first answer, in seconds since 1970.
  var serverSeconds: Int64? { http2.serverSeconds }

  /// Concurrent requests that the service allows.
  var streamLimit: Int { http2.streamLimit }
  /// Bytes of bodies that the service accepts now.
  var windowBytes: Int { http2.windowBytes }

  // MARK: Pushes

  /// What prevents a body of this many bytes from being sent now; nil: nothing.
  func hindrance(bodyBytes: Int) -> Hindrance? {
    guard takesPushes, http2.isReady else { return .notReady }
    if pingedMilliseconds != nil { return .silence }
    if http2.availableStreams == 0 { return .streams }
    // A body larger than every window is sent in parts, when nothing else waits for the window.
    return http2.openStreamCount == 0 || http2.windowBytes >= bodyBytes ? nil : .window
  }

  /// Sets the values that all requests share: the service's name, and `authorization`, which may be empty.
  func share(authority: [UInt8], authorization: [UInt8]) {
    http2.share(authority: authority.span, authorization: authorization)
  }

  /// Puts a push on a stream. False if another connection must take it.
  func put(_ send: PendingSend, nowMilliseconds: UInt64) -> Bool {
    let tag = freeTags.popLast() ?? sends.count
    let streamID = http2.submit(
      send.push.fields, body: send.push.payload, tag: tag, answerLimit: send.push.answerLimit)
    guard streamID != nil else {
      if tag < sends.count { freeTags.append(tag) }
      return false
    }
    if tag == sends.count { sends.append(send) } else { sends[tag] = send }
    openCount += 1
    send.attempts += 1
    send.sentMilliseconds = nowMilliseconds
    return true
  }

  // MARK: Bytes

  /// False if the service broke the protocol. Then write pending bytes, close, and call ``connectionLost(_:)``.
  func receive(_ bytes: UnsafeRawBufferPointer) -> Bool { unsafe http2.receive(bytes) == .ok }

  var wantsWrite: Bool { http2.wantsWrite }
  /// Whether to close the connection, since nothing more will be read or written.
  var isFinished: Bool { http2.isFinished }

  /// Appends pending output to `buffer`, up to a total length of `limit` bytes.
  func pendingOutput(into buffer: inout [UInt8], limit: Int) {
    http2.pendingOutput(into: &buffer, limit: limit)
  }

  // MARK: Outcomes

  /// Reports new results, push by push.
  func settle(nowMilliseconds: UInt64, _ body: (PendingSend, Settlement) -> Void) {
    while let response = http2.nextResponse() {
      defer { http2.release(response) }
      if response.failure == nil { answerCount += 1 }
      guard let send = take(tag: response.tag, nowMilliseconds) else { continue }
      body(send, settlement(of: response, send))
    }
  }

  private func take(tag: Int, _ nowMilliseconds: UInt64) -> PendingSend? {
    freeTags.append(tag)
    let send = sends[tag].take()
    if send != nil { closed(nowMilliseconds) }
    return send
  }

  private func closed(_ nowMilliseconds: UInt64) {
    openCount -= 1
    if openCount == 0 { idleSinceMilliseconds = nowMilliseconds }
  }

  private func settlement(of response: HTTP2Response, _ send: PendingSend) -> Settlement {
    switch response.failure {
    case nil:
      if send.push.purpose != .push { send.answer = ChannelAnswer(response) }
      // The whole push would be retained for that.
      return .outcome(
        SendOutcome(answer: response, toPush: send.push.id, send.push.purpose))
    case .refused:
      // A service that lowers its limit refuses requests in flight; the connection itself is fine.
      if http2.openStreamCount < http2.streamLimit { isRetired = true }
      return .sendAgain("the service refused the stream")
    case .goneAway:
      return .sendAgain(http2.goAway?.text ?? "the service closed the connection")
    case .reset(let code):
      return .outcome(
        .unknown(
          UnknownCause(.requestReset, "HTTP/2 code \(code.rawValue)"),
          retryMayDuplicate: response.wasSentWhole))
    case .connectionLost:
      // Reading again what may have been read changes nothing.
      if !response.wasSentWhole || send.push.purpose == .readChannels {
        return .sendAgain(lossText)
      }
      return .outcome(
        .unknown(UnknownCause(.connectionLost, lossText), retryMayDuplicate: true))
    }
  }

  /// The connection has ended; ``settle(nowMilliseconds:_:)`` reports what that means for each of its pushes.
  func connectionLost(_ text: String) {
    lossText = text
    isRetired = true
    http2.connectionLost()
  }

  // MARK: Time and the end

  /// Bytes arrived from the service.
  func heard(nowMilliseconds: UInt64) {
    heardMilliseconds = nowMilliseconds
    pingedMilliseconds = nil
  }

  /// Sends a PING after a silence, and gives up on the connection if no answer arrives, SETTINGS never arrived, or they
  /// allow no request for as long.
  func watch(_ settings: DispatcherSettings, nowMilliseconds: UInt64) {
    guard deathText == nil else { return }
    if let pinged = pingedMilliseconds {
      if nowMilliseconds >= pinged + settings.pingTimeoutMilliseconds {
        deathText = "the service did not answer a PING"
      }
    } else if !http2.isReady {
      if nowMilliseconds >= startedMilliseconds + settings.readyTimeoutMilliseconds {
        deathText = "the service sent no SETTINGS"
      }
    } else if nowMilliseconds >= heardMilliseconds + settings.pingAfterMilliseconds {
      pingedMilliseconds = nowMilliseconds
      http2.ping()
    }
    watchLimit(settings, nowMilliseconds)
    if deathText != nil { isRetired = true }
  }

  private func watchLimit(_ settings: DispatcherSettings, _ nowMilliseconds: UInt64) {
    guard http2.isReady, http2.streamLimit == 0 else { return closedSinceMilliseconds = nil }
    let since = max(closedSinceMilliseconds ?? nowMilliseconds, idleSinceMilliseconds)
    closedSinceMilliseconds = since
    if openCount == 0, nowMilliseconds >= since + settings.readyTimeoutMilliseconds {
      deathText = "the service allowed no request"
    }
  }

  /// Ends the pushes whose timeout expired.
  ///
  /// A connection on which a request stayed unanswered until its timeout takes no more requests.
  func expire(nowMilliseconds: UInt64, _ body: (PendingSend, SendOutcome) -> Void) {
    for tag in sends.indices {
      guard let send = sends[tag], send.deadlineMilliseconds <= nowMilliseconds else { continue }
      sends[tag] = nil
      closed(nowMilliseconds)
      isRetired = true
      body(
        send, .unknown(UnknownCause(.timedOut, "no answer came"), retryMayDuplicate: true))
    }
  }

  /// Ends pushes for their callers and counts them. Their streams stay until the answers arrive, so that a caller who
  /// cancels does not cost others their connection.
  func cancel(nowMilliseconds: UInt64, where isMeant: (PendingSend) -> Bool) -> Int {
    var count = 0
    for tag in sends.indices {
      guard let send = sends[tag], isMeant(send) else { continue }
      sends[tag] = nil
      closed(nowMilliseconds)
      send.finish(UnknownCause(.cancelled), retryMayDuplicate: true)
      count += 1
    }
    return count
  }

  /// Takes it out of use; its open pushes continue.
  func retire() { isRetired = true }

  /// Whether the connection is no longer needed.
  var isDone: Bool { !takesPushes && openCount == 0 }

  /// Ends the connection from this side with GOAWAY.
  func goodbye() {
    isRetired = true
    http2.close()
  }
}
