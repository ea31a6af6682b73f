/// Why a session ends its connection with an error.
enum SessionFailure: Error, Sendable, Hashable {
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
}

/// The kinds of frames that a peer can send too many of.
enum Flood: Sendable, Hashable {
  /// CONTINUATION frames after one HEADERS.
  case continuations
  /// Requests cancelled by the client (RST_STREAM), or made so that the service must reset them.
  case resets
  /// Frames without progress of a request.
  case idleFrames
  /// A header block that expands to more than any header section may have: a few bytes that repeat long table entries.
  case headerBlocks
  /// Incomplete header blocks on all connections of the peer's address or team.
  case headerBytes
}

/// A connection error unless `isRight`.
func require(
  _ isRight: Bool, _ code: HTTP2ErrorCode = .protocolError
) throws(SessionFailure) {
  if !isRight { throw .connection(code) }
}
