import ApusModel

// The life of a response, in order.
extension HTTP2ClientSession {
  /// A complete header block: an interim or final response, trailers, or of a closed stream. It is always decoded to
  /// its end, because the tables of both sides must stay the same.
  func receiveBlock(
    _ block: Span<UInt8>, _ streamID: Int32, endsStream: Bool
  ) throws(SessionFailure) {
    let response = try response(streamID)
    unsafe streams.note(current: response)
    let isFine = try decode(block, for: response)
    guard let response else { return }
    guard isFine else { return reset(response, .protocolError) }
    if response.record.status != 0 {
      // Section 8.1: trailers end the stream.
      guard endsStream else { return reset(response, .protocolError) }
    } else if response.record.shape.isInterim {
      response.record.interimCount += 1
      guard !endsStream, response.record.shape.mayContinue,
        response.record.interimCount <= Limits.interimAnswers
      else { return reset(response, .protocolError) }
      return response.record.prepareForAnswer()
    } else {
      response.record.status = response.record.shape.status
    }
    if endsStream { didEnd(response) }
  }

  /// Decodes a block into the response's fields; false if it is malformed.
  private func decode(
    _ block: Span<UInt8>, for response: HTTP2Response?
  ) throws(SessionFailure) -> Bool {
    let bytes = unsafe block.withUnsafeBufferPointer { unsafe $0 }
    var offset = 0
    var blockBytes = 0
    var isFine = true
    do throws(CompressionFault) {
      while try unsafe decoder.next(bytes, at: &offset) {
        let field = decoder.field
        // The sum also bounds the cost of a few bytes that repeat long table entries.
        blockBytes += field.byteCount
        if blockBytes > Limits.headerBlockBytes { break }
        guard isFine, let response else { continue }
        isFine = blockBytes <= Limits.headerListResetBytes && add(field, to: response)
      }
    } catch {
      throw .connection(.compressionError)
    }
    guard blockBytes <= Limits.headerBlockBytes else { throw .flood(.headerBlocks) }
    return isFine && (response.map { $0.record.shape.status != 0 } ?? true)
  }

  private func add(_ field: borrowing HeaderField, to response: HTTP2Response) -> Bool {
    guard response.record.status == 0 else {
      return FieldRules.isTrailer(name: field.name, value: field.value)
    }
    guard response.record.shape.add(field) else { return false }
    if let listed = field.listed {
      // Fields that do not fit are dropped: a response has four.
      if listed != .status { _ = response.record.fields.add(listed, value: field.value) }
    } else if field.name.equals("date") {
      // Once per connection: it is only compared with a clock.
      if serverSeconds == nil { serverSeconds = HTTPDate.seconds(field.value) }
    } else if field.name.equals("retry-after") {
      response.record.retryAfterSeconds = HTTPDate.retryAfter(
        field.value, nowSeconds: serverSeconds)
    }
    return true
  }

  func receiveData(_ head: FrameHead, _ payload: Span<UInt8>) throws(SessionFailure) {
    let body = try head.content(payload)
    let increment = try unsafe windows.received(head.length)
    if increment > 0 {
      unsafe output.append(FrameType.windowUpdate, streamID: 0, number: UInt32(increment))
    }
    guard let response = try response(head.streamID) else { return }
    guard response.record.status != 0 else { return reset(response, .protocolError) }
    response.record.append(body)
    response.record.receivedBytes += head.length
    if head.has(FrameFlag.endStream) { return didEnd(response) }
    let unrestored = response.record.receivedBytes - response.record.restoredBytes
    guard unrestored > SettingsFrame.usualWindowBytes / 2 else { return }
    // Nobody reads the rest of a longer body.
    guard response.record.receivedBytes <= response.record.answerLimit else {
      return cutOff(response)
    }
    response.record.restoredBytes = response.record.receivedBytes
    unsafe output.append(
      FrameType.windowUpdate, streamID: response.streamID, number: UInt32(unrestored))
  }

  private func didEnd(_ response: HTTP2Response) {
    guard response.record.shape.fits(bodyByteCount: response.record.bodyByteCount) else {
      return reset(response, .protocolError)
    }
    // The server answered without reading the whole request: the rest is useless.
    if response.record.request.isEmpty { settle(response) } else { cutOff(response) }
  }

  /// The response is known; the rest of the stream is not needed.
  private func cutOff(_ response: HTTP2Response) {
    appendReset(response, .cancel)
    settle(response)
  }

  /// Resets a stream because of the server, which may get the end of the request before the reset.
  func reset(_ response: HTTP2Response, _ code: HTTP2ErrorCode) {
    appendReset(response, code)
    settle(response, failure: .reset(code), isPendingSent: true)
  }

  private func appendReset(_ response: HTTP2Response, _ code: HTTP2ErrorCode) {
    unsafe output.append(FrameType.resetStream, streamID: response.streamID, number: code.rawValue)
  }
}
