import ApusModel
import CNGHTTP2

// What nghttp2 reports.
extension HTTP2ClientSession {
  func response(_ streamID: Int32) -> HTTP2Response? {
    guard let pointer = unsafe nghttp2_session_get_stream_user_data(handle, streamID) else {
      return nil
    }
    return unsafe Unmanaged<HTTP2Response>.fromOpaque(pointer).takeUnretainedValue()
  }

  func didReceiveField(streamID: Int32, name: Span<UInt8>, value: Span<UInt8>) {
    guard let response = response(streamID) else { return }
    guard let listed = HeaderName(name) else { return readOther(name, value, response) }
    if listed == .status {
      // A second one belongs to the answer behind an interim one.
      response.prepareForAnswer()
      for index in value.indices {
        response.status = response.status &* 10 &+ UInt16(value[index] &- 0x30)
      }
    }
    // Fields beyond the room are dropped: an answer has four.
    _ = response.fields.add(listed, value: value)
  }

  /// Fields of HTTP itself.
  private func readOther(_ name: Span<UInt8>, _ value: Span<UInt8>, _ response: HTTP2Response) {
    if name.equals("retry-after") {
      response.retryAfterSeconds = HTTPDate.retryAfter(value, nowSeconds: serverSeconds)
    } else if serverSeconds == nil, name.equals("date") {
      // Once for each connection: it is only compared with a clock.
      serverSeconds = HTTPDate.seconds(value)
    }
  }

  func didReceiveBody(streamID: Int32, bytes: Span<UInt8>) {
    response(streamID)?.append(bytes)
  }

  func didReceiveFrame(streamID: Int32, endsStream: Bool) {
    guard endsStream, let response = response(streamID) else { return }
    settle(response)
    if response.requestOffset < response.request.count {
      // Answered without having read the request: the rest is of no use to anyone.
      unsafe nghttp2_submit_rst_stream(handle, 0, streamID, HTTP2ErrorCode.cancel.rawValue)
    }
  }

  func didClose(streamID: Int32, code: HTTP2ErrorCode) {
    guard let response = response(streamID) else { return }
    if code == .refusedStream {
      let isAbove = goAway.map { streamID > $0.lastStreamID } ?? false
      settle(response, failure: isAbove ? .goneAway : .refused)
    } else {
      settle(response, failure: .reset(code))
    }
    forget(response)
  }

  /// A GOAWAY of nghttp2's means that the server broke the protocol; one of ``close()`` has no error.
  func didSendGoAway() {
    if !isLeaving { hasFailed = true }
  }
}
