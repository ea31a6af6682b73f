package import ApusModel

/// One request on a connection, from its first header to the last byte of its answer. Comes from a pool.
///
/// The application has it from ``HTTP2ServerSession/nextRequest()`` until it gives it back with
/// ``HTTP2ServerSession/release(_:)``, before or after answering.
package final class HTTP2Request {
  /// The stream; odd and positive.
  package internal(set) var streamID: Int32 = 0
  /// The listed fields. Values are as they came, apart from NUL, CR and LF, which no value can have.
  package internal(set) var fields = RequestFields()
  /// The body; of one longer than `Limits.voipPayloadBytes` only that much and one byte more.
  package internal(set) var body = ByteStore(capacity: 1024)
  /// Bytes that the body really had (up to `Limits.discardedBodyBytes` more or less: longer ones are cut off).
  package internal(set) var bodyByteCount = 0
  /// Whether all fields together, listed or not, took more than `Limits.headerListBytes` (RFC 9113, section 6.5.2:
  /// name, value and 32 each). Some values are missing then; the answer is 431.
  package internal(set) var headerListTooLarge = false
  /// When the first header came.
  package internal(set) var startedMilliseconds: UInt64 = 0

  var shape = RequestShape()
  /// The body of the answer, until the peer's window took it.
  var answer = ByteStore(capacity: 128)
  var answerOffset = 0
  var answeredMilliseconds: UInt64 = 0

  /// Place among the session's open requests; -1 when the stream is closed.
  var slot = -1
  /// Next in the session's queue.
  var next: HTTP2Request?
  var isQueued = false
  var isWithApplication = false
  /// END_STREAM was seen, or the rest is not waited for.
  var isComplete = false
  /// END_STREAM was seen.
  var isEnded = false
  var isAnswered = false
  /// Answered before END_STREAM was seen.
  var isEarlyAnswer = false

  init() {}

  /// Whether the stream can still be answered. False after the client took it back.
  package var isOpen: Bool { slot >= 0 && !isAnswered }

  var isInUse: Bool { slot >= 0 || isQueued || isWithApplication }

  func prepare(streamID: Int32, nowMilliseconds: UInt64) {
    self.streamID = streamID
    startedMilliseconds = nowMilliseconds
    fields.removeAll()
    body.removeAll()
    bodyByteCount = 0
    headerListTooLarge = false
    shape = RequestShape()
    answer.removeAll()
    answerOffset = 0
    isComplete = false
    isEnded = false
    isAnswered = false
    isEarlyAnswer = false
  }

  /// Takes one field; false when the request must be reset as malformed.
  func add(name: Span<UInt8>, value: Span<UInt8>) -> Bool {
    let listed = HeaderName(name)
    guard shape.add(listed, name: name, value: value) else { return false }
    if shape.listBytes > Limits.headerListBytes {
      headerListTooLarge = true
    } else if let listed, !fields.add(listed, value: value) {
      headerListTooLarge = true
    }
    return true
  }

  func append(_ bytes: Span<UInt8>) {
    bodyByteCount += bytes.count
    let room = Limits.voipPayloadBytes + 1 - body.count
    guard room > 0 else { return }
    body.append(bytes.count <= room ? bytes : bytes.extracting(first: room))
  }
}

/// The requests of one worker's connections. Requests go round: a steady load allocates none.
package final class HTTP2RequestPool {
  private var free: [HTTP2Request] = []
  /// The header fields of the answer that is being made.
  let block = HeaderBlock()
  /// Requests that are out of the pool, on all connections together.
  package private(set) var openCount = 0

  package init() { free.reserveCapacity(Limits.pooledRequests) }

  /// A request to fill; nil when `Limits.openRequests` are out.
  func take() -> HTTP2Request? {
    guard openCount < Limits.openRequests else { return nil }
    openCount += 1
    return free.popLast() ?? HTTP2Request()
  }

  func give(_ request: HTTP2Request) {
    openCount -= 1
    if free.count < Limits.pooledRequests { free.append(request) }
  }

  /// Takes a request back from the application. Works also when its connection is gone.
  package func release(_ request: HTTP2Request) {
    guard request.isWithApplication else { return }
    request.isWithApplication = false
    if !request.isInUse { give(request) }
  }
}
