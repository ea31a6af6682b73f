import ApusModel

// The life of a request, in order.
extension HTTP2ServerSession {
  func request(_ streamID: Int32) -> HTTP2Request? { unsafe streams[streamID] }

  // MARK: Header sections

  /// A complete header block: of a request, of trailers, or of a stream that is ignored. It is always decoded to its
  /// end, because the tables of both sides must stay the same.
  func receiveBlock(
    _ block: Span<UInt8>, _ streamID: Int32, endsStream: Bool
  ) throws(SessionFailure) {
    if unsafe streamID > streams.lastStreamID {
      unsafe streams.opened(streamID)
      guard let request = try open(streamID) else { return try decode(block, for: nil) }
      try decode(block, for: request)
      guard request.slot >= 0 else { return }
      guard unsafe request.record.pointee.shape.isWhole else {
        return try reset(request, .protocolError)
      }
      if endsStream { try didEnd(request) }
    } else if let request = request(streamID) {
      try receiveTrailers(block, request, endsStream: endsStream)
    } else {
      try decode(block, for: nil)
      // Sections 5.1 and 5.1.1. A client that does not know yet that its stream was cut off has done nothing wrong.
      guard !end.isFinal, unsafe !streams.wasCutOff(streamID) else { return }
      let wasSkipped = unsafe streams.mayHaveBeenSkipped(streamID)
      throw .connection(wasSkipped ? .protocolError : .streamClosed)
    }
  }

  /// Nil if the request is refused.
  private func open(_ streamID: Int32) throws(SessionFailure) -> HTTP2Request? {
    // The GOAWAY already told the client that it is not processed.
    guard !end.isFinal else { return nil }
    let held = unsafe streams.count
    let now = unsafe clock.nowMilliseconds
    guard held < settings.allowedStreams(nowMilliseconds: now) else {
      if settings.isAcknowledged, !watch.resets.take() { throw .flood(.resets) }
      try refuse(streamID)
      return nil
    }
    // Not charged to the client: the requests are used by others.
    guard let request = account.take(held: held) else {
      try refuse(streamID)
      return nil
    }
    unsafe request.prepare(
      streamID: streamID, sendWindowBytes: windows.initialBytes, nowMilliseconds: now)
    unsafe streams.add(request)
    unsafe clock.armRequest()
    return request
  }

  private func refuse(_ streamID: Int32) throws(SessionFailure) {
    account.pool.noteRefused()
    unsafe streams.refused(streamID)
    try unsafe output.appendReset(streamID, .refusedStream)
  }

  /// Decodes a block into the request's fields.
  private func decode(_ block: Span<UInt8>, for request: HTTP2Request?) throws(SessionFailure) {
    let record = unsafe request?.record
    let bytes = unsafe block.withUnsafeBufferPointer { unsafe $0 }
    var offset = 0
    var blockBytes = 0
    var isHeard = request != nil
    do throws(CompressionFault) {
      while try unsafe decoder.next(bytes, at: &offset) {
        let field = decoder.field
        blockBytes += field.name.count + field.value.count
        if blockBytes > Limits.headerBlockBytes { break }
        guard isHeard, let record = unsafe record else { continue }
        if configuration.keepsEveryField, let request { keep(field, of: request) }
        isHeard = unsafe record.pointee.add(field)
        // The sum also bounds the cost of a few bytes that repeat long table entries.
        if unsafe record.pointee.shape.listBytes > Limits.headerListResetBytes { isHeard = false }
      }
    } catch {
      throw .connection(.compressionError)
    }
    try charge(blockBytes)
    guard let request, let record = unsafe record, !isHeard else { return }
    let isTooLong = unsafe record.pointee.shape.listBytes > Limits.headerListResetBytes
    try reset(request, isTooLong ? .enhanceYourCalm : .protocolError)
  }

  /// Bounds how often a block may expand to more than a header list may have: a few bytes that repeat long table
  /// entries cost as much as their expansion.
  private func charge(_ blockBytes: Int) throws(SessionFailure) {
    let excess = max(0, blockBytes - Limits.headerListBytes)
    guard blockBytes <= Limits.headerBlockBytes,
      watch.idleFrames.take(excess / Limits.headerBytesPerFrame)
    else { throw .flood(.headerBlocks) }
  }

