import ApusModel
import ApusWire

/// The layout of a client's frames, and which of them are numbered.
///
/// Source: Binary Provider API; commands 0 and 1 are its legacy formats.
struct FrameFormat: Sendable, Hashable {
  var command: BinaryCommand

  /// The offset of the identifier in a frame of `byteCount` bytes; nil for command 0, which has none.
  ///
  /// Frames of command 2 contain the items 1 to 5 in order, so the last 15 bytes are the identifier, item 4 (7 bytes)
  /// and item 5 (4 bytes).
  func identifierOffset(byteCount: Int) -> Int? {
    switch command {
    case .simple: nil
    case .enhanced: 1
    case .framed: byteCount - 15
    }
  }

  /// A notification without token and payload, which no service accepts. Its error packet proves that everything before
  /// it was processed. Nil for command 0, which has no packets.
  var probe: [UInt8]? {
    var bytes: [UInt8] = []
    let nothing: [UInt8] = []
    switch command {
    case .simple: return nil
    case .enhanced:
      bytes.append(enhanced: nothing.span, payload: nothing.span, identifier: 0, expiration: 0)
    case .framed:
      bytes.append(
        framed: nothing.span, payload: nothing.span, identifier: 0, expiration: 0,
        priority: Priority.immediate.rawValue)
    }
    return bytes
  }
}
