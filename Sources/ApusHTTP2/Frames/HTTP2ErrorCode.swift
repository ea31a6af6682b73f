/// The code of an RST_STREAM or GOAWAY frame (RFC 9113, section 7). Not an enumeration: a peer may send any number.
package struct HTTP2ErrorCode: RawRepresentable, Sendable, Hashable {
  package var rawValue: UInt32

  package init(rawValue: UInt32) { self.rawValue = rawValue }

  package static let noError = HTTP2ErrorCode(rawValue: 0x0)
  package static let protocolError = HTTP2ErrorCode(rawValue: 0x1)
  package static let internalError = HTTP2ErrorCode(rawValue: 0x2)
  package static let flowControlError = HTTP2ErrorCode(rawValue: 0x3)
  package static let streamClosed = HTTP2ErrorCode(rawValue: 0x5)
  package static let frameSizeError = HTTP2ErrorCode(rawValue: 0x6)
  package static let refusedStream = HTTP2ErrorCode(rawValue: 0x7)
  package static let cancel = HTTP2ErrorCode(rawValue: 0x8)
  package static let compressionError = HTTP2ErrorCode(rawValue: 0x9)
  package static let enhanceYourCalm = HTTP2ErrorCode(rawValue: 0xb)
}

/// The effect of received bytes, or of the passing of time, on a session.
package enum HTTP2SessionResult: Sendable, Hashable {
  case ok
  /// The connection cannot continue. A GOAWAY with the reason is queued: write pending output, then close.
  case failed
}
