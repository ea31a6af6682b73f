import ApusModel

/// Reads the frame headers of a connection's bytes ahead of the session, to bound the work that a peer can cause.
///
/// It examines every frame (RFC 9113, section 4.1) in about 5 ns before anything processes it: bytes that exceed a
/// limit are not processed at all. It also knows whether the peer stopped in the middle of a frame, which is how
/// slowly dribbled frames are detected.
struct FrameWatch: Sendable {
  private static let headerLength = FrameHead.byteCount
  private static let prefaceLength = 24

  /// Bytes of the preface or of a payload still to come.
  private var skip: Int
  /// An incomplete frame header.
  private var partial = InlineArray<9, UInt8>(repeating: 0)
  private var partialCount = 0
  private var type: UInt8 = FrameType.settings
  private var continuations = 0
  private var isInHeaderBlock = false
  private var highestStreamID: UInt32 = 0

  /// Frames whose header was read, a header block counted once. The first is the SETTINGS of the preface.
  private var unitCount = 0
  var resets: TokenBucket
  var idleFrames: TokenBucket

  init(nowMilliseconds: UInt64) {
    skip = Self.prefaceLength
    resets = TokenBucket(
      capacity: Limits.resetBurst, perSecond: Limits.resetsPerSecond,
      nowMilliseconds: nowMilliseconds)
    idleFrames = TokenBucket(
      capacity: Limits.idleFrameBurst, perSecond: Limits.idleFramesPerSecond,
      nowMilliseconds: nowMilliseconds)
  }

  /// Whether the peer has not completed a unit that nothing else can interrupt: the preface, a frame, a header block.
  ///
  /// The rest of a DATA frame does not count: it belongs to a request, and requests have their own timeout.
  var isInsideUnit: Bool {
    if unitCount == 0 || isInHeaderBlock || partialCount > 0 { return true }
    return skip > 0 && type != FrameType.data
  }

  /// The number of the preface, frame or header block that contains the last byte.
  var unit: Int { partialCount > 0 && !isInHeaderBlock ? unitCount + 1 : unitCount }

  /// Processes the next bytes; returns the limit that they exceed, if any.
  mutating func advance(_ bytes: Span<UInt8>, nowMilliseconds: UInt64) -> Flood? {
    resets.refill(nowMilliseconds: nowMilliseconds)
    idleFrames.refill(nowMilliseconds: nowMilliseconds)
    var offset = 0
    while offset < bytes.count {
      if skip > 0 {
        let count = min(skip, bytes.count - offset)
        skip -= count
        offset += count
        continue
      }
      if partialCount == 0, bytes.count - offset >= Self.headerLength {
        let length = Int(bytes[offset]) << 16 | Int(bytes[offset + 1]) << 8 | Int(bytes[offset + 2])
        let streamID =
          UInt32(bytes[offset + 5] & 0x7f) << 24 | UInt32(bytes[offset + 6]) << 16
          | UInt32(bytes[offset + 7]) << 8 | UInt32(bytes[offset + 8])
        let flood = begin(
          type: bytes[offset + 3], flags: bytes[offset + 4], length: length, streamID: streamID)
        if let flood { return flood }
        offset += Self.headerLength
        continue
      }
      partial[partialCount] = bytes[offset]
      partialCount += 1
      offset += 1
      if partialCount == Self.headerLength, let flood = beginFromPartial() { return flood }
    }
    return nil
  }

  private mutating func beginFromPartial() -> Flood? {
    partialCount = 0
    let length = Int(partial[0]) << 16 | Int(partial[1]) << 8 | Int(partial[2])
    let streamID =
      UInt32(partial[5] & 0x7f) << 24 | UInt32(partial[6]) << 16 | UInt32(partial[7]) << 8
      | UInt32(partial[8])
    return begin(type: partial[3], flags: partial[4], length: length, streamID: streamID)
  }

  private mutating func begin(type: UInt8, flags: UInt8, length: Int, streamID: UInt32) -> Flood? {
    self.type = type
    skip = length
    if type != FrameType.continuation { unitCount += 1 }
    switch type {
    case FrameType.headers:
      isInHeaderBlock = flags & FrameFlag.endHeaders == 0
      continuations = 0
      if streamID > highestStreamID {
        highestStreamID = streamID
        idleFrames.credit(Limits.idleFramesPerRequest)
        return nil
      }
      return idleFrames.take() ? nil : .idleFrames
    case FrameType.data:
      // Also with END_STREAM: one such frame belongs to each request, and the request pays for it.
      guard length < Limits.smallDataBytes else { return nil }
      return idleFrames.take() ? nil : .idleFrames
    case FrameType.continuation:
      continuations += 1
      if flags & FrameFlag.endHeaders != 0 { isInHeaderBlock = false }
      return continuations > Limits.continuationFrames ? .continuations : nil
    case FrameType.resetStream:
      return resets.take() ? nil : .resets
    case FrameType.settings:
      let cost = Limits.settingsFrameCost + length / Limits.settingsBytesPerFrame
      return idleFrames.take(cost) ? nil : .idleFrames
    default:
      return idleFrames.take() ? nil : .idleFrames
    }
  }
}
