import ApusModel

// Processes one frame after the other, each checked against RFC 9113, section 6.
extension HTTP2ServerSession {
  func receive(_ head: FrameHead, _ payload: Span<UInt8>) throws(Failure) {
    try require(order.allows(head))
    switch head.type {
    case FrameType.data: try receiveData(head, payload)
    case FrameType.headers: try receiveHeaders(head, payload)
    case FrameType.priority: try receivePriority(head)
    case FrameType.resetStream: try receiveReset(head)
    case FrameType.settings: try receiveSettings(head, payload)
    case FrameType.ping: try receivePing(head, payload)
    case FrameType.goAway: try receiveGoAway(head)
    case FrameType.windowUpdate: try receiveWindowUpdate(head, payload)
    case FrameType.continuation: try receiveContinuation(head, payload)
    // A client must not push.
    case FrameType.pushPromise: throw .connection(.protocolError)
    // Section 4.1: frames of unknown types are ignored.
    default: break
    }
  }

  func require(_ isRight: Bool, _ code: HTTP2ErrorCode = .protocolError) throws(Failure) {
    if !isRight { throw .connection(code) }
  }

  // MARK: Header blocks

  private func receiveHeaders(_ head: FrameHead, _ payload: Span<UInt8>) throws(Failure) {
    // Sections 5.1.1 and 6.2.
    try require(head.streamID & 1 == 1)
    var fragment = try unpadded(head, payload)
    if head.has(FrameFlag.priority) {
      // RFC 7540's priorities (a stream and a weight) are ignored.
      try require(fragment.count >= 5, .frameSizeError)
      fragment = fragment.extracting(5...)
    }
    let endsStream = head.has(FrameFlag.endStream)
    if head.has(FrameFlag.endHeaders) {
      try receiveBlock(fragment, head.streamID, endsStream: endsStream)
    } else {
      order.begin(
        .init(streamID: head.streamID, endsStream: endsStream, bytes: fragment.copied()))
    }
  }

  private func receiveContinuation(_ head: FrameHead, _ payload: Span<UInt8>) throws(Failure) {
    guard let held = order.countedFrames else { throw .connection(.protocolError) }
    guard head.has(FrameFlag.endHeaders) else {
      guard account.takeHeaderFrame(held: held) else { throw .flood(.headerBytes) }
      order.append(payload)
      return
    }
    giveHeaderFrames()
    guard let block = order.end(payload) else { return }
    try receiveBlock(block.bytes.span, block.streamID, endsStream: block.endsStream)
  }

  /// The frames of an incomplete header block count no longer.
  func giveHeaderFrames() { account.giveHeaderFrames(order.takeCountedFrames()) }

  /// The content of HEADERS and DATA without the padding (section 6.1).
  @_lifetime(copy payload)
  func unpadded(_ head: FrameHead, _ payload: Span<UInt8>) throws(Failure) -> Span<UInt8> {
    guard head.has(FrameFlag.padded) else { return payload }
    guard !payload.isEmpty else { throw .connection(.frameSizeError) }
    let padding = Int(payload[0])
    guard padding < payload.count else { throw .connection(.protocolError) }
    return payload.extracting(1..<payload.count - padding)
  }

  // MARK: The connection

  private func receiveSettings(_ head: FrameHead, _ payload: Span<UInt8>) throws(Failure) {
    try require(head.streamID == 0)
    if head.has(FrameFlag.acknowledge) {
      try require(payload.isEmpty, .frameSizeError)
      try require(settings.acknowledged())
      return
    }
    try require(payload.count % SettingsFrame.entryBytes == 0, .frameSizeError)
    var offset = 0
    var windowBytes = unsafe windows.initialBytes
    while offset < payload.count {
      let identifier = UInt16(payload[offset]) << 8 | UInt16(payload[offset + 1])
      try apply(identifier, value: Int(payload.fourBytes(at: offset + 2)), &windowBytes)
      offset += SettingsFrame.entryBytes
    }
    try moveWindows(to: windowBytes)
    try unsafe output.acknowledge(FrameType.settings, Span())
    sendBlocked()
  }

  /// Section 6.5.2. If a setting repeats, its last value counts (section 6.5).
  private func apply(
    _ identifier: UInt16, value: Int, _ windowBytes: inout Int
  ) throws(Failure) {
    switch identifier {
    case SettingsFrame.Setting.headerTableSize:
      // RFC 7541, section 4.2. Our blocks need no table.
      if value < DynamicTable.largestBytes, tableUpdate == .none { tableUpdate = .due }
    case SettingsFrame.Setting.enablePush: try require(value <= 1)
    case SettingsFrame.Setting.initialWindowSize:
      try require(value <= FlowWindows.largest, .flowControlError)
      windowBytes = value
    case SettingsFrame.Setting.maxFrameSize:
      // Frames larger than the smallest maximum are never sent.
      try require(value >= FrameHead.payloadBytes && value < 1 << 24)
    default: break
    }
  }

  /// Section 6.9.2: the windows of open streams change by the difference. Once per frame, since a frame may contain
  /// the setting thousands of times.
  private func moveWindows(to bytes: Int) throws(Failure) {
    let difference = unsafe windows.setInitial(bytes)
    guard difference != 0 else { return }
    for request in unsafe streams.requests {
      request.sendWindowBytes += difference
      try require(request.sendWindowBytes <= FlowWindows.largest, .flowControlError)
    }
  }

  private func receivePing(_ head: FrameHead, _ payload: Span<UInt8>) throws(Failure) {
    try require(head.streamID == 0)
    try require(payload.count == 8, .frameSizeError)
    if head.has(FrameFlag.acknowledge) { return pingAnswered(payload) }
    try unsafe output.acknowledge(FrameType.ping, payload)
  }

  /// The client is closing the connection: do the same, and answer open requests.
  private func receiveGoAway(_ head: FrameHead) throws(Failure) {
    try require(head.streamID == 0)
    try require(head.length >= 8, .frameSizeError)
    goAway(reason: nil)
  }

  // MARK: Streams

  /// RFC 7540's priorities are ignored (RFC 9113, section 5.3.2).
  private func receivePriority(_ head: FrameHead) throws(Failure) {
    try require(head.streamID != 0)
    try require(head.length == 5, .frameSizeError)
  }

  private func receiveReset(_ head: FrameHead) throws(Failure) {
    try require(head.length == 4, .frameSizeError)
    try unsafe require(!streams.isIdle(head.streamID))
    if let request = request(head.streamID) { close(request, byPeer: true) }
  }

  private func receiveWindowUpdate(_ head: FrameHead, _ payload: Span<UInt8>) throws(Failure) {
    try require(payload.count == 4, .frameSizeError)
    let increment = Int(payload.fourBytes(at: 0) & 0x7fff_ffff)
    if head.streamID == 0 {
      try require(increment > 0)
      try unsafe windows.enlarge(by: increment)
    } else {
      try unsafe require(!streams.isIdle(head.streamID))
      guard let request = request(head.streamID) else { return }
      // Sections 6.9 and 6.9.1: an error of the stream only.
      guard increment > 0 else { return try reset(request, .protocolError) }
      request.sendWindowBytes += increment
      guard request.sendWindowBytes <= FlowWindows.largest else {
        return try reset(request, .flowControlError)
      }
    }
    sendBlocked()
  }
}
