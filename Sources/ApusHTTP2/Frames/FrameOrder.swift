import ApusModel

/// Which frame the peer may send next: the first one is SETTINGS (RFC 9113, section 3.4), and nothing may interrupt a
/// header block (section 6.10). Assembles a header block of several frames.
struct FrameOrder: ~Copyable {
  /// An incomplete header block: at most `Limits.continuationFrames` + 1 frames of 16 KiB, as the watch counts them.
  struct Block {
    var streamID: Int32
    var endsStream: Bool
    var bytes: [UInt8]
    /// Frames beyond the first. Each counts as a request of the connection's account: so what all connections of an
    /// address or a team hold of header bytes is bounded, too.
    var countedFrames = 0
  }

  private var sawSettings = false
  /// The header block whose CONTINUATION frames are still to come.
  private var block: Block?

  /// Whether any frame may come next.
  private var isFree: Bool { sawSettings && block == nil }

  /// Whether the frame may come next.
  mutating func allows(_ head: FrameHead) -> Bool { isFree || allowsNow(head) }

  private mutating func allowsNow(_ head: FrameHead) -> Bool {
    if !sawSettings {
      guard head.type == FrameType.settings, !head.has(FrameFlag.acknowledge) else { return false }
      sawSettings = true
    }
    guard let block else { return true }
    return head.type == FrameType.continuation && head.streamID == block.streamID
  }

  // MARK: The header block

  /// Frames of the incomplete block that count as requests; nil without a block.
  var countedFrames: Int? { block?.countedFrames }

  mutating func begin(_ block: Block) { self.block = block }

  /// Adds a frame that is not the last one, and that was counted.
  mutating func append(_ fragment: Span<UInt8>) {
    block?.countedFrames += 1
    block?.bytes.append(fragment)
  }

  /// The whole block; its frames count no longer.
  mutating func end(_ fragment: Span<UInt8>) -> Block? {
    block?.bytes.append(fragment)
    return block.take()
  }

  /// The frames of the incomplete block that count no longer.
  mutating func takeCountedFrames() -> Int {
    let count = block?.countedFrames ?? 0
    block?.countedFrames = 0
    return count
  }
}
