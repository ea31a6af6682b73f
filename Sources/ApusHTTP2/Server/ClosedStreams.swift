import ApusModel

/// The closed streams that a session remembers, to distinguish frames that crossed with our reset from frames that no
/// client may send (RFC 9113, section 5.1).
struct ClosedStreams: Sendable {
  /// The last streams that this side ended before the client did, in a ring.
  private var cutOff: [Int32] = []
  private var oldest = 0
  /// The last runs of streams that the client skipped, in order; they are closed without ever having been open
  /// (section 5.1.1). No client is known to skip any.
  private var skipped: [Range<Int32>] = []
  /// Among the streams below this one are skipped ones that are no longer remembered.
  private var vagueBelow: Int32 = 0

  /// The client opened a stream; the previous one had the number `last`.
  mutating func open(_ streamID: Int32, after last: Int32) {
    if streamID > last + 2 { skip(last + 1..<streamID) }
  }

  private mutating func skip(_ streams: Range<Int32>) {
    if skipped.count == Limits.rememberedSkips { vagueBelow = skipped.removeFirst().upperBound }
    skipped.append(streams)
  }

  /// This side ended the stream; frames for it may still arrive.
  mutating func cutOff(_ streamID: Int32) {
    guard cutOff.count == Limits.rememberedResets else { return cutOff.append(streamID) }
    cutOff[oldest] = streamID
    oldest = (oldest + 1) % Limits.rememberedResets
  }

  func wasCutOff(_ streamID: Int32) -> Bool { cutOff.contains(streamID) }

  /// Whether the stream may never have been open. PROTOCOL_ERROR is then the right error: section 5.1.1 requires it for
  /// a stream that was skipped, while section 5.1 only allows STREAM_CLOSED for one that was open.
  func mayHaveBeenSkipped(_ streamID: Int32) -> Bool {
    streamID < vagueBelow || skipped.contains { $0.contains(streamID) }
  }
}
