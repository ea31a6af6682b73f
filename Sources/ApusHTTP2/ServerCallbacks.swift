import ApusModel
import CNGHTTP2

/// nghttp2's way into ``HTTP2ServerSession``: one table of functions and one set of options for all connections.
enum ServerCallbacks {
  static let options = unsafe SharedSetup.options { unsafe configure($0) }

  static let table = unsafe SharedSetup.callbacks { callbacks in
    unsafe configureInput(callbacks)
    unsafe configureOutput(callbacks)
  }

  /// The same, and each field is kept as it came: for a service that shows its providers what they sent.
  static let keepingTable = unsafe SharedSetup.callbacks { callbacks in
    unsafe configureInput(callbacks)
    unsafe configureOutput(callbacks)
    unsafe configureKeeping(callbacks)
  }
}

extension ServerCallbacks {
  private static func configure(_ options: OpaquePointer) {
    // See RequestShape.
    unsafe nghttp2_option_set_no_http_messaging(options, 1)
    unsafe nghttp2_option_set_no_closed_streams(options, 1)
    unsafe nghttp2_option_set_max_outbound_ack(options, Limits.pendingAcknowledgements)
    // nghttp2 measures resets with the machine's clock and ends with INTERNAL_ERROR; FrameWatch does it instead.
    unsafe nghttp2_option_set_stream_reset_rate_limit(options, .max, .max)
    // Debian's patch counts each piece in which a CONTINUATION's frame header arrives, so that nine single bytes use
    // its bound of 8 up. FrameWatch counts frames; this is the same bound in pieces of one byte, for ignored blocks.
    unsafe nghttp2_option_set_max_continuations(options, 16 * Limits.continuationFrames)
  }

