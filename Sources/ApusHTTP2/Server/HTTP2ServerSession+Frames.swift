import ApusModel

// Processes one frame after the other, each checked against RFC 9113, section 6.
extension HTTP2ServerSession {
  func receive(_ head: FrameHead, _ payload: Span<UInt8>) throws(SessionFailure) {
    try require(order.allows(head))
    try head.check()
    switch head.type {
    case FrameType.data: try receiveData(head, payload)
    case FrameType.headers: try receiveHeaders(head, payload)
    case FrameType.resetStream: try receiveReset(head)
    case FrameType.settings: try receiveSettings(head, payload)
    case FrameType.ping: try receivePing(head, payload)
    // The client is closing the connection: do the same, and answer open requests.
    case FrameType.goAway: goAway(reason: nil)
    case FrameType.windowUpdate: try receiveWindowUpdate(head, payload)
    case FrameType.continuation: try receiveContinuation(head, payload)
    // RFC 7540's priorities (RFC 9113, section 5.3.2), and unknown types (section 4.1), are ignored.
    default: break
    }
  }

  // MARK: Header blocks

  private func receiveHeaders(_ head: FrameHead, _ payload: Span<UInt8>) throws(SessionFailure) {
    let fragment = try head.fragment(payload)
    let endsStream = head.has(FrameFlag.endStream)
    if head.has(FrameFlag.endHeaders) {
      try receiveBlock(fragment, head.streamID, endsStream: endsStream)
    } else {
      order.begin(
        .init(streamID: head.streamID, endsStream: endsStream, bytes: fragment.copied()))
    }
  }

  private func receiveContinuation(_ head: FrameHead, _ payload: Span<UInt8>) throws(SessionFailure)
  {
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

  // MARK: The connection

  private func receiveSettings(_ head: FrameHead, _ payload: Span<UInt8>) throws(SessionFailure) {
    if head.has(FrameFlag.acknowledge) { return try require(settings.acknowledged()) }
    var windowBytes = unsafe windows.initialBytes
    try SettingsFrame.read(payload) { identifier, value in
      switch identifier {
      case SettingsFrame.Setting.headerTableSize:
        // RFC 7541, section 4.2. Our blocks need no table.
        if value < DynamicTable.largestBytes, tableUpdate == .none { tableUpdate = .due }
      case SettingsFrame.Setting.initialWindowSize: windowBytes = value
      // Frames larger than the smallest maximum are never sent.
      default: break
      }
    }
    try unsafe windows.setInitial(windowBytes, of: streams.requests)
    try unsafe output.acknowledge(FrameType.settings, Span())
    sendBlocked()
  }

  private func receivePing(_ head: FrameHead, _ payload: Span<UInt8>) throws(SessionFailure) {
    if head.has(FrameFlag.acknowledge) { return pingAnswered(payload) }
    try unsafe output.acknowledge(FrameType.ping, payload)
  }

  // MARK: Streams

  private func receiveReset(_ head: FrameHead) throws(SessionFailure) {
    try unsafe require(!streams.isIdle(head.streamID))
    if let request = request(head.streamID) { close(request, byPeer: true) }
  }

  private func receiveWindowUpdate(_ head: FrameHead, _ payload: Span<UInt8>) throws(SessionFailure)
  {
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
