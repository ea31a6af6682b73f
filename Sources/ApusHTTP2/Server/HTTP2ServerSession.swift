import ApusModel

/// The server side of one HTTP/2 connection (RFC 9113): bytes in, requests out, responses in, bytes out.
///
/// It does no I/O and has no clock. A driver passes in the peer's bytes (`receive`), takes requests (`nextRequest`),
/// answers them (`respond`), and writes pending output (`pendingOutput`) until the socket is full; now and then, at
/// the latest at `deadlineMilliseconds`, it passes the time (`tick`). It closes the connection when `isFinished`.
/// Whenever the session ends the connection, it sends a GOAWAY first.
///
/// It belongs to one thread. Properties used for each request are marked `@exclusivity(unchecked)`: each access is a
/// single operation that calls none of our code, and the run-time checks were a tenth of a request's cost.
package final class HTTP2ServerSession {
  /// The content of the first SETTINGS frame.
  package struct Configuration: Sendable {
    package var initialStreamLimit: Int
    /// Body bytes that may be sent before the first WINDOW_UPDATE (RFC 9113, section 6.5.2).
    package var initialWindowBytes = SettingsFrame.usualWindowBytes
    /// Whether every header field is kept for ``takeFields(of:)``.
    package var keepsEveryField = false
    /// Whose requests share a bound with those of the session.
    package var party: RequestParty

    package init(initialStreamLimit: Int, party: RequestParty = .sole) {
      self.initialStreamLimit = initialStreamLimit
      self.party = party
    }

    /// A provider that has not presented a valid token yet.
    package static let untrusted = Configuration(
      initialStreamLimit: Limits.concurrentStreamsUntrusted,
      party: .untrusted(high: 0, low: 0, environment: .production))
    /// A provider with a certificate.
    package static let trusted = Configuration(initialStreamLimit: Limits.concurrentStreams)
  }

  let configuration: Configuration
  private(set) var account: RequestAccount

  // Input.
  var watch: FrameWatch
  @exclusivity(unchecked) private var reader = FrameReader(ofClient: true)
  var order = FrameOrder()
  let decoder: HeaderDecoder
  var settings: OwnSettings

  // Streams.
  @exclusivity(unchecked) var streams = OpenStreams()
  /// Requests for the application: complete ones, and those whose rest is not awaited (RFC 9113, section 8.1).
  @exclusivity(unchecked) var completed = RequestQueue()
  var timedOut = RequestQueue()
  /// All fields of incoming requests, by stream; empty unless the configuration keeps them.
  var keptFields: [Int32: [HTTP2Field]] = [:]

  // Output.
  @exclusivity(unchecked) var output = FrameOutput()
  @exclusivity(unchecked) var answerEnds = AnswerEnds()
  @exclusivity(unchecked) var windows = FlowWindows()
  var tableUpdate = TableUpdate.none

  var end = SessionEnd()
  @exclusivity(unchecked) var clock: SessionClock

  /// Whether a header block must acknowledge the peer's smaller table (RFC 7541, section 4.2).
  enum TableUpdate {
    case none
    case due
    case sent
  }

  package init(configuration: Configuration, pool: HTTP2RequestPool, nowMilliseconds: UInt64) {
    self.configuration = configuration
    account = RequestAccount(pool, of: configuration.party)
    watch = FrameWatch(nowMilliseconds: nowMilliseconds)
    decoder = HeaderDecoder(texts: pool.texts)
    settings = OwnSettings(
      streamLimit: configuration.initialStreamLimit, nowMilliseconds: nowMilliseconds)
    unsafe clock = SessionClock(nowMilliseconds: nowMilliseconds)
    unsafe output.append(
      frames: SettingsFrame.server(
        streamLimit: configuration.initialStreamLimit,
        windowBytes: configuration.initialWindowBytes))
    unsafe output.append(
      FrameType.windowUpdate, streamID: 0,
      number: UInt32(Limits.connectionWindowBytes - SettingsFrame.usualWindowBytes))
  }

  deinit {
    guard account.isOpen else { return }
    giveHeaderFrames()
    let pool = account.pool
    // Requests that the application still has are returned through the pool.
    while let request = unsafe completed.pop() { if request.slot < 0 { pool.give(request) } }
    while let request = timedOut.pop() { if request.slot < 0 { pool.give(request) } }
    for request in unsafe streams.requests {
      request.slot = -1
      if !request.isInUse { pool.give(request) }
    }
    account.close()
  }

  // MARK: Input

  /// Processes bytes from the peer.
  ///
  /// `.failed`: close after writing pending output, which includes a GOAWAY with the reason.
  package func receive(_ bytes: Span<UInt8>, nowMilliseconds: UInt64) -> HTTP2SessionResult {
    guard !hasFailed else { return .failed }
    guard !bytes.isEmpty else { return .ok }
    unsafe clock.set(nowMilliseconds)
    if let flood = watch.advance(bytes, nowMilliseconds: nowMilliseconds) {
      return fail(.flood(flood))
    }
    do throws(SessionFailure) {
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
    unsafe clock.set(watch)
    return .ok
  }

  /// The same from borrowed memory.
  package func receive(_ bytes: UnsafeRawBufferPointer, nowMilliseconds: UInt64)
    -> HTTP2SessionResult
  {
    unsafe receive(Span<UInt8>(_unsafeBytes: bytes), nowMilliseconds: nowMilliseconds)
  }

  // MARK: Requests

  /// The next complete request, in the order of completion. Requests cancelled meanwhile are skipped.
  package func nextRequest() -> HTTP2Request? { unsafe next(from: &completed) }

  /// The next request that was not complete within `Limits.requestSeconds`, to be answered 400 IdleTimeout; the rest
  /// of it is cut off after the response.
  package func nextTimedOutRequest() -> HTTP2Request? { next(from: &timedOut) }

  private func next(from queue: inout RequestQueue) -> HTTP2Request? {
    while let request = queue.pop() {
      if request.slot >= 0 {
        request.state.insert(.withApplication)
        return request
      }
      account.pool.give(request)
    }
    return nil
  }

  /// Returns a request. Its response may still be pending or to come: `respond` needs only the stream's number.
  package func release(_ request: HTTP2Request) { account.pool.release(request) }

  // MARK: From one thread to another

  /// Takes back a request that the application only inspected: it is the next one again.
  package func putBack(_ request: HTTP2Request) {
    request.state.remove(.withApplication)
    unsafe completed.pushFirst(request)
  }

  /// Removes the session's requests from its pool, before another thread continues with `move(to:as:)`. The application
  /// must have none of them.
  package func leavePool() {
    unsafe dropClosed(&completed)
    dropClosed(&timedOut)
    giveHeaderFrames()
    unsafe account.leave(with: streams.requests)
  }

  private func dropClosed(_ queue: inout RequestQueue) {
    var kept = RequestQueue()
    while let request = queue.pop() {
      if request.slot >= 0 { kept.push(request) } else { account.pool.give(request) }
    }
    queue = kept
  }

  /// Continues with the pool of the thread that now owns the session, on the account of `party`.
  package func move(to pool: HTTP2RequestPool, as party: RequestParty) {
    decoder.texts = pool.texts
    unsafe account.join(pool, of: party, with: streams.requests)
  }

  /// The client has shown whose it is: its requests count as those of `party` from now on.
  package func change(to party: RequestParty) {
    giveHeaderFrames()
    unsafe account.change(to: party, with: streams.requests)
  }

  /// Streams whose response was not sent completely.
  package var openStreamCount: Int { unsafe streams.count }

  /// Raises the stream limit of a client that became trusted, and announces it. A lower limit is ignored.
  package func raiseStreamLimit(to limit: Int) {
    guard settings.raiseStreamLimit(to: limit) else { return }
    unsafe output.append(frames: SettingsFrame.raise(streamLimit: limit))
  }
}
