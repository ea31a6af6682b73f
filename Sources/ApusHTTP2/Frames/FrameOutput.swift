import ApusModel

/// The pending output of a session, in order.
@safe struct FrameOutput: ~Copyable {
  private var memory = unsafe UnsafeMutableBufferPointer<UInt8>(start: nil, count: 0)
  private var start = 0
  private var end = 0
  /// All bytes taken so far.
  private(set) var takenBytes: UInt64 = 0
  /// Whether memory is kept for the next output.
  private let keepsMemory: Bool

  /// RST_STREAM frames and acknowledgements in the output, counted since it was last empty.
  private var resetCount = 0
  private var acknowledgementCount = 0

  private static let leastBytes = 2048
  private static let keptBytes = 262_144

  /// - Parameter keepsMemory: Whether up to 256 KiB are kept while it is empty. Otherwise it holds no memory then.
  init(keepsMemory: Bool = false) { self.keepsMemory = keepsMemory }

  deinit { unsafe memory.deallocate() }

  var isEmpty: Bool { start == end }
  var count: Int { end - start }
  /// The value of `takenBytes` once everything in the output is taken.
  var position: UInt64 { takenBytes + UInt64(count) }

  /// Moves up to `limit` bytes to the end of `buffer`.
  mutating func take(into buffer: inout [UInt8], limit: Int) {
    let count = min(limit, self.count)
    guard count > 0 else { return }
    unsafe buffer.append(contentsOf: UnsafeBufferPointer(rebasing: memory[start..<start + count]))
    start += count
    takenBytes += UInt64(count)
    guard isEmpty else { return }
    (start, end) = (0, 0)
    (resetCount, acknowledgementCount) = (0, 0)
    guard unsafe !keepsMemory || memory.count > Self.keptBytes else { return }
    unsafe memory.deallocate()
    unsafe memory = .init(start: nil, count: 0)
  }

  /// Drops what follows a position that was not taken yet.
  mutating func truncate(to position: UInt64) {
    end = start + Int(position - takenBytes)
  }

  /// Reserves `count` bytes, which `body` writes; it returns how many it wrote.
  mutating func write(upTo count: Int, _ body: (UnsafeMutablePointer<UInt8>) -> Int) {
    if unsafe memory.count - end < count { grow(by: count) }
    guard let base = unsafe memory.baseAddress else { return }
    end += unsafe body(base + end)
  }

  private mutating func grow(by count: Int) {
    let size = max(Self.leastBytes, 2 * (self.count + count))
    let larger = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: size)
    if let from = unsafe memory.baseAddress, let to = larger.baseAddress {
      unsafe to.update(from: from + start, count: self.count)
    }
    unsafe memory.deallocate()
    unsafe memory = larger
    (start, end) = (0, self.count)
  }

  // MARK: Frames

  /// Appends a reset that the peer caused; throws if it reads too few of them.
  mutating func appendReset(
    _ streamID: Int32, _ code: HTTP2ErrorCode
  ) throws(SessionFailure) {
    guard resetCount < Limits.pendingResets else { throw .streams }
    resetCount += 1
    append(FrameType.resetStream, streamID: streamID, number: code.rawValue)
  }

  /// Appends an acknowledgement; throws if the peer reads too few of them.
  mutating func acknowledge(
    _ type: UInt8, _ payload: Span<UInt8>
  ) throws(SessionFailure) {
    guard acknowledgementCount < Limits.pendingAcknowledgements else {
      throw .connection(.enhanceYourCalm)
    }
    acknowledgementCount += 1
    append(type, flags: FrameFlag.acknowledge, payload: payload)
  }

  /// Appends a frame.
  mutating func append(
    _ type: UInt8, flags: UInt8 = 0, streamID: Int32 = 0, payload: Span<UInt8>
  ) {
    unsafe write(upTo: FrameHead.byteCount + payload.count) { target in
      unsafe Self.putHead(target, payload.count, type, flags, streamID)
      unsafe Self.put(payload, at: target + FrameHead.byteCount)
      return FrameHead.byteCount + payload.count
    }
  }

  /// Appends bytes that are already frames.
  mutating func append(frames: [UInt8]) {
    unsafe write(upTo: frames.count) { target in
      unsafe Self.put(frames.span, at: target)
      return frames.count
    }
  }

  /// Appends a frame with one number: RST_STREAM or WINDOW_UPDATE.
  mutating func append(_ type: UInt8, streamID: Int32, number: UInt32) {
    let bytes: InlineArray<4, UInt8> = [
      UInt8(truncatingIfNeeded: number >> 24), UInt8(truncatingIfNeeded: number >> 16),
      UInt8(truncatingIfNeeded: number >> 8), UInt8(truncatingIfNeeded: number),
    ]
    append(type, streamID: streamID, payload: bytes.span)
  }

  /// Section 6.8.
  mutating func appendGoAway(_ code: HTTP2ErrorCode, last: Int32, debugData: [UInt8] = []) {
    var payload: [UInt8] = []
    for number in [UInt32(last), code.rawValue] {
      for shift in [24, 16, 8, 0] as [UInt32] {
        payload.append(UInt8(truncatingIfNeeded: number >> shift))
      }
    }
    payload += debugData
    append(FrameType.goAway, payload: payload.span)
  }

  static func putHead(
    _ target: UnsafeMutablePointer<UInt8>, _ length: Int, _ type: UInt8, _ flags: UInt8,
    _ streamID: Int32
  ) {
    unsafe target[0] = UInt8(truncatingIfNeeded: length &>> 16)
    unsafe target[1] = UInt8(truncatingIfNeeded: length &>> 8)
    unsafe target[2] = UInt8(truncatingIfNeeded: length)
    unsafe target[3] = type
    unsafe target[4] = flags
    unsafe UnsafeMutableRawPointer(target + 5).storeBytes(
      of: streamID.bigEndian, as: Int32.self)
  }

  static func put(_ bytes: Span<UInt8>, at target: UnsafeMutablePointer<UInt8>) {
    unsafe bytes.withUnsafeBufferPointer { source in
      if let from = source.baseAddress { unsafe target.update(from: from, count: source.count) }
    }
  }
}
