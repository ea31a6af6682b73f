package import ApusModel

extension HTTP2ServerSession {
  /// Answers a device request.
  ///
  /// Without a body: one HEADERS frame that ends the stream. With one: HEADERS with the JSON content type, and the
  /// body in one DATA frame that ends the stream (several only if the client's window is smaller than the body). Empty
  /// values are omitted. The bytes are copied.
  ///
  /// Returns false, and sends nothing, if the stream is closed: the client cancelled the request.
  @discardableResult
  package func respond(
    streamID: Int32, status: UInt16, apnsID: Span<UInt8>, apnsUniqueID: Span<UInt8>,
    body: Span<UInt8>
  ) -> Bool {
    guard let request = request(streamID) else { return false }
    return respond(
      request, status: status, apnsID: apnsID, apnsUniqueID: apnsUniqueID, body: body)
  }

  /// The same for a request that has not been released: avoids looking up the stream.
  @discardableResult
  package func respond(
    _ request: HTTP2Request, status: UInt16, apnsID: Span<UInt8>, apnsUniqueID: Span<UInt8>,
    body: Span<UInt8>
  ) -> Bool {
    guard request.isOpen else { return false }
    let room = AnswerHeaders.room(
      ids: 2, valueBytes: apnsID.count + apnsUniqueID.count)
    sendHeaders(request, room: room, hasBody: !body.isEmpty) { headers in
      headers.add(status: status)
      if !body.isEmpty { headers.addJSONContentType() }
      if !apnsID.isEmpty { headers.add(.apnsID, id: apnsID) }
      if !apnsUniqueID.isEmpty { headers.add(.apnsUniqueID, id: apnsUniqueID) }
    }
    answer(request, body: body)
    return true
  }

  /// Responds with any of the known response fields, mainly for channel requests.
  @discardableResult
  package func respond(
    streamID: Int32, status: UInt16, fields: borrowing RequestFields, body: Span<UInt8>
  ) -> Bool {
    guard let request = request(streamID), request.isOpen else { return false }
    let names: [HeaderName] = [.apnsID, .apnsUniqueID, .apnsRequestID, .apnsChannelID]
    var valueBytes = 0
    for name in names { valueBytes += fields.value(name).count }
    let room = AnswerHeaders.room(ids: names.count, valueBytes: valueBytes)
    sendHeaders(request, room: room, hasBody: !body.isEmpty) { headers in
      headers.add(status: status)
      if !body.isEmpty { headers.addJSONContentType() }
      for name in names where fields.contains(name) {
        headers.add(name, id: fields.value(name))
      }
    }
    answer(request, body: body)
    return true
  }

  /// Writes the HEADERS frame of a response.
  @inline(__always)
  func sendHeaders(
    _ request: HTTP2Request, room: Int, hasBody: Bool, _ fill: (inout AnswerHeaders) -> Void
  ) {
    let isEnd = !hasBody || isHead(request)
    let flags = FrameFlag.endHeaders | (isEnd ? FrameFlag.endStream : 0)
    unsafe output.write(upTo: FrameHead.byteCount + room) { target in
      var headers = unsafe AnswerHeaders(at: target + FrameHead.byteCount, room: room)
      if tableUpdate == .due { announceNoTable(&headers) }
      fill(&headers)
      unsafe FrameOutput.putHead(
        target, headers.count, FrameType.headers, flags, request.streamID)
      return FrameHead.byteCount + headers.count
    }
  }

  private func announceNoTable(_ headers: inout AnswerHeaders) {
    headers.announceNoTable()
    tableUpdate = .sent
  }

  /// Sends what follows the HEADERS frame.
  func answer(_ request: HTTP2Request, body: Span<UInt8>) {
    unsafe request.answeredMilliseconds = clock.nowMilliseconds
    request.state.insert(.answered)
    unsafe clock.armStall()
    guard !body.isEmpty, !isHead(request) else { return didSendEnd(of: request) }
    request.answer.set(body)
    request.answerOffset = 0
    if !sendBody(of: request) { unsafe windows.block(request.streamID) }
  }

  /// RFC 9110, section 9.3.2: a response to HEAD has no content.
  private func isHead(_ request: HTTP2Request) -> Bool {
    let method = request.value(.method)
    return method.count == 4 && method.equals("HEAD")
  }

  /// Writes as much of a response's body as the peer's windows allow; returns whether that was all.
  private func sendBody(of request: HTTP2Request) -> Bool {
    while request.answerOffset < request.answer.count {
      let rest = request.answer.count - request.answerOffset
      let count = unsafe min(
        rest, request.sendWindowBytes, windows.sendBytes, FrameHead.payloadBytes)
      guard count > 0 else { return false }
      let (answer, start) = (request.answer, request.answerOffset)
      unsafe output.append(
        FrameType.data, flags: count == rest ? FrameFlag.endStream : 0,
        streamID: request.streamID,
        payload: answer.span.extracting(start..<start + count))
      request.answerOffset += count
      request.sendWindowBytes -= count
      unsafe windows.sent(count)
    }
    didSendEnd(of: request)
    return true
  }

  /// The end of the response is in the output. The rest of the request is not needed (RFC 9113, section 8.1).
  private func didSendEnd(of request: HTTP2Request) {
    if !request.state.contains(.ended) {
      unsafe output.append(
        FrameType.resetStream, streamID: request.streamID,
        number: HTTP2ErrorCode.noError.rawValue)
    }
    unsafe answerEnds.note(request.streamID, end: output.position)
  }

  /// Continues responses that waited for the peer's windows.
  func sendBlocked() {
    guard unsafe windows.blockedCount > 0 else { return }
    var waiting = unsafe windows.takeBlocked()
    waiting.removeAll { streamID in
      guard let request = request(streamID) else { return true }
      return sendBody(of: request)
    }
    unsafe windows.putBack(waiting)
  }

  // MARK: Output

  /// Whether output is pending.
  package var wantsWrite: Bool { unsafe !output.isEmpty }

  /// Streams whose response is not completely in the output.
  package var unansweredStreamCount: Int {
    unsafe streams.requests.count { !$0.state.contains(.answered) } + windows.blockedCount
  }

  /// Appends pending output to `buffer`, up to a total length of `limit` bytes (at least 64); the rest waits for the
  /// next call. With `limit` 16384 and an empty buffer each call fills one TLS record.
  package func pendingOutput(into buffer: inout [UInt8], limit: Int) {
    unsafe output.take(into: &buffer, limit: limit - buffer.count)
    closeAnswered()
  }

  /// Streams stay open while their responses wait here: a client that does not read cannot open more.
  private func closeAnswered() {
    while let streamID = unsafe answerEnds.next(takenBytes: output.takenBytes) {
      guard let request = request(streamID) else { continue }
      watch.resets.credit(1)
      close(request)
    }
  }
}
