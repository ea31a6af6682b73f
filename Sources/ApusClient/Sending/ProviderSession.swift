import ApusHTTP2
import ApusModel

/// The requests on one connection: bytes in, outcomes out, bytes out. No I/O and no clock.
final class ProviderSession {
  /// What is to be done about a push that had a stream.
  enum Settlement {
    case outcome(SendOutcome)
    /// The service has certainly not acted on it: it is sent again, with the same id.
    case sendAgain(String)
  }

  /// Why a session takes no push now.
  enum Hindrance {
    /// It is going, or the service's SETTINGS did not come yet.
    case notReady
    /// As many requests are open as the service takes at a time.
    case streams
    /// The service's window has no room for another body.
    case window
    /// It was quiet for so long that it is being asked for a sign of life.
    case silence
  }

  private let http2 = HTTP2ClientSession()
  /// By the tags of requests; nil: free, or the caller has its outcome already.
  private var sends: [PendingSend?] = []
  private var freeTags: [Int] = []
  /// Pushes without an outcome.
  private(set) var openCount = 0
  /// The first stream of which no byte was taken for writing; the same holds for all after it.
  private var firstUnwritten: Int32?
  /// Whether no more pushes are put on it, though those that are on it are waited for.
  private(set) var isRetired = false
  /// Answers that came.
  private(set) var answerCount = 0
  private var lossText = ""
  /// Set when the connection under it is to be ended, to what is to be said about it.
  private(set) var deathText: String?

  private let startedMilliseconds: UInt64
  /// When anything came from the service last.
  private(set) var heardMilliseconds: UInt64
  /// When it was asked for a sign of life that did not come yet.
  private(set) var pingedMilliseconds: UInt64?
  /// When its last push got its outcome.
  private(set) var idleSinceMilliseconds: UInt64

  init(nowMilliseconds: UInt64) {
    startedMilliseconds = nowMilliseconds
    heardMilliseconds = nowMilliseconds
    idleSinceMilliseconds = nowMilliseconds
  }

  /// Whether the service's SETTINGS came.
  var isReady: Bool { http2.isReady }
  /// Whether pushes may be put on it, now or later.
  var takesPushes: Bool { !isRetired && !http2.isClosing }
  /// What the service's last GOAWAY said.
  var goAway: HTTP2GoAway? { http2.goAway }
  /// What the service's clock said at its first answer, in seconds since 1970.
  var serverSeconds: Int64? { http2.serverSeconds }

  /// Requests that the service takes at a time.
  var streamLimit: Int { http2.streamLimit }
  /// Bytes of bodies that the service has room for.
  var windowBytes: Int { http2.windowBytes }

  // MARK: Pushes

  /// What keeps a body of this many bytes from being sent at once; nil: nothing.
  func hindrance(bodyBytes: Int) -> Hindrance? {
    guard takesPushes, http2.isReady else { return .notReady }
    if pingedMilliseconds != nil { return .silence }
    if http2.availableStreams == 0 { return .streams }
    // A body that no window takes whole goes out in parts, when nothing else waits for the window.
    return http2.openStreamCount == 0 || http2.windowBytes >= bodyBytes ? nil : .window
  }

  /// What all requests say besides: the service's name, and the value of `authorization`, which may be empty.
  func share(authority: [UInt8], authorization: [UInt8]) {
    http2.share(authority: authority.span, authorization: authorization)
  }

  /// Puts a push on a stream. False: it is for another connection.
  func put(_ send: PendingSend, nowMilliseconds: UInt64) -> Bool {
    let tag = freeTags.popLast() ?? sends.count
    guard let streamID = http2.submit(send.push.fields, body: send.push.payload, tag: tag) else {
      if tag < sends.count { freeTags.append(tag) }
      return false
    }
    if tag == sends.count { sends.append(send) } else { sends[tag] = send }
    openCount += 1
    send.attempts += 1
    send.sentMilliseconds = nowMilliseconds
    if firstUnwritten == nil { firstUnwritten = streamID }
    return true
  }

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
      return .outcome(SendOutcome(answer: response, to: send.push.id))
    case .refused:
      // A service that lowers its limit refuses what was on its way: that says nothing about the connection.
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
      let isUnwritten = firstUnwritten.map { response.streamID >= $0 } ?? false
      if isUnwritten || !response.wasSentWhole { return .sendAgain(lossText) }
      return .outcome(
        .unknown(UnknownCause(.connectionLost, lossText), retryMayDuplicate: true))
    }
  }

  /// The connection is gone; ``settle(nowMilliseconds:_:)`` tells what that means for each push on it.
  func connectionLost(_ text: String) {
    lossText = text
    isRetired = true
    http2.connectionLost()
  }

  // MARK: Time and the end

  /// Something came from the service.
  func heard(nowMilliseconds: UInt64) {
    heardMilliseconds = nowMilliseconds
    pingedMilliseconds = nil
  }

  /// Asks for a sign of life after a silence, and gives the connection up when none comes, or no SETTINGS ever did.
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
    if deathText != nil { isRetired = true }
  }

  /// Gives up on the pushes whose time is over.
  ///
  /// A connection on which a request stayed unanswered for its whole time gets no more of them.
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

  /// Ends pushes for their callers, and counts them. Their streams stay until the answers come, so that a caller who
  /// cancels does not cost the others their connection.
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

  /// Takes it out of use; what is on it goes on.
  func retire() { isRetired = true }

  /// Whether the connection has no more use.
  var isDone: Bool { !takesPushes && openCount == 0 }

  /// Ends the connection from this side: GOAWAY.
  func goodbye() {
    isRetired = true
    http2.close()
  }
}
