import ApusModel
import CNGHTTP2

/// The callbacks through which nghttp2 calls ``HTTP2ClientSession``.
enum ClientCallbacks {
  static let options = unsafe SharedSetup.options { options in
    // The session itself keeps to the server's limit: nghttp2 would queue requests above it.
    unsafe nghttp2_option_set_peer_max_concurrent_streams(
      options, UInt32(Limits.concurrentStreams))
    unsafe nghttp2_option_set_max_continuations(options, 16 * Limits.continuationFrames)
  }

  static let table = unsafe SharedSetup.callbacks { callbacks in
    unsafe configureInput(callbacks)
    unsafe configureStreams(callbacks)
  }

  private static func configureInput(_ callbacks: OpaquePointer) {
    unsafe nghttp2_session_callbacks_set_on_header_callback(callbacks) {
      _, _, name, nameCount, value, valueCount, _, user in
      guard let name = unsafe name, let value = unsafe value,
        let field = unsafe AnswerField(Span(_unsafeStart: name, count: nameCount))
      else { return 0 }
      unsafe clientSession(user) {
        unsafe $0.didReceive(field, Span(_unsafeStart: value, count: valueCount))
      }
      return 0
    }
    unsafe nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks) { _, frame, user in
      guard let frame = unsafe frame else { return 0 }
      let streamID = unsafe frameHeader(frame).stream_id
      unsafe clientSession(user) { $0.didBeginHeaders(streamID: streamID) }
      return 0
    }
    unsafe nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks) {
      _, _, streamID, bytes, count, user in
      guard let bytes = unsafe bytes else { return 0 }
      unsafe clientSession(user) {
        unsafe $0.didReceiveBody(
          streamID: streamID, bytes: Span(_unsafeStart: bytes, count: count))
      }
      return 0
    }
    unsafe nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks) { _, frame, user in
      guard let frame = unsafe frame else { return 0 }
      unsafe clientSession(user) { unsafe ClientCallbacks.didReceive(frame, $0) }
      return 0
    }
  }

  private static func didReceive(
    _ frame: UnsafePointer<nghttp2_frame>, _ session: HTTP2ClientSession
  ) {
    let header = unsafe frameHeader(frame)
    switch UInt32(header.type) {
    case NGHTTP2_HEADERS.rawValue, NGHTTP2_DATA.rawValue:
      session.didReceiveFrame(
        streamID: header.stream_id, endsStream: header.flags & FrameFlag.endStream != 0)
    case NGHTTP2_SETTINGS.rawValue:
      if header.flags & FrameFlag.acknowledge == 0 {
        session.isReady = true
        session.isTableSizeNew = true
      }
    case NGHTTP2_PING.rawValue:
      if header.flags & 1 != 0 { session.pongCount += 1 }
    case NGHTTP2_GOAWAY.rawValue:
      let goAway = unsafe UnsafeRawPointer(frame)
        .assumingMemoryBound(to: nghttp2_goaway.self).pointee
      let debugData = unsafe UnsafeBufferPointer(
        start: goAway.opaque_data, count: goAway.opaque_data_len)
      session.goAway = unsafe HTTP2GoAway(
        lastStreamID: goAway.last_stream_id, code: HTTP2ErrorCode(rawValue: goAway.error_code),
        debugData: Array(debugData.prefix(Limits.goAwayDebugBytes)))
    default:
      break
    }
  }

  private static func configureStreams(_ callbacks: OpaquePointer) {
    unsafe nghttp2_session_callbacks_set_on_stream_close_callback(callbacks) {
      _, streamID, code, user in
      unsafe clientSession(user) {
        $0.didClose(streamID: streamID, code: HTTP2ErrorCode(rawValue: code))
      }
      return 0
    }
    unsafe nghttp2_session_callbacks_set_on_frame_send_callback(callbacks) { _, frame, user in
      guard let frame = unsafe frame else { return 0 }
      if unsafe UInt32(frameHeader(frame).type) == NGHTTP2_GOAWAY.rawValue {
        unsafe clientSession(user) { $0.didSendGoAway() }
      }
      return 0
    }
  }

  /// Copies the rest of a request's body into a DATA frame.
  static let readRequest: nghttp2_data_source_read_callback = {
    _, streamID, buffer, capacity, flags, _, user in
    guard let buffer = unsafe buffer, let flags = unsafe flags else {
      return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue)
    }
    return unsafe clientSession(user) {
      unsafe $0.readBody(streamID, buffer, capacity: capacity, flags: flags)
    }
  }
}

/// Lends the session to `body`: reference counting would cost as much as most callbacks themselves.
@inline(__always)
private func clientSession<Result>(
  _ user: UnsafeMutableRawPointer?, _ body: (HTTP2ClientSession) -> Result
) -> Result {
  guard let user = unsafe user else { preconditionFailure("callback of a session that is gone") }
  return unsafe Unmanaged<HTTP2ClientSession>.fromOpaque(user)._withUnsafeGuaranteedRef(body)
}

/// The header of a frame: the first member of each variant of the union.
///
/// Read through a raw pointer, because Swift would copy the whole union to access a member.
func frameHeader(_ frame: UnsafePointer<nghttp2_frame>) -> nghttp2_frame_hd {
  unsafe UnsafeRawPointer(frame).assumingMemoryBound(to: nghttp2_frame_hd.self).pointee
}
