import ApusModel
import CNGHTTP2

/// The server's end of one HTTP/2 connection (RFC 9113): bytes in, requests out, answers in, bytes out.
///
/// It does no I/O and has no clock. A driver gives it what the peer sent (`receive`), takes requests (`nextRequest`),
/// answers them (`respond`), and writes what it wants to send (`pendingOutput`) until the socket is full; now and then,
/// at the latest at `deadlineMilliseconds`, it says what time it is (`tick`). It closes the connection when
/// `isFinished`. Every end that the session decides on is announced by a GOAWAY.
///
/// It belongs to one thread, and nghttp2 calls back only from within `receive` and `pendingOutput`. Properties that a
/// request passes through are marked `@exclusivity(unchecked)`: each use is a single operation that runs nothing of
/// ours in between, and the checks at run time were a tenth of what a request costs.
@safe package final class HTTP2ServerSession {
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
  let pool: HTTP2RequestPool
  let handle: OpaquePointer
  /// What the callbacks get at.
  private let target: UnsafeMutablePointer<CallbackTarget>

  // What the peer may do.
  var watch: FrameWatch
  var streamLimit: Int
  var isSettingsAcknowledged = false
  let startedMilliseconds: UInt64

  // Streams.
  @exclusivity(unchecked) var openRequests: [HTTP2Request] = []
  /// Streams reset by us, whose RST_STREAM is still queued.
  var pendingResetCount = 0
  /// Requests answered before their end, to be cut off behind the answer (RFC 9113, section 8.1).
  var earlyAnswerCount = 0
  /// The request whose frames come now. Unchecked, as it is read for every field: each use is one load or store, which
  /// nothing can come between.
  @exclusivity(unchecked) private(set) var current: HTTP2Request?
  /// Bytes of the header block that comes now, if it is not a request's.
  var trailerBytes = 0
  @exclusivity(unchecked) var completed = RequestQueue()
  var timedOut = RequestQueue()
  /// All fields of the requests that are coming, by stream; empty unless the configuration says so.
  var keptFields: [Int32: [HTTP2Field]] = [:]

  // The end.
  package internal(set) var hasFailed = false
  /// What went wrong in a callback, where nothing can be sent.
  var pendingFailure: Failure?
  /// GOAWAY frames of ours that have not left yet; any other comes from nghttp2 and means a connection error.
  var ownGoAwayCount = 0
  var isGoAwayFinal = false
  var isAnnounced = false

  // Time.
  var nowMilliseconds: UInt64
  var deadline = UInt64.max
  var insideSinceMilliseconds: UInt64?
  var insideUnit = 0

  // Output.
  var isFirstSettingsSent = false
  /// The rest of a frame that did not fit into the caller's buffer. nghttp2 keeps it until the next `mem_send`.
  var carry = unsafe UnsafeBufferPointer<UInt8>(start: nil, count: 0)

  package init(configuration: Configuration, pool: HTTP2RequestPool, nowMilliseconds: UInt64) {
    self.configuration = configuration
    self.pool = pool
    self.nowMilliseconds = nowMilliseconds
    startedMilliseconds = nowMilliseconds
    streamLimit = configuration.initialStreamLimit
    watch = FrameWatch(nowMilliseconds: nowMilliseconds)
    var session: OpaquePointer?
    let table = configuration.keepsEveryField ? ServerCallbacks.keepingTable : ServerCallbacks.table
    let status = unsafe nghttp2_session_server_new2(
      &session, table.pointer, nil, ServerCallbacks.options.pointer)
    guard status == 0, let session = unsafe session else { fatalError("out of memory") }
    unsafe handle = session
    unsafe target = .allocate(capacity: 1)
    unsafe target.initialize(to: CallbackTarget(session: .passUnretained(self)))
    unsafe nghttp2_session_set_user_data(handle, target)
    // Without RFC 7540's priorities nghttp2 keeps no dependency tree. Not announced: see SettingsFrame.
    var settings = [
      nghttp2_settings_entry(
        settings_id: Int32(NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES.rawValue), value: 1)
    ]
    if configuration.initialWindowBytes != SettingsFrame.usualWindowBytes {
      settings.append(
        nghttp2_settings_entry(
          settings_id: Int32(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE.rawValue),
          value: UInt32(configuration.initialWindowBytes)))
    }
    unsafe nghttp2_submit_settings(handle, 0, settings, settings.count)
    unsafe nghttp2_session_set_local_window_size(
      handle, 0, 0, Int32(Limits.connectionWindowBytes))
    insideSinceMilliseconds = nowMilliseconds
    arm(nowMilliseconds + Self.requestMilliseconds)
  }

  deinit {
    unsafe nghttp2_session_del(handle)
    unsafe target.deallocate()
    // What the application still has comes back through the pool.
    while let request = unsafe completed.pop() { if request.slot < 0 { pool.give(request) } }
    while let request = timedOut.pop() { if request.slot < 0 { pool.give(request) } }
    for request in unsafe openRequests {
      request.slot = -1
      if !request.isInUse { pool.give(request) }
    }
  }

  /// The header fields and the body that come now are this request's; nil: no request's.
  func setCurrent(_ request: HTTP2Request?) {
    unsafe current = request
    unsafe target.pointee.record = request?.record
  }

  // MARK: Input

  /// Takes bytes from the peer.
  ///
  /// `.failed`: close after writing what is pending. An error that nghttp2 finds by itself shows only after its GOAWAY
  /// left: see ``isFinished``.
  package func receive(_ bytes: UnsafeRawBufferPointer, nowMilliseconds: UInt64)
    -> HTTP2SessionResult
  {
    guard !hasFailed else { return .failed }
    guard let base = bytes.baseAddress, unsafe !bytes.isEmpty else { return .ok }
    self.nowMilliseconds = nowMilliseconds
    let start = unsafe base.assumingMemoryBound(to: UInt8.self)
    let span = unsafe Span(_unsafeStart: start, count: bytes.count)
    if let flood = watch.advance(span, nowMilliseconds: nowMilliseconds) {
      return fail(.flood(flood))
    }
    let status = unsafe nghttp2_session_mem_recv(handle, start, bytes.count)
    if status < 0 { return fail(pendingFailure ?? Failure(libraryError: Int32(status))) }
    noteUnit()
    return .ok
  }

  /// The same from a span.
  package func receive(_ bytes: Span<UInt8>, nowMilliseconds: UInt64) -> HTTP2SessionResult {
    unsafe bytes.withUnsafeBufferPointer {
      unsafe receive(UnsafeRawBufferPointer($0), nowMilliseconds: nowMilliseconds)
    }
  }

  /// Notes since when the peer owes the rest of a frame.
  private func noteUnit() {
    guard watch.isInsideUnit else {
      insideSinceMilliseconds = nil
      return
    }
    if insideSinceMilliseconds == nil || insideUnit != watch.unit {
      insideSinceMilliseconds = nowMilliseconds
      insideUnit = watch.unit
      arm(nowMilliseconds + Self.requestMilliseconds)
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

  /// Streams whose answer was not sent to its end.
  package var openStreamCount: Int { unsafe openRequests.count }

  /// Allows the client more streams at once, and tells it so. Lower than now: ignored.
  package func raiseStreamLimit(to limit: Int) {
    guard limit > streamLimit else { return }
    streamLimit = limit
    unsafe nghttp2_submit_settings(handle, 0, nil, 0)
  }
}
