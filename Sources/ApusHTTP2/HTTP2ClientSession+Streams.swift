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

  /// The response is one of ``openStreams`` until its stream is closed, which is after its header fields.
  func didBeginHeaders(streamID: Int32) {
    unsafe current = nghttp2_session_get_stream_user_data(handle, streamID).map {
      unsafe Unmanaged.fromOpaque($0)
    }
  }

  func didReceive(_ field: AnswerField, _ value: Span<UInt8>) {
    if case .date = field {
      // Once for each connection: it is only compared with a clock.
      if serverSeconds == nil { serverSeconds = HTTPDate.seconds(value) }
      return
    }
    guard let response = unsafe current?.takeUnretainedValue() else { return }
    switch field {
    case .listed(.status):
      // A second one belongs to the answer behind an interim one.
      response.prepareForAnswer()
      for index in value.indices {
        response.status = response.status &* 10 &+ UInt16(value[index] &- 0x30)
      }
    case .listed(let name):
      // Fields beyond the room are dropped: an answer has four.
      _ = response.fields.add(name, value: value)
    case .retryAfter:
      response.retryAfterSeconds = HTTPDate.retryAfter(value, nowSeconds: serverSeconds)
    case .date: break
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
    unsafe current = nil
    forget(response)
  }

  /// A GOAWAY of nghttp2's means that the server broke the protocol; one of ``close()`` has no error.
  func didSendGoAway() {
    if !isLeaving { hasFailed = true }
  }
}

/// The fields of an answer that a client looks at.
enum AnswerField {
  case listed(HeaderName)
  // Of HTTP itself.
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
