package import ApusModel

/// Why a request got no answer.
package enum HTTP2StreamFailure: Error, Sendable, Hashable {
  /// The server reset the stream; whether it acted on the request is not known.
  case reset(HTTP2ErrorCode)
  /// The server reset the stream unread (REFUSED_STREAM): safe to send again.
  case refused
  /// The stream lies above the last one of the server's GOAWAY: safe to send again, on another connection.
  case goneAway
  /// The connection ended first; whether the server acted on the request is not known.
  case connectionLost
}

/// The outcome of one request of a client: the answer, or the failure. Comes from the session's pool.
package final class HTTP2Response {
  package internal(set) var streamID: Int32 = 0
  /// `:status`; 0 with a failure.
  package internal(set) var status: UInt16 = 0
  /// The listed fields of the answer.
  package internal(set) var fields = RequestFields(byteCapacity: Limits.answerFieldBytes)
  /// The body; of one longer than `Limits.answerBytes` only that much.
  package internal(set) var body = ByteStore(capacity: 128)
  /// Bytes that the body really had.
  package internal(set) var bodyByteCount = 0
  package internal(set) var failure: HTTP2StreamFailure?
  /// What ``HTTP2ClientSession/submit(_:body:tag:)`` was given.
  package internal(set) var tag = 0
  /// Whether the end of the request was among the bytes to be written. A server cannot act on one without its end.
  package internal(set) var wasSentWhole = false
  /// Seconds to wait before the request is made again (`retry-after`; RFC 9110, section 10.2.3); nil: not said.
  package internal(set) var retryAfterSeconds: Int?

  /// The header fields of the request, until they are spelled.
  var requestFields = HTTP2FieldList()
  /// The body of the request, until the server's window took it.
  var request: [UInt8] = []
  var requestOffset = 0

  /// Place among the session's open streams; -1 when the stream is closed.
  var slot = -1
  var isQueued = false
  var isWithApplication = false
  /// The outcome is known.
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

  /// Forgets an interim answer (1xx).
  func prepareForAnswer() {
    status = 0
    retryAfterSeconds = nil
    fields.removeAll()
    self.body.removeAll()
    bodyByteCount = 0
  }

  /// The text of a listed field; nil where it is empty or did not come.
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
