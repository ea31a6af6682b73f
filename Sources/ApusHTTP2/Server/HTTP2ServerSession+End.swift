package import ApusModel

extension SessionFailure {
  fileprivate var limit: HTTP2ServerSession.ExceededLimit? {
    switch self {
    case .flood, .streams, .connection(.enhanceYourCalm): .flood
    case .time: .time
    case .connection: nil
    }
  }

  fileprivate var debugData: [UInt8] {
    switch self {
    case .flood, .connection(.enhanceYourCalm): Reason.tooManyRequests.json
    // As APNs was seen to send, with error code 7.
    case .streams: StaticString("Maximum active streams violated for this endpoint.").bytes
    case .time: Reason.idleTimeout.json
    case .connection: []
    }
  }
}

extension HTTP2ServerSession {
  /// A limit for which the session ends the connection.
  package enum ExceededLimit: Sendable, Hashable {
    /// The peer sent too many frames that advance no request, or opened streams faster than they can be refused.
    case flood
    /// The peer did not send or receive in time.
    case time
  }

  package var hasFailed: Bool { end.hasFailed }

  /// The limit for which it has failed; nil also if the peer broke the protocol.
  package var exceededLimit: ExceededLimit? { end.exceededLimit }

  /// Whether to close the connection: nothing more will be read or written.
  package var isFinished: Bool {
    !wantsWrite && (end.hasFailed || end.isFinal && openStreamCount == 0)
  }

  /// Announces that the connection will end: GOAWAY with the stream id 2^31-1, and a PING whose answer shows that the
  /// client has read it (section 6.8). Requests are still accepted.
  package func announceShutdown() {
    guard end.announce() else { return }
    unsafe output.appendGoAway(.noError, last: .max, debugData: [])
    let opaque = Self.announcementPing
    unsafe output.append(FrameType.ping, payload: opaque.span)
  }

  /// Whether the client has read the announcement.
  package var isAnnouncementSeen: Bool { end.isAnnouncementSeen }

  private static let announcementPing = Array("shutdown".utf8)

  func pingAnswered(_ payload: Span<UInt8>) {
    if end.isAnnounced, payload.copied() == Self.announcementPing { end.announcementWasSeen() }
  }

  /// Ends the connection: GOAWAY with the id of the last stream that is or was answered, and the reason as JSON.
  ///
  /// Open streams must still be answered; new ones are refused. Without a reason there is no debug data.
  package func goAway(reason: Reason?, code: HTTP2ErrorCode = .noError) {
    guard end.finish() else { return }
    unsafe output.appendGoAway(code, last: streams.lastStreamID, debugData: reason?.json ?? [])
  }

  /// Ends the connection after an error.
  @discardableResult
  func fail(_ failure: SessionFailure) -> HTTP2SessionResult {
    guard end.fail(failure.limit) else { return .failed }
    unsafe output.appendGoAway(
      failure.code, last: streams.lastStreamID, debugData: failure.debugData)
    return .failed
  }

  // MARK: Time

  /// When ``tick(nowMilliseconds:)`` will have something to do at the earliest; nil if nothing is timed.
  package var deadlineMilliseconds: UInt64? {
    let deadline = unsafe clock.deadline
    return deadline == .max ? nil : deadline
  }

  /// Checks timeouts: call it at or after `deadlineMilliseconds`.
  ///
  /// Requests that take too long to arrive are returned by ``nextTimedOutRequest()``. A frame or preface that takes
  /// too long, or a response blocked by the peer's window for `Limits.writeStallSeconds`, ends the connection.
  package func tick(nowMilliseconds: UInt64) -> HTTP2SessionResult {
    guard !hasFailed else { return .failed }
    guard unsafe clock.takeDeadline(atMilliseconds: nowMilliseconds) else { return .ok }
    if unsafe clock.isFrameOverdue() { return fail(.time) }
    for request in unsafe streams.requests {
      if request.state.contains(.answered) {
        if isStalled(request) { return fail(.time) }
      } else if !request.state.contains(.complete) {
        let due = request.startedMilliseconds + SessionClock.requestMilliseconds
        if nowMilliseconds >= due {
          request.state.insert(.complete)
          timedOut.push(request)
        } else {
          unsafe clock.arm(due)
        }
      }
    }
    return .ok
  }

  private func isStalled(_ request: HTTP2Request) -> Bool {
    let now = unsafe clock.nowMilliseconds
    let due = request.answeredMilliseconds + SessionClock.stallMilliseconds
    if now < due {
      unsafe clock.arm(due)
      return false
    }
    // Pending output means that the socket is full, which the driver watches.
    if wantsWrite {
      unsafe clock.arm(now + 1000)
      return false
    }
    return true
  }
}
