import ApusModel

/// Memory for frames that are added and released in order: a ring in which each frame is contiguous.
struct FrameArena: Sendable {
  var bytes: [UInt8] = []
  /// The offset of the next frame, if it fits before the end.
  private var head = 0

  /// An offset with room for `byteCount` bytes; nil if there is no room.
  ///
  /// - Parameter oldest: The offset of the oldest frame; nil if there is none.
  func place(for byteCount: Int, oldest: Int?) -> Int? {
    guard let oldest else { return byteCount <= bytes.count ? 0 : nil }
    // The frames occupy `oldest` to `head`, or `oldest` to the end plus 0 to `head`. The two must not meet, which would
    // look like an empty ring.
    if head > oldest {
      if byteCount <= bytes.count - head { return head }
      return byteCount < oldest ? 0 : nil
    }
    return byteCount < oldest - head ? head : nil
  }

  mutating func write(_ frame: Span<UInt8>, at offset: Int) {
    bytes.write(frame, at: offset)
    head = offset + frame.count
  }
}
