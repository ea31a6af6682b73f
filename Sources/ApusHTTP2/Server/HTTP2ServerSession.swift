import ApusModel

/// The server's end of one HTTP/2 connection (RFC 9113): bytes in, requests out, answers in, bytes out.
///
/// It does no I/O and has no clock. A driver gives it what the peer sent (`receive`), takes requests (`nextRequest`),
/// answers them (`respond`), and writes what it wants to send (`pendingOutput`) until the socket is full; now and then,
/// at the latest at `deadlineMilliseconds`, it says what time it is (`tick`). It closes the connection when
/// `isFinished`. Every end that the session decides on is announced by a GOAWAY.
///
/// It belongs to one thread. Properties that a request passes through are marked `@exclusivity(unchecked)`: each use is
/// a single operation that runs nothing of ours in between, and the checks at run time were a tenth of what a request
/// costs.
package final class HTTP2ServerSession {
  /// What the first SETTINGS frame announces.
  package struct Configuration: Sendable {
    package var initialStreamLimit: Int
    /// Bytes of a body that may come before the first WINDOW_UPDATE (RFC 9113, section 6.5.2).
    package var initialWindowBytes = SettingsFrame.usualWindowBytes
    /// Whether every header field is kept for ``takeFields(of:)``.
    package var keepsEveryField = false

    package init(initialStreamLimit: Int) { self.initialStreamLimit = initialStreamLimit }

    /// A provider that has yet to show a valid token.
    package static let untrusted = Configuration(
      initialStreamLimit: Limits.concurrentStreamsUntrusted)
    /// A provider with a certificate.
    package static let trusted = Configuration(initialStreamLimit: Limits.concurrentStreams)
  }

  let configuration: Configuration
  private(set) var pool: HTTP2RequestPool

  // What the peer may do.
  var watch: FrameWatch
  var streamLimit: Int
  /// Whether the client has shown a credential that is valid; its requests are counted apart until then.
  var isTrusted: Bool { streamLimit > Limits.concurrentStreamsUntrusted }
  var isSettingsAcknowledged = false
  /// SETTINGS frames of ours that the peer has not acknowledged.
  var unacknowledgedSettings = 0
  let startedMilliseconds: UInt64

  // What comes in.
  @exclusivity(unchecked) private var reader = FrameReader()
  let decoder: HeaderDecoder
  /// Whether the first frame, which is a SETTINGS frame, has come.
  var sawSettings = false
  /// The header block of which CONTINUATION frames are still to come.
  var openBlock: OpenBlock?
  /// Bytes of DATA frames on all streams since our last WINDOW_UPDATE.
  @exclusivity(unchecked) var unannouncedBytes = 0

  // Streams.
  @exclusivity(unchecked) var streams = StreamTable()
  @exclusivity(unchecked) var openRequests: [HTTP2Request] = []
  /// The last request whose header block came: most often its body is next.
  @exclusivity(unchecked) var current: HTTP2Request?
  /// The highest stream that the client opened.
  @exclusivity(unchecked) var lastStreamID: Int32 = 0
  /// What is known of streams that are closed.
  var closedStreams = ClosedStreams()
  /// Requests answered before their end, to be cut off behind the answer (RFC 9113, section 8.1).
  @exclusivity(unchecked) var completed = RequestQueue()
  var timedOut = RequestQueue()
  /// All fields of the requests that are coming, by stream; empty unless the configuration says so.
  var keptFields: [Int32: [HTTP2Field]] = [:]

  // What goes out.
  @exclusivity(unchecked) var output = FrameOutput()
  /// Answers whose end stands in the output, in its order.
  @exclusivity(unchecked) var leaving: [Leaving] = []
  /// Streams whose answers wait for the peer's window.
  var blocked: [Int32] = []
  var sendWindowBytes = SettingsFrame.usualWindowBytes
  /// What the peer's streams begin with.
  var peerWindowBytes = SettingsFrame.usualWindowBytes
  /// RST_STREAM frames and acknowledgements that stand in the output: at most as many as when it was last empty.
  var pendingResetCount = 0
  var pendingAcknowledgementCount = 0
  /// Whether the next header block has to say that the peer's smaller table was heard of.
  var mustAnnounceNoTable = false
  var hasAnnouncedNoTable = false

  // The end.
  package internal(set) var hasFailed = false
  var isGoAwayFinal = false
  var announcement = Announcement.none

  // Time.
  @exclusivity(unchecked) var nowMilliseconds: UInt64
  @exclusivity(unchecked) var deadline = UInt64.max
  var insideSinceMilliseconds: UInt64?
  var insideUnit = 0

  /// An answer that is not with the driver yet.
  struct Leaving {
    var streamID: Int32
    /// Of all bytes ever sent, those up to its end.
    var end: UInt64
  }

  package init(configuration: Configuration, pool: HTTP2RequestPool, nowMilliseconds: UInt64) {
    self.configuration = configuration
    self.pool = pool
    unsafe self.nowMilliseconds = nowMilliseconds
    startedMilliseconds = nowMilliseconds
    streamLimit = configuration.initialStreamLimit
    watch = FrameWatch(nowMilliseconds: nowMilliseconds)
    decoder = HeaderDecoder(texts: pool.texts)
    let window = configuration.initialWindowBytes
    unsafe output.append(
      frames: SettingsFrame.first(streamLimit: streamLimit, windowBytes: window))
    unacknowledgedSettings = 1
    unsafe output.append(
      FrameType.windowUpdate, streamID: 0,
      number: UInt32(Limits.connectionWindowBytes - SettingsFrame.usualWindowBytes))
    insideSinceMilliseconds = nowMilliseconds
    arm(nowMilliseconds + Self.requestMilliseconds)
  }

  deinit {
    // What the application still has comes back through the pool.
    while let request = unsafe completed.pop() { if request.slot < 0 { pool.give(request) } }
    while let request = timedOut.pop() { if request.slot < 0 { pool.give(request) } }
    for request in unsafe openRequests {
      request.slot = -1
      if !request.isInUse { pool.give(request) }
    }
  }

  // MARK: Input

  /// Takes bytes from the peer.
  ///
  /// `.failed`: close after writing what is pending, a GOAWAY that says why among it.
  package func receive(_ bytes: Span<UInt8>, nowMilliseconds: UInt64) -> HTTP2SessionResult {
    guard !hasFailed else { return .failed }
    guard !bytes.isEmpty else { return .ok }
    unsafe self.nowMilliseconds = nowMilliseconds
    if let flood = watch.advance(bytes, nowMilliseconds: nowMilliseconds) {
      return fail(.flood(flood))
    }
    do throws(Failure) {
      var offset = 0
      while let frame = try unsafe reader.next(bytes, at: &offset) {
        if let place = frame.place {
          try receive(frame.head, bytes.extracting(place))
        } else {
          let payload = unsafe reader.takeGathered()
          try receive(frame.head, payload.span)
        }
      }
    } catch {
      return fail(error)
    }
    noteUnit()
    return .ok
  }

  /// The same from memory that the caller lends.
  package func receive(_ bytes: UnsafeRawBufferPointer, nowMilliseconds: UInt64)
    -> HTTP2SessionResult
  {
    unsafe receive(Span<UInt8>(_unsafeBytes: bytes), nowMilliseconds: nowMilliseconds)
  }

  /// Notes since when the peer owes the rest of a frame.
  private func noteUnit() {
    guard watch.isInsideUnit else {
      insideSinceMilliseconds = nil
      return
    }
    if insideSinceMilliseconds == nil || insideUnit != watch.unit {
      unsafe insideSinceMilliseconds = nowMilliseconds
      insideUnit = watch.unit
      unsafe arm(nowMilliseconds + Self.requestMilliseconds)
    }
  }

  // MARK: Requests

  /// The next request that is wholly here, in the order in which they became so. Ones that the client took back in the
  /// meantime are left out.
  package func nextRequest() -> HTTP2Request? { unsafe next(from: &completed) }

  /// The next request that did not become whole within `Limits.requestSeconds`, to be answered 400 IdleTimeout; what
  /// still comes of it is cut off behind the answer.
  package func nextTimedOutRequest() -> HTTP2Request? { next(from: &timedOut) }

  private func next(from queue: inout RequestQueue) -> HTTP2Request? {
    while let request = queue.pop() {
      if request.slot >= 0 {
        request.state.insert(.withApplication)
        return request
      }
      pool.give(request)
    }
    return nil
  }

  /// Gives a request back. Its answer may still be on its way, or to come: `respond` needs the stream's number only.
  package func release(_ request: HTTP2Request) { pool.release(request) }

  // MARK: From one thread to another

  /// Takes a request back that the application has only looked at: it is the next one again.
  package func putBack(_ request: HTTP2Request) {
    request.state.remove(.withApplication)
    unsafe completed.pushFirst(request)
  }

  /// Takes the session's requests out of its pool, before another thread goes on with `move(to:)`. The application has
  /// none of them.
  package func leavePool() {
    unsafe dropClosed(&completed)
    dropClosed(&timedOut)
    for request in unsafe openRequests { pool.leave(request) }
  }

  private func dropClosed(_ queue: inout RequestQueue) {
    var kept = RequestQueue()
    while let request = queue.pop() {
      if request.slot >= 0 { kept.push(request) } else { pool.give(request) }
    }
    queue = kept
  }

  /// Goes on with the pool of the thread that has the session now.
  package func move(to pool: HTTP2RequestPool) {
    self.pool = pool
    decoder.texts = pool.texts
    for request in unsafe openRequests { pool.join(request) }
  }

  /// Streams whose answer was not sent to its end.
  package var openStreamCount: Int { unsafe openRequests.count }

  /// Allows a client that has become trusted more streams at once, and tells it so. Lower than now: ignored.
  package func raiseStreamLimit(to limit: Int) {
    guard limit > streamLimit else { return }
    streamLimit = limit
    for request in unsafe openRequests { pool.trust(request) }
    unacknowledgedSettings += 1
    unsafe output.append(frames: SettingsFrame.raise(streamLimit: limit))
  }
}
