package import ApusModel
import CNGHTTP2
import CShims

/// The client side of one HTTP/2 connection to a push service: requests in, responses out, bytes both ways.
///
/// It does no I/O and has no clock. nghttp2 manages the streams and checks what the server sends (RFC 9113, section
/// 8); ``HeaderEncoder`` encodes the header blocks of requests into the frames that nghttp2 makes.
@safe package final class HTTP2ClientSession {
  private static let nameCount = UInt8(HeaderName.allCases.count)

  let handle: OpaquePointer
  private let memory: OpaquePointer
  let encoder = HeaderEncoder()
  var openStreams: [HTTP2Response] = []
  private var settled: [HTTP2Response] = []
  private var settledHead = 0
  private var free: [HTTP2Response] = []
  /// The rest of the frame that is being output.
  var carry = unsafe UnsafeBufferPointer<UInt8>(start: nil, count: 0)

  /// Whether the server's first SETTINGS frame has arrived: before it, the number of streams allowed is unknown.
  package internal(set) var isReady = false
  package internal(set) var hasFailed = false
  /// The response whose header fields are arriving.
  var current: Unmanaged<HTTP2Response>?
  /// Whether the server's SETTINGS arrived after the last request was encoded.
  var isTableSizeNew = false
  /// Whether ``close()`` was called.
  var isLeaving = false
  /// Body bytes submitted but not yet sent.
  var unsentBodyBytes = 0
  /// The server's clock (its last `date` field) in seconds since 1970; nil if it never sent one.
  package internal(set) var serverSeconds: Int64?
  /// The server's last GOAWAY; nil if there was none.
  package internal(set) var goAway: HTTP2GoAway?
  /// Responses to ``ping()`` received.
  package internal(set) var pongCount = 0

  /// Starts with the preface and SETTINGS as pending output.
  package init() {
    guard let pool = unsafe apus_pool_new() else { fatalError("out of memory") }
    unsafe memory = pool
    var functions = unsafe nghttp2_mem(
      mem_user_data: UnsafeMutableRawPointer(pool), malloc: apus_pool_malloc,
      free: apus_pool_release, calloc: apus_pool_calloc, realloc: apus_pool_realloc)
    var session: OpaquePointer?
    let status = unsafe nghttp2_session_client_new3(
      &session, ClientCallbacks.table.pointer, nil, ClientCallbacks.options.pointer, &functions)
    guard status == 0, let session = unsafe session else { fatalError("out of memory") }
    unsafe handle = session
    unsafe nghttp2_session_set_user_data(handle, Unmanaged.passUnretained(self).toOpaque())
    var setting = nghttp2_settings_entry(
      settings_id: Int32(NGHTTP2_SETTINGS_ENABLE_PUSH.rawValue), value: 0)
    unsafe nghttp2_submit_settings(handle, 0, &setting, 1)
    unsafe nghttp2_session_set_local_window_size(
      handle, 0, 0, Int32(Limits.connectionWindowBytes))
  }

  deinit {
    unsafe nghttp2_session_del(handle)
    unsafe apus_pool_free(memory)
  }

  // MARK: Requests

  /// Requests that can be sent now.
  package var availableStreams: Int {
    guard isReady, !isClosing else { return 0 }
    return max(0, streamLimit - openStreams.count)
  }

  /// Requests that the server allows at a time, as last announced, up to `Limits.concurrentStreams`.
  package var streamLimit: Int {
    let announced = unsafe nghttp2_session_get_remote_settings(
      handle, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)
    return min(Int(announced), Limits.concurrentStreams)
  }

  /// Whether no more requests can ever be sent: the server is closing the connection, the connection failed, or all
  /// 2^30 streams are used.
  package var isClosing: Bool {
    unsafe hasFailed || isLeaving || goAway != nil
      || nghttp2_session_check_request_allowed(handle) == 0
  }

  /// Requests without an outcome.
  package var openStreamCount: Int { openStreams.count }

  /// Body bytes that fit into the server's connection window, beyond those already submitted. Negative while these
  /// wait for room.
  package var windowBytes: Int {
    unsafe Int(nghttp2_session_get_remote_window_size(handle)) - unsentBodyBytes
  }

  /// Sets what all further requests share: `POST`, `https` and these. An empty `authorization` is omitted, for
  /// connections with a certificate.
  package func share(authority: Span<UInt8>, authorization: [UInt8]) {
    encoder.share(authority: authority, authorization: authorization)
  }

  /// Sends a request; nil if ``availableStreams`` is 0.
  ///
  /// `fields` has `:method`, `:scheme`, `:path`, `:authority` and any further fields. Fields that identify one
  /// notification are not entered into the compression table.
  package func submit(fields: borrowing RequestFields, body: Span<UInt8>) -> Int32? {
    var list = HTTP2FieldList()
    for rawValue in 0..<Self.nameCount {
      guard let name = HeaderName(rawValue: rawValue), fields.contains(name) else { continue }
      list.add(name, value: fields.value(name))
    }
    return submit(list, body: body.copied(), tag: 0)
  }

  /// The same, with the fields from ``share(authority:authorization:)`` added to these, of which the path is the
  /// first. The outcome has the `tag`.
  package func submit(_ fields: HTTP2FieldList, body: [UInt8], tag: Int) -> Int32? {
    guard availableStreams > 0 else { return nil }
    let response = free.popLast() ?? HTTP2Response()
    response.prepare(fields, body: body, tag: tag)
    let user = unsafe Unmanaged.passUnretained(response).toOpaque()
    let block = Self.placeholder
    let streamID: Int32
    if body.isEmpty {
      streamID = unsafe nghttp2_submit_request(handle, nil, block.fields, block.count, nil, user)
    } else {
      var provider = unsafe nghttp2_data_provider()
      unsafe provider.read_callback = ClientCallbacks.readRequest
      streamID = unsafe nghttp2_submit_request(
        handle, nil, block.fields, block.count, &provider, user)
    }
    guard streamID > 0 else {
      free.append(response)
      return nil
    }
    response.streamID = streamID
    response.slot = openStreams.count
    openStreams.append(response)
    unsentBodyBytes += body.count
    return streamID
  }

  /// The fields passed to nghttp2 for each request: it encodes them in three bytes, without using its table.
  private static let placeholder = Placeholder()

  /// Sends a PING, to check that the server responds; see ``pongCount``.
  package func ping() { unsafe nghttp2_submit_ping(handle, 0, nil) }

  /// Closes the connection from this side: GOAWAY. Open requests are still answered.
  package func close() {
    isLeaving = true
    unsafe nghttp2_submit_goaway(handle, 0, 0, HTTP2ErrorCode.noError.rawValue, nil, 0)
  }

  // MARK: Outcomes

  /// The next outcome, in the order in which they became known. Return it with ``release(_:)``.
  package func nextResponse() -> HTTP2Response? {
    guard settledHead < settled.count else { return nil }
    let response = settled[settledHead]
    settledHead += 1
    if settledHead == settled.count {
      settled.removeAll(keepingCapacity: true)
      settledHead = 0
    }
    response.isQueued = false
    response.isWithApplication = true
    return response
  }

  package func release(_ response: HTTP2Response) {
    response.isWithApplication = false
    recycle(response)
  }

  func settle(_ response: HTTP2Response, failure: HTTP2StreamFailure? = nil) {
    guard !response.isSettled else { return }
    response.isSettled = true
    response.wasSentWhole = response.requestOffset == response.request.count
    response.failure = failure
    if failure != nil { response.status = 0 }
    response.isQueued = true
    settled.append(response)
  }

  func forget(_ response: HTTP2Response) {
    unsentBodyBytes -= response.request.count - response.requestOffset
    response.requestFields = HTTP2FieldList()
    response.request = []
    response.requestOffset = 0
    let last = openStreams.removeLast()
    if last !== response {
      openStreams[response.slot] = last
      last.slot = response.slot
    }
    response.slot = -1
    recycle(response)
  }

  private func recycle(_ response: HTTP2Response) {
    if !response.isInUse, free.count < Limits.concurrentStreams { free.append(response) }
  }

  /// The connection ended: requests without an outcome fail with `.connectionLost`.
  package func connectionLost() {
    hasFailed = true
    while let response = openStreams.last {
      settle(response, failure: .connectionLost)
      forget(response)
    }
  }

  // MARK: Bytes

  /// Processes bytes from the server. `.failed`: write pending output, close, and call ``connectionLost()``.
  package func receive(_ bytes: UnsafeRawBufferPointer) -> HTTP2SessionResult {
    guard !hasFailed else { return .failed }
    guard let base = bytes.baseAddress, unsafe !bytes.isEmpty else { return .ok }
    let start = unsafe base.assumingMemoryBound(to: UInt8.self)
    let status = unsafe nghttp2_session_mem_recv(handle, start, bytes.count)
    if status < 0 {
      hasFailed = true
      unsafe nghttp2_submit_goaway(
        handle, 0, 0, HTTP2ErrorCode.internalError.rawValue, nil, 0)
    }
    return hasFailed ? .failed : .ok
  }

  /// The same from a span.
  package func receive(_ bytes: Span<UInt8>) -> HTTP2SessionResult {
    unsafe bytes.withUnsafeBufferPointer { unsafe receive(UnsafeRawBufferPointer($0)) }
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
