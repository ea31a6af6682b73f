import ApusModel
import CNGHTTP2

// Callbacks from nghttp2.
extension HTTP2ClientSession {
  /// The response of a stream; one of ``openStreams``, which keep it alive.
  func response(_ streamID: Int32) -> Unmanaged<HTTP2Response>? {
    guard let pointer = unsafe nghttp2_session_get_stream_user_data(handle, streamID) else {
      return nil
    }
    return unsafe Unmanaged.fromOpaque(pointer)
  }

  /// The response is one of ``openStreams`` until its stream is closed, which is after its header fields.
  func didBeginHeaders(streamID: Int32) { unsafe current = response(streamID) }

  /// Copies body bytes for a DATA frame.
  func readBody(
    _ streamID: Int32, _ buffer: UnsafeMutablePointer<UInt8>, capacity: Int,
    flags: UnsafeMutablePointer<UInt32>
  ) -> Int {
    guard let response = unsafe response(streamID) else {
      return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue)
    }
    let count = unsafe response._withUnsafeGuaranteedRef {
      unsafe $0.readBody(buffer, capacity: capacity, flags: flags)
    }
    unsentBodyBytes -= count
    return count
  }

  func didReceive(_ field: AnswerField, _ value: Span<UInt8>) {
    if case .date = field {
      // Once per connection: it is only compared with a clock.
      if serverSeconds == nil { serverSeconds = HTTPDate.seconds(value) }
      return
    }
    let now = serverSeconds
    unsafe current?._withUnsafeGuaranteedRef { $0.didReceive(field, value, nowSeconds: now) }
  }

  func didReceiveBody(streamID: Int32, bytes: Span<UInt8>) {
    unsafe response(streamID)?._withUnsafeGuaranteedRef { $0.append(bytes) }
  }

  func didReceiveFrame(streamID: Int32, endsStream: Bool) {
    guard endsStream, let response = unsafe response(streamID)?.takeUnretainedValue() else {
      return
    }
    settle(response)
    if response.requestOffset < response.request.count {
      // The server answered without reading the whole request: the rest is useless.
      unsafe nghttp2_submit_rst_stream(handle, 0, streamID, HTTP2ErrorCode.cancel.rawValue)
    }
  }

  func didClose(streamID: Int32, code: HTTP2ErrorCode) {
    guard let response = unsafe response(streamID)?.takeUnretainedValue() else { return }
    if code == .refusedStream {
      let isAbove = goAway.map { streamID > $0.lastStreamID } ?? false
      settle(response, failure: isAbove ? .goneAway : .refused)
    } else {
      settle(response, failure: .reset(code))
    }
    unsafe current = nil
    forget(response)
  }

  /// A GOAWAY sent by nghttp2 means that the server violated the protocol; one sent by ``close()`` is no error.
  func didSendGoAway() {
    if !isLeaving { hasFailed = true }
  }
}

extension HTTP2Response {
  fileprivate func didReceive(
    _ field: AnswerField, _ value: Span<UInt8>, nowSeconds: Int64?
  ) {
    switch field {
    case .listed(.status):
      // A second `:status` belongs to the final response after an interim one.
      prepareForAnswer()
      for index in value.indices { status = status &* 10 &+ UInt16(value[index] &- 0x30) }
    case .listed(let name):
      // Fields that do not fit are dropped: a response has four.
      _ = fields.add(name, value: value)
    case .retryAfter:
      retryAfterSeconds = HTTPDate.retryAfter(value, nowSeconds: nowSeconds)
    case .date: break
    }
  }

  fileprivate func readBody(
    _ buffer: UnsafeMutablePointer<UInt8>, capacity: Int, flags: UnsafeMutablePointer<UInt32>
  ) -> Int {
    let offset = requestOffset
    let count = unsafe request.withUnsafeBufferPointer { request in
      unsafe fillData(
        buffer, capacity: capacity,
        from: Span(_unsafeElements: request).extracting(offset...), flags: flags)
    }
    requestOffset = offset + count
    return count
  }
}

/// The response fields that a client reads.
enum AnswerField {
  case listed(HeaderName)
  // Fields of HTTP.
  case retryAfter, date

  init?(_ name: Span<UInt8>) {
    if let listed = HeaderName(name) {
      self = .listed(listed)
    } else if name.equals("date") {
      self = .date
    } else if name.equals("retry-after") {
      self = .retryAfter
    } else {
      return nil
    }
  }
}
