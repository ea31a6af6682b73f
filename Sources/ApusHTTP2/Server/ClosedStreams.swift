import ApusModel

/// What a session remembers of streams that are closed, to tell frames that crossed with a reset of ours from frames
/// that no client may send (RFC 9113, section 5.1).
struct ClosedStreams: Sendable {
  /// The last streams that this side ended before the client did, in a ring.
  private var cutOff: [Int32] = []
  private var oldest = 0
  /// The streams that the client skipped when it last did so; they are closed without ever having been open (section
  /// 5.1.1).
  private var skipped: Range<Int32> = 0..<0

  /// The client opened a stream; the one before had the number `last`.
  mutating func open(_ streamID: Int32, after last: Int32) {
    if streamID > last + 2 { skipped = last + 1..<streamID }
  }

  /// This side ended the stream; frames of it may still be on their way.
  mutating func cutOff(_ streamID: Int32) {
    guard cutOff.count == Limits.rememberedResets else { return cutOff.append(streamID) }
    cutOff[oldest] = streamID
    oldest = (oldest + 1) % Limits.rememberedResets
  }

  func wasCutOff(_ streamID: Int32) -> Bool { cutOff.contains(streamID) }

  func wasSkipped(_ streamID: Int32) -> Bool { skipped.contains(streamID) }
}
