import ApusModel

/// The closed streams that a session remembers, to distinguish frames that crossed with our reset from frames that no
/// client may send (RFC 9113, section 5.1).
struct ClosedStreams: Sendable {
  /// The last streams that this side ended before the client did, in a ring.
  private var cutOff: [Int32] = []
  private var oldest = 0
  /// The streams that the client last skipped; they are closed without ever having been open (section 5.1.1).
  private var skipped: Range<Int32> = 0..<0

  /// The client opened a stream; the previous one had the number `last`.
  mutating func open(_ streamID: Int32, after last: Int32) {
    if streamID > last + 2 { skipped = last + 1..<streamID }
  }

  /// This side ended the stream; frames for it may still arrive.
  mutating func cutOff(_ streamID: Int32) {
    guard cutOff.count == Limits.rememberedResets else { return cutOff.append(streamID) }
    cutOff[oldest] = streamID
    oldest = (oldest + 1) % Limits.rememberedResets
  }

  func wasCutOff(_ streamID: Int32) -> Bool { cutOff.contains(streamID) }

  func wasSkipped(_ streamID: Int32) -> Bool { skipped.contains(streamID) }
}