  /// RFC 9113, section 8.1: a second block is the trailers and ends the stream.
  private func receiveTrailers(
    _ block: Span<UInt8>, _ request: HTTP2Request, endsStream: Bool
  ) throws(SessionFailure) {
    let bytes = unsafe block.withUnsafeBufferPointer { unsafe $0 }
    var offset = 0
    var listBytes = 0
    var blockBytes = 0
    var isFine = endsStream
    do throws(CompressionFault) {
      while try unsafe decoder.next(bytes, at: &offset) {
        let field = decoder.field
        listBytes += field.byteCount
        blockBytes += field.name.count + field.value.count
        if blockBytes > Limits.headerBlockBytes { break }
        // Fields beyond the limit are not examined: the section is refused anyway.
        isFine =
          isFine
          && (listBytes > Limits.headerListBytes
            || FieldRules.isTrailer(name: field.name, value: field.value))
      }
    } catch {
      throw .connection(.compressionError)
    }
    try charge(blockBytes)
    // Section 5.1, half-closed (remote).
    guard !request.state.contains(.ended) else { return try reset(request, .streamClosed) }
    guard isFine else { return try reset(request, .protocolError) }
    guard listBytes <= Limits.headerListBytes else { return try reset(request, .enhanceYourCalm) }
    try didEnd(request)
  }

  // MARK: Bodies

  func receiveData(_ head: FrameHead, _ payload: Span<UInt8>) throws(SessionFailure) {
    let body = try head.content(payload)
    try restoreWindow(after: head.length)
    guard let request = request(head.streamID) else {
      try unsafe require(!streams.isIdle(head.streamID))
      return try receiveDataOnClosedStream(head)
    }
    guard !request.state.contains(.ended) else { return try reset(request, .streamClosed) }
    let endsStream = head.has(FrameFlag.endStream)
    guard try countBytes(head.length, of: request, isLast: endsStream) else { return }
    if !request.state.contains(.complete) {
      unsafe request.record.pointee.append(body)
      if request.bodyByteCount > Limits.discardedBodyBytes {
        request.state.insert(.complete)
        unsafe completed.push(request)
      }
    }
    if endsStream { try didEnd(request) }
  }

  /// Section 6.1. Such frames are charged as frames without progress; small ones already were.
  private func receiveDataOnClosedStream(_ head: FrameHead) throws(SessionFailure) {
    if head.length >= Limits.smallDataBytes, !watch.idleFrames.take() { throw .flood(.idleFrames) }
    guard !end.isFinal, unsafe !streams.wasCutOff(head.streamID) else { return }
    try unsafe output.appendReset(head.streamID, .streamClosed)
  }

  private func restoreWindow(after count: Int) throws(SessionFailure) {
    let increment = try unsafe windows.received(count)
    guard increment > 0 else { return }
    unsafe output.append(FrameType.windowUpdate, streamID: 0, number: UInt32(increment))
  }

  /// False if the stream was reset.
  private func countBytes(
    _ count: Int, of request: HTTP2Request, isLast: Bool
  ) throws(SessionFailure) -> Bool {
    request.unannouncedBytes += count
    guard request.unannouncedBytes >= configuration.initialWindowBytes / 2 else { return true }
    guard request.unannouncedBytes <= configuration.initialWindowBytes else {
      try reset(request, .flowControlError)
      return false
    }
    if !isLast, request.unannouncedBytes > 0 {
      unsafe output.append(
        FrameType.windowUpdate, streamID: request.streamID,
        number: UInt32(request.unannouncedBytes))
      request.unannouncedBytes = 0
    }
    return true
  }

  private func didEnd(_ request: HTTP2Request) throws(SessionFailure) {
    let wasComplete = request.state.contains(.complete)
    request.state.formUnion([.ended, .complete])
    guard !wasComplete else { return }
    let record = unsafe request.record
    guard unsafe record.pointee.shape.fits(bodyByteCount: record.pointee.bodyByteCount) else {
      return try reset(request, .protocolError)
    }
    unsafe completed.push(request)
  }

  // MARK: The end of a stream

  /// Forgets a stream.
  ///
  /// - Parameter byPeer: Whether the client reset the stream, so that it sends nothing more on it.
  func close(_ request: HTTP2Request, byPeer: Bool = false) {
    unsafe streams.remove(request, byPeer: byPeer)
    if !request.isInUse { account.pool.give(request) }
  }

  /// Resets a stream because of the client: it is charged like a request that the client cancels.
  func reset(_ request: HTTP2Request, _ code: HTTP2ErrorCode) throws(SessionFailure) {
    let streamID = request.streamID
    close(request)
    guard watch.resets.take() else { throw .flood(.resets) }
    try unsafe output.appendReset(streamID, code)
  }
}
