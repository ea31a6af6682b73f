import ApusModel

// Processes one frame after the other, each checked against RFC 9113, section 6.
//
// Frames on closed streams are ignored: most crossed with a reset of ours, and ending the connection for others would
// cost requests their answers.
extension HTTP2ClientSession {
  func receive(_ head: FrameHead, _ payload: Span<UInt8>) throws(SessionFailure) {
    try unsafe require(order.allows(head))
    try head.check()
    switch head.type {
    case FrameType.data: try receiveData(head, payload)
    case FrameType.headers: try receiveHeaders(head, payload)
    case FrameType.continuation: try receiveContinuation(head, payload)
    case FrameType.resetStream: try receiveReset(head, payload)
    case FrameType.settings: try receiveSettings(head, payload)
    case FrameType.ping:
      if head.has(FrameFlag.acknowledge) {
        pongCount += 1
      } else {
        try unsafe output.acknowledge(FrameType.ping, payload)
      }
    case FrameType.goAway: receiveGoAway(payload)
    case FrameType.windowUpdate: try receiveWindowUpdate(head, payload)
    // RFC 7540's priorities (RFC 9113, section 5.3.2), and unknown types (section 4.1), are ignored.
    default: break
    }
  }

  /// The response of an open stream; nil if the stream is closed. The server does not know streams of which nothing
  /// was sent (section 5.1, idle).
  func response(_ streamID: Int32) throws(SessionFailure) -> HTTP2Response? {
    guard let response = unsafe streams[streamID] else {
      try unsafe require(streamID & 1 == 1 && Int(streamID) < nextStreamID)
      return nil
    }
    try unsafe require(response.record.startPosition < output.takenBytes)
    return response
  }

  // MARK: Header blocks

  private func receiveHeaders(_ head: FrameHead, _ payload: Span<UInt8>) throws(SessionFailure) {
    let fragment = try head.fragment(payload)
    let endsStream = head.has(FrameFlag.endStream)
    if head.has(FrameFlag.endHeaders) {
      try receiveBlock(fragment, head.streamID, endsStream: endsStream)
    } else {
      unsafe order.begin(
        .init(streamID: head.streamID, endsStream: endsStream, bytes: fragment.copied()))
    }
  }

  private func receiveContinuation(
    _ head: FrameHead, _ payload: Span<UInt8>
  ) throws(SessionFailure) {
    guard let count = unsafe order.countedFrames else { throw .connection(.protocolError) }
    guard head.has(FrameFlag.endHeaders) else {
      guard count < Limits.continuationFrames else { throw .flood(.continuations) }
      return unsafe order.append(payload)
    }
    guard let block = unsafe order.end(payload) else { return }
    try receiveBlock(block.bytes.span, block.streamID, endsStream: block.endsStream)
  }

  // MARK: The connection

  private func receiveSettings(_ head: FrameHead, _ payload: Span<UInt8>) throws(SessionFailure) {
    if head.has(FrameFlag.acknowledge) {
      try require(!isAcknowledged)
      isAcknowledged = true
      return
    }
    var windowBytes = unsafe windows.initialBytes
    try SettingsFrame.read(payload) { (identifier, value) throws(SessionFailure) in
      switch identifier {
      // Blocks that follow the acknowledgement use it.
      case SettingsFrame.Setting.headerTableSize: unsafe encoder.setTableCapacity(value)
      case SettingsFrame.Setting.enablePush: try require(value == 0)
      case SettingsFrame.Setting.maxConcurrentStreams:
        streamLimit = min(value, Limits.concurrentStreams)
      case SettingsFrame.Setting.initialWindowSize: windowBytes = value
      // Frames larger than the smallest maximum are never sent.
      default: break
      }
    }
    try unsafe windows.setInitial(windowBytes, of: streams.all)
    isReady = true
    try unsafe output.acknowledge(FrameType.settings, Span())
    sendBlocked()
  }

  /// Section 6.8. Another GOAWAY may name an earlier stream; a later one would not bring back the streams between.
  private func receiveGoAway(_ payload: Span<UInt8>) {
    let former = goAway?.lastStreamID ?? .max
    let last = Int32(payload.fourBytes(at: 0) & 0x7fff_ffff)
    let code = HTTP2ErrorCode(rawValue: UInt32(payload.fourBytes(at: 4)))
    goAway = HTTP2GoAway(
      lastStreamID: min(last, former), code: code,
      debugData: payload.extracting(8...).extracting(first: Limits.goAwayDebugBytes).copied())
    guard last < former else { return }
    for response in openResponses(above: last) {
      settle(response, failure: response.record.hasBegun ? .reset(code) : .goneAway)
    }
  }

  // MARK: Streams

  private func receiveReset(_ head: FrameHead, _ payload: Span<UInt8>) throws(SessionFailure) {
    guard let response = try response(head.streamID) else { return }
    let code = HTTP2ErrorCode(rawValue: UInt32(payload.fourBytes(at: 0)))
    // Section 8.7: the request was not processed, which a response that has begun contradicts.
    let isRefused = code == .refusedStream && !response.record.hasBegun
    settle(response, failure: isRefused ? .refused : .reset(code))
  }

  private func receiveWindowUpdate(
    _ head: FrameHead, _ payload: Span<UInt8>
  ) throws(SessionFailure) {
    let increment = Int(payload.fourBytes(at: 0) & 0x7fff_ffff)
    guard head.streamID != 0 else {
      try require(increment > 0)
      // Otherwise bodies wait for the windows of their streams only.
      let wasShut = unsafe windows.sendBytes <= 0
      try unsafe windows.enlarge(by: increment)
      if wasShut { sendBlocked() }
      return
    }
    guard let response = try response(head.streamID) else { return }
    // Sections 6.9 and 6.9.1: an error of the stream only.
    guard increment > 0 else { return reset(response, .protocolError) }
    response.record.sendWindowBytes += increment
    guard response.record.sendWindowBytes <= FlowWindows.largest else {
      return reset(response, .flowControlError)
    }
    if !response.record.request.isEmpty { sendBlocked() }
  }
}
