package import ApusModel

/// The client side of one HTTP/2 connection to a push service (RFC 9113): requests in, responses out, bytes both ways.
///
/// It does no I/O and has no clock. A driver submits requests, writes pending output (`pendingOutput`), passes in the
/// server's bytes (`receive`), and takes outcomes (`nextResponse`). Every request has exactly one, at the latest after
/// ``connectionLost()``.
///
/// It belongs to one thread. Properties used for each request are marked `@exclusivity(unchecked)` for the same reason
/// as those of ``HTTP2ServerSession``.
package final class HTTP2ClientSession {
  // Input.
  @exclusivity(unchecked) private var reader = FrameReader(ofClient: false)
  @exclusivity(unchecked) var order = FrameOrder()
  let decoder = HeaderDecoder(texts: HeaderTexts())
  /// Whether the server has acknowledged our SETTINGS.
  var isAcknowledged = false
  /// Whether the server's first SETTINGS frame has arrived: before it, the number of streams allowed is unknown.
  package internal(set) var isReady = false
  /// Requests that the server allows at a time, as last announced, up to `Limits.concurrentStreams`.
  package internal(set) var streamLimit = Limits.concurrentStreams
  /// The server's clock (its first `date` field) in seconds since 1970; nil if it never sent one.
  package internal(set) var serverSeconds: Int64?
  /// The server's last GOAWAY; nil if there was none.
  package internal(set) var goAway: HTTP2GoAway?
  /// Responses to ``ping()`` received.
  package internal(set) var pongCount = 0

  // Streams.
  @exclusivity(unchecked) var streams = StreamList<HTTP2Response>()
  /// The next request's; beyond the numbers of streams once all are used.
  @exclusivity(unchecked) var nextStreamID = 1
  @exclusivity(unchecked) private var settled: [HTTP2Response] = []
  @exclusivity(unchecked) private var settledHead = 0
  @exclusivity(unchecked) private var free: [HTTP2Response] = []

  // Output.
  @exclusivity(unchecked) var encoder = HeaderEncoder()
  @exclusivity(unchecked) var output = FrameOutput(keepsMemory: true)
  @exclusivity(unchecked) var windows = FlowWindows()
  /// Body bytes that wait for the server's windows.
  @exclusivity(unchecked) private var waitingBodyBytes = 0

  package private(set) var hasFailed = false
  /// Whether ``close()`` was called.
  @exclusivity(unchecked) private var isLeaving = false

  /// Starts with the preface and SETTINGS as pending output.
  package init() {
    FrameReader.preface.withUTF8Buffer { unsafe output.append(frames: Array($0)) }
    unsafe output.append(frames: SettingsFrame.client)
    unsafe output.append(
      FrameType.windowUpdate, streamID: 0,
      number: UInt32(Limits.connectionWindowBytes - SettingsFrame.usualWindowBytes))
  }

  // MARK: Requests

  /// Requests that can be sent now.
  package var availableStreams: Int {
    guard isReady, !isClosing else { return 0 }
    return unsafe max(0, streamLimit - streams.count)
  }

  /// Whether no more requests can ever be sent: the server is closing the connection, the connection failed, or all
  /// 2^30 streams are used.
  package var isClosing: Bool {
    unsafe hasFailed || isLeaving || goAway != nil || nextStreamID > Int(Int32.max)
  }

  /// Requests without an outcome.
  package var openStreamCount: Int { unsafe streams.count }

  /// Body bytes that fit into the server's connection window, beyond those already submitted. Negative while these
  /// wait for room.
  package var windowBytes: Int { unsafe windows.sendBytes - waitingBodyBytes }

  /// Sets what all further requests share: `https`, these, and `POST` unless a request has a method of its own. An
  /// empty `authorization` is omitted, for connections with a certificate.
  package func share(authority: Span<UInt8>, authorization: [UInt8]) {
    unsafe encoder.share(authority: authority, authorization: authorization)
  }

  /// Sends a request; nil if ``availableStreams`` is 0.
  ///
  /// `fields` has `:method`, `:scheme`, `:path`, `:authority` and any further fields. Fields that identify one
  /// notification are not entered into the compression table.
  package func submit(fields: borrowing RequestFields, body: Span<UInt8>) -> Int32? {
    var list = HTTP2FieldList()
    for name in HeaderName.allCases where fields.contains(name) {
      list.add(name, value: fields.value(name))
    }
    return submit(list, body: body.copied(), tag: 0)
  }

  /// The same, with the fields from ``share(authority:authorization:)`` added to these, which start with the path or
  /// the method. The outcome has the `tag`.
  ///
  /// - Parameter answerLimit: The bytes of the response's body that are kept; the server may send about as many.
  package func submit(
    _ fields: borrowing HTTP2FieldList, body: [UInt8], tag: Int,
    answerLimit: Int = Limits.answerBytes
  ) -> Int32? {
    guard availableStreams > 0 else { return nil }
    let streamID = unsafe Int32(nextStreamID)
    unsafe nextStreamID += 2
    let response = unsafe free.popLast() ?? HTTP2Response()
    unsafe response.record.prepare(
      streamID: streamID, tag: tag, startPosition: output.position,
      sendWindowBytes: windows.initialBytes, answerLimit: answerLimit)
    unsafe streams.add(response)
    appendHeaders(fields, streamID, endsStream: body.isEmpty)
    if body.isEmpty {
      response.record.endPosition = unsafe output.position
    } else {
      unsafe waitingBodyBytes += body.count
      response.record.request = body
      if !sendBody(of: response) { unsafe windows.block(streamID) }
    }
    return streamID
  }

  private func appendHeaders(
    _ fields: borrowing HTTP2FieldList, _ streamID: Int32, endsStream: Bool
  ) {
    let room = unsafe encoder.room(fields)
    unsafe output.write(upTo: FrameHead.byteCount + room) { target in
      var writer = unsafe HeaderWriter(at: target + FrameHead.byteCount, room: room)
      unsafe encoder.encode(fields, into: &writer)
      precondition(writer.count <= FrameHead.payloadBytes, "header list too long")
      unsafe FrameOutput.putHead(
        target, writer.count, FrameType.headers,
        FrameFlag.endHeaders | (endsStream ? FrameFlag.endStream : 0), streamID)
      return FrameHead.byteCount + writer.count
    }
  }

  /// Writes as much of a request's body as the server's windows allow; returns whether that was the rest.
  func sendBody(of response: HTTP2Response) -> Bool {
    while response.record.requestOffset < response.record.request.count {
      let rest = response.record.request.count - response.record.requestOffset
      let count = unsafe min(
        rest, response.record.sendWindowBytes, windows.sendBytes, FrameHead.payloadBytes)
      guard count > 0 else { return false }
      let (body, start) = (response.record.request, response.record.requestOffset)
      unsafe output.append(
        FrameType.data, flags: count == rest ? FrameFlag.endStream : 0,
        streamID: response.streamID, payload: body.span.extracting(start..<start + count))
      response.record.requestOffset += count
      response.record.sendWindowBytes -= count
      unsafe waitingBodyBytes -= count
      unsafe windows.sent(count)
    }
    response.record.request = []
    response.record.requestOffset = 0
    response.record.endPosition = unsafe output.position
    return true
  }

  /// Continues the bodies that waited for the server's windows, in the order of the requests.
  func sendBlocked() {
    guard unsafe windows.blockedCount > 0 else { return }
    var waiting = unsafe windows.takeBlocked()
    waiting.removeAll { streamID in unsafe streams[streamID].map(sendBody) ?? true }
    unsafe windows.putBack(waiting)
  }

  /// Sends a PING, to check that the server responds; see ``pongCount``.
  package func ping() {
    let opaque = InlineArray<8, UInt8>(repeating: 0)
    unsafe output.append(FrameType.ping, payload: opaque.span)
  }

  /// Closes the connection from this side: GOAWAY. Open requests are still answered.
  package func close() {
    unsafe isLeaving = true
    unsafe output.appendGoAway(.noError, last: 0)
  }

  // MARK: Outcomes

  /// The next outcome, in the order in which they became known. Return it with ``release(_:)``.
  package func nextResponse() -> HTTP2Response? {
    guard unsafe settledHead < settled.count else { return nil }
    let response = unsafe settled[settledHead]
    unsafe settledHead += 1
    if unsafe settledHead == settled.count {
      unsafe settled.removeAll(keepingCapacity: true)
      unsafe settledHead = 0
    }
    return response
  }

  package func release(_ response: HTTP2Response) {
    if unsafe free.count < Limits.concurrentStreams { unsafe free.append(response) }
  }

  /// Ends a stream with its outcome.
  ///
  /// - Parameter isPendingSent: Whether what is still in the output counts as sent, because it will be.
  func settle(
    _ response: HTTP2Response, failure: HTTP2StreamFailure? = nil, isPendingSent: Bool = false
  ) {
    unsafe streams.remove(response)
    let sent = unsafe isPendingSent ? output.position : output.takenBytes
    response.record.wasSentWhole = response.record.endPosition <= sent
    response.record.failure = failure
    if failure != nil { response.record.status = 0 }
    if !response.record.request.isEmpty {
      unsafe waitingBodyBytes -= response.record.request.count - response.record.requestOffset
      response.record.request = []
      unsafe windows.unblock(response.streamID)
    }
    unsafe settled.append(response)
  }

  /// The connection ended: requests without an outcome fail with `.connectionLost`.
  package func connectionLost() {
    hasFailed = true
    for response in openResponses(above: 0) { settle(response, failure: .connectionLost) }
  }

  /// In the order of the requests.
  func openResponses(above streamID: Int32) -> [HTTP2Response] {
    unsafe streams.all.filter { $0.streamID > streamID }.sorted { $0.streamID < $1.streamID }
  }

  // MARK: Bytes

  /// Processes bytes from the server. `.failed`: write pending output, close, and call ``connectionLost()``.
  package func receive(_ bytes: Span<UInt8>) -> HTTP2SessionResult {
    guard !hasFailed else { return .failed }
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
      fail(error.code)
      return .failed
    }
    return .ok
  }

  /// The same from borrowed memory.
  package func receive(_ bytes: UnsafeRawBufferPointer) -> HTTP2SessionResult {
    unsafe receive(Span<UInt8>(_unsafeBytes: bytes))
  }

  /// The server broke the protocol. Requests of which nothing was taken are not sent: they can be repeated.
  private func fail(_ code: HTTP2ErrorCode) {
    hasFailed = true
    let unsent = unsafe streams.all.map { $0.record.startPosition }.filter {
      unsafe $0 >= output.takenBytes
    }
    .min()
    if let unsent { unsafe output.truncate(to: unsent) }
    unsafe output.appendGoAway(code, last: 0)
  }

  /// Whether output is pending.
  package var wantsWrite: Bool { unsafe !output.isEmpty }

  /// Whether to close the connection: nothing more will be read or written.
  package var isFinished: Bool {
    unsafe !wantsWrite && (hasFailed || (isLeaving || goAway != nil) && streams.count == 0)
  }

  /// Appends pending output to `buffer`, up to a total length of `limit` bytes; the rest waits.
  package func pendingOutput(into buffer: inout [UInt8], limit: Int) {
    unsafe output.take(into: &buffer, limit: limit - buffer.count)
  }
}
