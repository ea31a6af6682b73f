package import ApusModel

/// Why a request got no response.
package enum HTTP2StreamFailure: Error, Sendable, Hashable {
  /// The server reset the stream; it may have processed the request.
  case reset(HTTP2ErrorCode)
  /// The server reset the stream unprocessed (REFUSED_STREAM): safe to retry.
  case refused
  /// The stream is above the last one of the server's GOAWAY: safe to retry on another connection.
  case goneAway
  /// The connection ended first; the server may have processed the request.
  case connectionLost
}

/// The outcome of a client's request: the response, or the failure. From the session's pool.
package final class HTTP2Response {
  package internal(set) var streamID: Int32 = 0
  /// `:status`; 0 for a failure.
  package internal(set) var status: UInt16 = 0
  /// The known fields of the response.
  package internal(set) var fields = RequestFields(byteCapacity: Limits.answerFieldBytes)
  /// The body, truncated to `Limits.answerBytes`.
  package internal(set) var body = ByteStore(capacity: 128)
  /// The full length of the body in bytes.
  package internal(set) var bodyByteCount = 0
  package internal(set) var failure: HTTP2StreamFailure?
  /// The tag passed to ``HTTP2ClientSession/submit(_:body:tag:)``.
  package internal(set) var tag = 0
  /// Whether the end of the request was output. A server cannot process a request without its end.
  package internal(set) var wasSentWhole = false
  /// Seconds to wait before a retry (`retry-after`; RFC 9110, section 10.2.3); nil if absent.
  package internal(set) var retryAfterSeconds: Int?

  /// The header fields of the request, until they are encoded.
  var requestFields = HTTP2FieldList()
  /// The body of the request, until it was sent.
  var request: [UInt8] = []
  var requestOffset = 0

  /// Its index among the session's open streams; -1 once the stream is closed.
  var slot = -1
  var isQueued = false
  var isWithApplication = false
  /// Whether the outcome is known.
  var isSettled = false

  init() {}

  var isInUse: Bool { slot >= 0 || isQueued || isWithApplication }

  func prepare(_ requestFields: consuming HTTP2FieldList, body: consuming [UInt8], tag: Int) {
    streamID = 0
    self.requestFields = requestFields
    self.tag = tag
    wasSentWhole = false
    request = body
    requestOffset = 0
    failure = nil
    isSettled = false
    prepareForAnswer()
  }

  /// Forgets an interim response (1xx).
  func prepareForAnswer() {
    status = 0
    retryAfterSeconds = nil
    fields.removeAll()
    self.body.removeAll()
    bodyByteCount = 0
  }

  /// The text of a known field; nil if empty or absent.
  package func text(_ name: HeaderName) -> String? { fields.text(name) }

  func append(_ bytes: Span<UInt8>) {
    bodyByteCount += bytes.count
    let room = Limits.answerBytes - body.count
    guard room > 0 else { return }
    body.append(bytes.count <= room ? bytes : bytes.extracting(first: room))
  }
}

extension RequestFields {
  fileprivate func text(_ name: HeaderName) -> String? {
    let value = value(name)
    return value.isEmpty ? nil : value.text
  }
}
