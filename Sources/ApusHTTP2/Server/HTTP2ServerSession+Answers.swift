package import ApusModel

extension HTTP2ServerSession {
  /// Answers a device request.
  ///
  /// Without a body: one HEADERS frame that ends the stream. With one: HEADERS with the JSON content type, and the body
  /// in one DATA frame that ends the stream (several only where the client's window is smaller than the body). Empty
  /// values are left out. The bytes are copied.
  ///
  /// Returns false, and sends nothing, when the stream is gone: the client took the request back.
  @discardableResult
  package func respond(
    streamID: Int32, status: UInt16, apnsID: Span<UInt8>, apnsUniqueID: Span<UInt8>,
    body: Span<UInt8>
  ) -> Bool {
    guard let request = request(streamID) else { return false }
    return respond(
      request, status: status, apnsID: apnsID, apnsUniqueID: apnsUniqueID, body: body)
  }

  /// The same for a request that has not been given back: saves looking the stream up.
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

  /// Answers with any of the listed fields of answers: those of channel requests, mainly.
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

  /// Writes the HEADERS frame of an answer.
  @inline(__always)
  func sendHeaders(
    _ request: HTTP2Request, room: Int, hasBody: Bool, _ fill: (inout AnswerHeaders) -> Void
  ) {
    let isEnd = !hasBody || isHead(request)
    let flags = FrameFlag.endHeaders | (isEnd ? FrameFlag.endStream : 0)
    unsafe output.write(upTo: FrameHead.byteCount + room) { target in
      var headers = unsafe AnswerHeaders(at: target + FrameHead.byteCount)
      if mustAnnounceNoTable { announceNoTable(&headers) }
      fill(&headers)
      unsafe FrameOutput.putHead(
        target, headers.count, FrameType.headers, flags, request.streamID)
      return FrameHead.byteCount + headers.count
    }
  }

  private func announceNoTable(_ headers: inout AnswerHeaders) {
    headers.announceNoTable()
    (mustAnnounceNoTable, hasAnnouncedNoTable) = (false, true)
  }

  /// What follows the HEADERS frame.
  func answer(_ request: HTTP2Request, body: Span<UInt8>) {
    unsafe request.answeredMilliseconds = nowMilliseconds
    request.state.insert(.answered)
    unsafe arm(nowMilliseconds + Self.stallMilliseconds)
    guard !body.isEmpty, !isHead(request) else { return didSendEnd(of: request) }
    request.answer.set(body)
    request.answerOffset = 0
    if !sendBody(of: request) { blocked.append(request.streamID) }
  }

  /// RFC 9110, section 9.3.2: an answer to HEAD has no content.
  private func isHead(_ request: HTTP2Request) -> Bool {
    let method = request.value(.method)
    return method.count == 4 && method.equals("HEAD")
  }

  /// Writes as much of an answer's body as the peer's windows take; whether that was all of it.
  private func sendBody(of request: HTTP2Request) -> Bool {
    while request.answerOffset < request.answer.count {
      let rest = request.answer.count - request.answerOffset
      let count = min(
        rest, request.sendWindowBytes, sendWindowBytes, FrameHead.payloadBytes)
      guard count > 0 else { return false }
      let (answer, start) = (request.answer, request.answerOffset)
      unsafe output.append(
        FrameType.data, flags: count == rest ? FrameFlag.endStream : 0,
        streamID: request.streamID,
        payload: answer.span.extracting(start..<start + count))
      request.answerOffset += count
      request.sendWindowBytes -= count
      sendWindowBytes -= count
    }
    didSendEnd(of: request)
    return true
  }

  /// The answer's end stands in the output. What still comes of the request is not wanted (RFC 9113, section 8.1).
  private func didSendEnd(of request: HTTP2Request) {
    if !request.state.contains(.ended) {
      unsafe output.append(
        FrameType.resetStream, streamID: request.streamID,
        number: HTTP2ErrorCode.noError.rawValue)
    }
    unsafe leaving.append(Leaving(streamID: request.streamID, end: output.madeBytes))
  }

  /// The peer's windows may have opened.
  func sendBlocked() {
    guard !blocked.isEmpty else { return }
    blocked.removeAll { streamID in
      guard let request = request(streamID) else { return true }
      return sendBody(of: request)
    }
  }

  // MARK: Output

  /// Whether there is something to write.
  package var wantsWrite: Bool { unsafe !output.isEmpty }

  /// Streams whose answer does not stand in the output to its end.
  package var unansweredStreamCount: Int {
    unsafe openRequests.count { !$0.state.contains(.answered) } + blocked.count
  }

  /// Appends what is to be sent to `buffer`, up to a length of `limit` bytes in all (at least 64); the rest waits for
  /// the next call. With `limit` 16384 and an empty buffer each call fills one TLS record.
  package func pendingOutput(into buffer: inout [UInt8], limit: Int) {
    unsafe output.take(into: &buffer, limit: limit - buffer.count)
    closeAnswered()
    guard unsafe output.isEmpty else { return }
    (pendingResetCount, pendingAcknowledgementCount) = (0, 0)
  }

  /// Streams are open for as long as their answers wait here: a client that does not read opens no more.
  private func closeAnswered() {
    let taken = unsafe output.takenBytes
    var count = 0
    while unsafe count < leaving.count, unsafe leaving[count].end <= taken {
      let streamID = unsafe leaving[count].streamID
      count += 1
      guard let request = request(streamID) else { continue }
      watch.resets.credit(1)
      close(request)
    }
    if unsafe count == leaving.count {
      unsafe leaving.removeAll(keepingCapacity: true)
    } else {
      unsafe leaving.removeFirst(count)
    }
  }
}
