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
@safe package final class HTTP2Response: SessionStream {
  /// Behind a pointer for the same reason as in ``HTTP2Request``.
  private let memory: UnsafeMutablePointer<ResponseRecord>

  init() {
    unsafe memory = .allocate(capacity: 1)
    unsafe memory.initialize(to: ResponseRecord())
  }

  deinit {
    unsafe memory.deinitialize(count: 1)
    unsafe memory.deallocate()
  }

  var record: ResponseRecord {
    unsafeAddress { unsafe UnsafePointer(memory) }
    unsafeMutableAddress { unsafe memory }
  }

  package var streamID: Int32 { record.streamID }
  /// `:status`; 0 for a failure.
  package var status: UInt16 { record.status }
  /// The known fields of the response.
  package var fields: RequestFields { _read { yield record.fields } }
  /// The body, truncated to the request's limit.
  package var body: ByteStore { _read { yield record.body } }
  package var failure: HTTP2StreamFailure? { record.failure }
  /// The tag passed to ``HTTP2ClientSession/submit(_:body:tag:)``.
  package var tag: Int { record.tag }
  /// Whether the end of the request was taken for writing, or precedes our reset in the output. A server cannot process
  /// a request without its end.
  package var wasSentWhole: Bool { record.wasSentWhole }
  /// Seconds to wait before a retry (`retry-after`; RFC 9110, section 10.2.3); nil if absent.
  package var retryAfterSeconds: Int? { record.retryAfterSeconds }
  /// The text of a known field; nil if empty or absent.
  package func text(_ name: HeaderName) -> String? { record.fields.text(name) }

  var slot: Int {
    get { record.slot }
    set { record.slot = newValue }
  }

  var sendWindowBytes: Int {
    get { record.sendWindowBytes }
    set { record.sendWindowBytes = newValue }
  }
}

/// A request on its way, and its outcome.
struct ResponseRecord: ~Copyable {
  // The outcome.
  var streamID: Int32 = 0
  var status: UInt16 = 0
  var fields = RequestFields(byteCapacity: Limits.answerFieldBytes)
  var body = ByteStore(capacity: 128)
  var failure: HTTP2StreamFailure?
  var tag = 0
  var wasSentWhole = false
  var retryAfterSeconds: Int?

  /// The body of the request while it waits for the server's windows; then empty.
  var request: [UInt8] = []
  var requestOffset = 0
  /// The positions of the request in the session's output: of its first byte, and after its last one, if that is in it.
  var startPosition: UInt64 = 0
  var endPosition = UInt64.max
  /// Bytes of the request's body that the server accepts before its next WINDOW_UPDATE; negative after the server
  /// reduced its windows (RFC 9113, section 6.9.2).
  var sendWindowBytes = 0

  var shape = ResponseShape()
  /// Interim responses (1xx).
  var interimCount = 0
  /// Bytes of the body that are kept.
  var answerLimit = Limits.answerBytes
  /// Bytes of the body, and of DATA frames.
  var bodyByteCount = 0
  var receivedBytes = 0
  /// Of the latter, those that the server may send again, by a WINDOW_UPDATE of the stream.
  var restoredBytes = 0
  var slot = -1

  /// Whether the server has begun to answer.
  var hasBegun: Bool { status != 0 || interimCount > 0 }

  mutating func prepare(
    streamID: Int32, tag: Int, startPosition: UInt64, sendWindowBytes: Int, answerLimit: Int
  ) {
    self.streamID = streamID
    self.tag = tag
    self.startPosition = startPosition
    endPosition = .max
    self.sendWindowBytes = sendWindowBytes
    requestOffset = 0
    failure = nil
    status = 0
    interimCount = 0
    bodyByteCount = 0
    self.answerLimit = answerLimit
    receivedBytes = 0
    restoredBytes = 0
    body.removeAll()
    prepareForAnswer()
  }

  /// Forgets the fields of an interim response.
  mutating func prepareForAnswer() {
    retryAfterSeconds = nil
    fields.removeAll()
    shape = ResponseShape()
  }

  mutating func append(_ bytes: Span<UInt8>) {
    bodyByteCount += bytes.count
    let room = answerLimit - body.count
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

/// The content of a GOAWAY frame (RFC 9113, section 6.8).
package struct HTTP2GoAway: Sendable, Hashable {
  /// The last stream that the server processed or may process.
  package var lastStreamID: Int32
  package var code: HTTP2ErrorCode
  /// The debug data, at most `Limits.goAwayDebugBytes`; push services send `{"reason":"…"}`.
  package var debugData: [UInt8]
}
