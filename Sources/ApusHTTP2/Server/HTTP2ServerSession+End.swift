package import ApusModel

extension HTTP2ServerSession {
  /// Why a connection ends with an error.
  enum Failure: Error, Sendable, Hashable {
    case flood(Flood)
    /// More streams than can be refused individually.
    case streams
    /// The peer did not send or receive in time.
    case time
    /// A connection error of RFC 9113, section 5.4.1.
    case connection(HTTP2ErrorCode)

    var code: HTTP2ErrorCode {
      switch self {
      case .flood: .enhanceYourCalm
      case .streams: .refusedStream
      case .time: .noError
      case .connection(let code): code
      }
    }

    var limit: ExceededLimit? {
      switch self {
      case .flood, .streams, .connection(.enhanceYourCalm): .flood
      case .time: .time
      case .connection: nil
      }
    }

    var debugData: [UInt8] {
      switch self {
      case .flood, .connection(.enhanceYourCalm): Reason.tooManyRequests.json
      // As APNs was seen to send, with error code 7.
      case .streams: StaticString("Maximum active streams violated for this endpoint.").bytes
      case .time: Reason.idleTimeout.json
      case .connection: []
      }
    }
  }

  /// A limit for which the session ends the connection.
  package enum ExceededLimit: Sendable, Hashable {
    /// The peer sent too many frames that advance no request, or opened streams faster than they can be refused.
    case flood
    /// The peer did not send or receive in time.
    case time
  }

  /// Whether to close the connection: nothing more will be read or written.
  package var isFinished: Bool {
    !wantsWrite && (hasFailed || isGoAwayFinal && openStreamCount == 0)
  }

  /// Announces that the connection will end: GOAWAY with the stream id 2^31-1, and a PING whose answer shows that the
  /// client has read it (section 6.8). Requests are still accepted.
  package func announceShutdown() {
    guard announcement == .none, !isGoAwayFinal, !hasFailed else { return }
    announcement = .sent
    sendGoAway(.noError, last: .max, debugData: [])
    let opaque = Self.announcementPing
    unsafe output.append(FrameType.ping, payload: opaque.span)
  }

  /// Whether the client has read the announcement.
  package var isAnnouncementSeen: Bool { announcement == .seen }

  enum Announcement {
    case none
    case sent
    case seen
  }

  private static let announcementPing = Array("shutdown".utf8)

  func pingAnswered(_ payload: Span<UInt8>) {
    let opaque = Self.announcementPing
    if announcement == .sent, payload.copied() == opaque { announcement = .seen }
  }

  /// Ends the connection: GOAWAY with the id of the last stream that is or was answered, and the reason as JSON.
  ///
  /// Open streams must still be answered; new ones are refused. Without a reason there is no debug data.
  package func goAway(reason: Reason?, code: HTTP2ErrorCode = .noError) {
    guard !isGoAwayFinal, !hasFailed else { return }
    isGoAwayFinal = true
    unsafe sendGoAway(code, last: lastStreamID, debugData: reason?.json ?? [])
  }

  /// Ends the connection after an error.
  @discardableResult
  func fail(_ failure: Failure) -> HTTP2SessionResult {
    guard !hasFailed else { return .failed }
    hasFailed = true
    exceededLimit = failure.limit
    unsafe sendGoAway(failure.code, last: lastStreamID, debugData: failure.debugData)
    return .failed
  }

  func sendGoAway(_ code: HTTP2ErrorCode, last: Int32, debugData: [UInt8]) {
    var payload: [UInt8] = []
    for number in [UInt32(last), code.rawValue] {
      for shift in [24, 16, 8, 0] as [UInt32] {
        payload.append(UInt8(truncatingIfNeeded: number >> shift))
      }
    }
    payload += debugData
    unsafe output.append(FrameType.goAway, payload: payload.span)
  }

  // MARK: Time

  static var requestMilliseconds: UInt64 { UInt64(Limits.requestSeconds) * 1000 }
  static var stallMilliseconds: UInt64 { UInt64(Limits.writeStallSeconds) * 1000 }

  /// When ``tick(nowMilliseconds:)`` will have something to do at the earliest; nil if nothing is timed.
  package var deadlineMilliseconds: UInt64? { unsafe deadline == .max ? nil : deadline }

  func arm(_ due: UInt64) {
    if unsafe due < deadline { unsafe deadline = due }
  }

  /// Checks timeouts: call it at or after `deadlineMilliseconds`.
  ///
  /// Requests that take too long to arrive are returned by ``nextTimedOutRequest()``. A frame or preface that takes
  /// too long, or a response blocked by the peer's window for `Limits.writeStallSeconds`, ends the connection.
  package func tick(nowMilliseconds: UInt64) -> HTTP2SessionResult {
    guard !hasFailed else { return .failed }
    unsafe self.nowMilliseconds = max(nowMilliseconds, self.nowMilliseconds)
    guard unsafe nowMilliseconds >= deadline else { return .ok }
    unsafe deadline = .max
    if let since = insideSinceMilliseconds {
      let due = since + Self.requestMilliseconds
      if nowMilliseconds >= due { return fail(.time) }
      arm(due)
    }
    for request in unsafe openRequests {
      if request.state.contains(.answered) {
        if isStalled(request) { return fail(.time) }
      } else if !request.state.contains(.complete) {
        let due = request.startedMilliseconds + Self.requestMilliseconds
        if nowMilliseconds >= due {
          request.state.insert(.complete)
          timedOut.push(request)
        } else {
          arm(due)
        }
      }
    }
    return .ok
  }

  private func isStalled(_ request: HTTP2Request) -> Bool {
    let due = request.answeredMilliseconds + Self.stallMilliseconds
    if unsafe nowMilliseconds < due {
      arm(due)
      return false
    }
    // Pending output means that the socket is full, which the driver watches.
    if wantsWrite {
      unsafe arm(nowMilliseconds + 1000)
      return false
    }
    return true
  }
}
