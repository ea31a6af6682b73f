/// The streams of a connection: the open ones with their requests, and what is remembered of closed ones.
///
/// Noncopyable for speed: a call on a copy would retain every field.
struct OpenStreams: ~Copyable {
  private var open = StreamList<HTTP2Request>()
  /// The highest stream that the client opened.
  private(set) var lastStreamID: Int32 = 0
  private var closed = ClosedStreams()

  /// The request of an open stream.
  subscript(streamID: Int32) -> HTTP2Request? { open[streamID] }

  var count: Int { open.count }
  var requests: [HTTP2Request] { open.all }

  /// Whether the stream was never opened (RFC 9113, section 5.1): most frames are errors on it.
  func isIdle(_ streamID: Int32) -> Bool { streamID & 1 == 0 || streamID > lastStreamID }

  // MARK: Opening

  /// The client opened a new stream, which may still be refused.
  mutating func opened(_ streamID: Int32) {
    closed.open(streamID, after: lastStreamID)
    lastStreamID = streamID
    open.note(current: nil)
  }

  /// Its request.
  mutating func add(_ request: HTTP2Request) {
    open.add(request)
    open.note(current: request)
  }

  // MARK: Closing

  /// Forgets a stream.
  ///
  /// - Parameter byPeer: Whether the client reset the stream, so that it sends nothing more on it.
  mutating func remove(_ request: HTTP2Request, byPeer: Bool) {
    if !byPeer, !request.state.contains(.ended) { closed.cutOff(request.streamID) }
    open.remove(request)
  }

  /// A stream was refused.
  mutating func refused(_ streamID: Int32) { closed.cutOff(streamID) }

  /// Whether this side ended the stream; the client may not know it yet.
  func wasCutOff(_ streamID: Int32) -> Bool { closed.wasCutOff(streamID) }

  /// Whether the stream may never have been open; see `ClosedStreams`.
  func mayHaveBeenSkipped(_ streamID: Int32) -> Bool { closed.mayHaveBeenSkipped(streamID) }
}