  private static func configureInput(_ callbacks: OpaquePointer) {
    unsafe nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks) { _, frame, user in
      guard let frame = unsafe frame else { return 0 }
      return unsafe serverSession(user).didBeginHeaders(
        streamID: frameHeader(frame).stream_id, isRequest: isRequest(frame))
    }
    unsafe nghttp2_session_callbacks_set_on_header_callback(callbacks) {
      _, frame, name, nameCount, value, valueCount, _, user in
      guard let frame = unsafe frame, let name = unsafe name, let value = unsafe value else {
        return 0
      }
      return unsafe ServerCallbacks.didReceiveField(
        callbackTarget(user), frame, name: Span(_unsafeStart: name, count: nameCount),
        value: Span(_unsafeStart: value, count: valueCount))
    }
    unsafe nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks) {
      _, _, streamID, bytes, count, user in
      guard let bytes = unsafe bytes else { return 0 }
      unsafe serverSession(user).didReceiveBody(
        streamID: streamID, bytes: Span(_unsafeStart: bytes, count: count))
      return 0
    }
    unsafe nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks) { _, frame, user in
      guard let frame = unsafe frame else { return 0 }
      return unsafe ServerCallbacks.didReceive(frame, serverSession(user))
    }
    unsafe nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks) {
      _, _, _, user in
      unsafe serverSession(user).chargeReset() ? 0 : HTTP2ServerSession.giveUp
    }
  }

  private static func configureKeeping(_ callbacks: OpaquePointer) {
    unsafe nghttp2_session_callbacks_set_on_header_callback(callbacks) {
      _, frame, name, nameCount, value, valueCount, _, user in
      guard let frame = unsafe frame, let name = unsafe name, let value = unsafe value else {
        return 0
      }
      let target = unsafe callbackTarget(user)
      let nameBytes = unsafe Span(_unsafeStart: name, count: nameCount)
      let valueBytes = unsafe Span(_unsafeStart: value, count: valueCount)
      if unsafe target.pointee.record != nil {
        unsafe session(target).keep(
          name: nameBytes, value: valueBytes, streamID: frameHeader(frame).stream_id)
      }
      return unsafe ServerCallbacks.didReceiveField(
        target, frame, name: nameBytes, value: valueBytes)
    }
  }

  /// One field of a block: a dozen calls a request, of which those that find nothing wrong touch the request alone.
  private static func didReceiveField(
    _ target: UnsafeMutablePointer<CallbackTarget>, _ frame: UnsafePointer<nghttp2_frame>,
    name: Span<UInt8>, value: Span<UInt8>
  ) -> Int32 {
    guard let record = unsafe target.pointee.record else {
      return unsafe session(target).didReceiveTrailer(
        streamID: frameHeader(frame).stream_id, name: name, value: value)
    }
    guard unsafe record.pointee.add(name: name, value: value) else {
      return unsafe session(target).resetCurrent(.protocolError)
    }
    // The sum also bounds what a few bytes that name long table entries can cost.
    guard unsafe record.pointee.shape.listBytes <= Limits.headerListResetBytes else {
      return unsafe session(target).resetCurrent(.enhanceYourCalm)
    }
    return HTTP2ServerSession.proceed
  }

  private static func didReceive(
    _ frame: UnsafePointer<nghttp2_frame>, _ session: HTTP2ServerSession
  ) -> Int32 {
    let header = unsafe frameHeader(frame)
    switch UInt32(header.type) {
    case NGHTTP2_DATA.rawValue:
      guard header.flags & endStream != 0 else { return 0 }
      return session.didEndBody(streamID: header.stream_id)
    case NGHTTP2_HEADERS.rawValue:
      return unsafe session.didReceiveHeaders(
        streamID: header.stream_id, isRequest: isRequest(frame),
        endsStream: header.flags & endStream != 0)
    case NGHTTP2_SETTINGS.rawValue:
      if header.flags & SettingsFrame.acknowledge != 0 { session.isSettingsAcknowledged = true }
    case NGHTTP2_GOAWAY.rawValue:
      session.didReceiveGoAway()
    default:
      break
    }
    return 0
  }

  private static func configureOutput(_ callbacks: OpaquePointer) {
    unsafe nghttp2_session_callbacks_set_on_stream_close_callback(callbacks) {
      _, streamID, code, user in
      unsafe serverSession(user).didClose(streamID: streamID, code: code)
      return 0
    }
    unsafe nghttp2_session_callbacks_set_on_frame_send_callback(callbacks) { _, frame, user in
      guard let frame = unsafe frame else { return 0 }
      let header = unsafe frameHeader(frame)
      switch UInt32(header.type) {
      case NGHTTP2_HEADERS.rawValue, NGHTTP2_DATA.rawValue:
        if header.flags & endStream != 0 {
          unsafe serverSession(user).didSendEnd(streamID: header.stream_id)
        }
      case NGHTTP2_GOAWAY.rawValue:
        unsafe serverSession(user).didSendGoAway()
      default:
        break
      }
      return 0
    }
  }

  /// Copies what is left of an answer's body into a DATA frame; the last of it carries END_STREAM.
  static let readAnswer: nghttp2_data_source_read_callback = {
    _, streamID, buffer, capacity, flags, _, user in
    guard let buffer = unsafe buffer, let flags = unsafe flags,
      let request = unsafe serverSession(user).request(streamID)
    else { return Int(HTTP2ServerSession.ignoreBlock) }
    let answer = request.answer
    let count = unsafe fillData(
      buffer, capacity: capacity, from: answer.span.extracting(request.answerOffset...),
      flags: flags)
    request.answerOffset += count
    return count
  }
}

/// What nghttp2 keeps for the callbacks. In memory of its own: to reach a class costs a retain and a release, and each
/// of its properties a check for exclusive access.
@safe struct CallbackTarget {
  let session: Unmanaged<HTTP2ServerSession>
  /// That of the session's current request.
  var record: UnsafeMutablePointer<RequestRecord>?

  init(session: Unmanaged<HTTP2ServerSession>) { unsafe self.session = session }
}

private func callbackTarget(
  _ user: UnsafeMutableRawPointer?
) -> UnsafeMutablePointer<CallbackTarget> {
  guard let user = unsafe user else { preconditionFailure("callback of a session that is gone") }
  return unsafe user.assumingMemoryBound(to: CallbackTarget.self)
}

private func session(_ target: UnsafeMutablePointer<CallbackTarget>) -> HTTP2ServerSession {
  unsafe target.pointee.session.takeUnretainedValue()
}

private func serverSession(_ user: UnsafeMutableRawPointer?) -> HTTP2ServerSession {
  unsafe session(callbackTarget(user))
}
