import ApusModel

// What RFC 9113, section 6, requires of a frame whatever the state of its stream, and what is inside its payload.
extension FrameHead {
  /// Checks length and stream. Streams that a server opens are errors, too: this package never pushes.
  func check() throws(SessionFailure) {
    switch type {
    case FrameType.data: try require(streamID != 0)
    case FrameType.headers, FrameType.continuation: try require(streamID & 1 == 1)
    case FrameType.priority:
      try require(streamID != 0)
      try require(length == 5, .frameSizeError)
    case FrameType.resetStream, FrameType.windowUpdate: try require(length == 4, .frameSizeError)
    case FrameType.settings:
      try require(streamID == 0)
      let isAcknowledgement = has(FrameFlag.acknowledge)
      try require(
        isAcknowledgement ? length == 0 : length % SettingsFrame.entryBytes == 0, .frameSizeError)
    case FrameType.ping:
      try require(streamID == 0)
      try require(length == 8, .frameSizeError)
    case FrameType.goAway:
      try require(streamID == 0)
      try require(length >= 8, .frameSizeError)
    case FrameType.pushPromise: throw .connection(.protocolError)
    // Section 4.1: frames of unknown types are ignored.
    default: break
    }
  }

  /// The content of HEADERS and DATA without the padding (section 6.1).
  @_lifetime(copy payload)
  func content(_ payload: Span<UInt8>) throws(SessionFailure) -> Span<UInt8> {
    guard has(FrameFlag.padded) else { return payload }
    guard !payload.isEmpty else { throw .connection(.frameSizeError) }
    let padding = Int(payload[0])
    guard padding < payload.count else { throw .connection(.protocolError) }
    return payload.extracting(1..<payload.count - padding)
  }

  /// The part of a header block in a HEADERS frame (section 6.2). RFC 7540's priorities (a stream and a weight) are
  /// ignored.
  @_lifetime(copy payload)
  func fragment(_ payload: Span<UInt8>) throws(SessionFailure) -> Span<UInt8> {
    let content = try content(payload)
    guard has(FrameFlag.priority) else { return content }
    try require(content.count >= 5, .frameSizeError)
    return content.extracting(5...)
  }
}
