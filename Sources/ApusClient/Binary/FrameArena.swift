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

extension SentQueue {
  private static let leastEntries = 64
  private static let leastBytes = 16_384

  /// Drops entries that can no longer be needed.
  mutating func trim() {
    while tail < end, self[tail].state == .over {
      if tail == handed {
        // A notification that ended before it was written.
        guard next == handed else { return }
        next += 1
        handed += 1
      }
      tail += 1
    }
    firstOpen = max(firstOpen, tail)
  }

  /// Drops the oldest entry if it is over, or accepted by silence.
  private mutating func dropOldest() -> Bool {
    guard tail < handed, self[tail].state == .presumed || self[tail].state == .over else {
      return false
    }
    if self[tail].state == .presumed {
      droppedCount += 1
      droppedThrough = tail + 1
    }
    tail += 1
    firstOpen = max(firstOpen, tail)
    trim()
    return true
  }

  /// Ensures a free entry in the ring; false if it may not grow.
  mutating func makeRoomForEntry() -> Bool {
    guard end - tail == entries.count else { return true }
    let limit = 2 * window.frames
    if entries.count * 4 >= limit, dropOldest() { return true }
    guard entries.count < max(limit, Self.leastEntries) else { return dropOldest() }
    let empty = Entry(
      ticket: 0, id: NotificationID(high: 0, low: 0), deadlineMilliseconds: 0, offset: 0,
      byteCount: 0, state: .over)
    var grown = [Entry](repeating: empty, count: max(Self.leastEntries, 2 * entries.count))
    for place in tail..<end { grown[place & (grown.count - 1)] = self[place] }
    entries = grown
    return true
  }

  /// An offset for a frame of this length; nil if the window has no room.
  mutating func makeRoom(for byteCount: Int) -> Int? {
    while true {
      let oldest = tail < end ? self[tail].offset : nil
      if let offset = arena.place(for: byteCount, oldest: oldest) { return offset }
      if arena.bytes.count * 4 >= window.bytes, dropOldest() { continue }
      guard grow(for: byteCount) || dropOldest() else { return nil }
    }
  }

  private mutating func grow(for byteCount: Int) -> Bool {
    let size = min(max(2 * arena.bytes.count, byteCount, Self.leastBytes), window.bytes)
    guard size > arena.bytes.count else { return false }
    var grown = FrameArena()
    grown.bytes = [UInt8](repeating: 0, count: size)
    var offset = 0
    let old = arena.bytes
    for place in tail..<end {
      let (start, count) = (self[place].offset, Int(self[place].byteCount))
      grown.write(old.span.extracting(start..<start + count), at: offset)
      self[place].offset = offset
      offset += count
    }
    arena = grown
    return true
  }
}
