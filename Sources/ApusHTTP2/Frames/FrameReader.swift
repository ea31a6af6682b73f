import ApusModel

/// Splits a peer's bytes into complete frames, after a client's preface (RFC 9113, sections 3.4 and 4.1).
///
/// A frame that arrives in one piece is used in place; otherwise it is assembled in a buffer, which is freed after it.
struct FrameReader {
  /// A complete frame.
  struct Whole {
    var head: FrameHead
    /// The range of its payload in the input; nil if it is in `takeGathered`.
    var place: Range<Int>?
  }

  static let preface: StaticString = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
  private static let prefaceBytes = 24

  /// Bytes of the preface that have arrived, or that a server does not send.
  private var prefaceCount: Int
  /// An incomplete frame header.
  private var partialHead = InlineArray<9, UInt8>(repeating: 0)
  private var partialCount = 0
  /// The frame whose payload is incomplete.
  private var head: FrameHead?
  private var gathered: [UInt8] = []

  init(ofClient: Bool) { prefaceCount = ofClient ? 0 : Self.prefaceBytes }

  /// The next frame from `offset` on, which is moved past it. Nil once the whole input is consumed.
  mutating func next(
    _ input: Span<UInt8>, at offset: inout Int
  ) throws(SessionFailure) -> Whole? {
    if prefaceCount < Self.prefaceBytes { try takePreface(input, at: &offset) }
    guard let head = head ?? takeHead(input, at: &offset) else { return nil }
    guard head.length <= FrameHead.payloadBytes else { throw .connection(.frameSizeError) }
    if gathered.isEmpty, input.count - offset >= head.length {
      self.head = nil
      let start = offset
      offset += head.length
      return Whole(head: head, place: start..<offset)
    }
    self.head = head
    if gathered.isEmpty { gathered.reserveCapacity(head.length) }
    let count = min(head.length - gathered.count, input.count - offset)
    gathered.append(input.extracting(offset..<offset + count))
    offset += count
    guard gathered.count == head.length else { return nil }
    self.head = nil
    return Whole(head: head, place: nil)
  }

  /// The payload of the assembled frame.
  mutating func takeGathered() -> [UInt8] {
    var taken: [UInt8] = []
    swap(&taken, &gathered)
    return taken
  }

  private mutating func takePreface(
    _ input: Span<UInt8>, at offset: inout Int
  ) throws(SessionFailure) {
    let count = min(Self.prefaceBytes - prefaceCount, input.count - offset)
    let isRight = Self.preface.withUTF8Buffer { preface in
      unsafe input.extracting(offset..<offset + count).equals(
        Span(_unsafeElements: preface).extracting(prefaceCount..<prefaceCount + count))
    }
    guard isRight else { throw .connection(.protocolError) }
    prefaceCount += count
    offset += count
  }

  private mutating func takeHead(_ input: Span<UInt8>, at offset: inout Int) -> FrameHead? {
    if partialCount == 0, input.count - offset >= FrameHead.byteCount {
      let head = FrameHead(input.extracting(offset..<offset + FrameHead.byteCount))
      offset += FrameHead.byteCount
      return head
    }
    while offset < input.count {
      partialHead[partialCount] = input[offset]
      partialCount += 1
      offset += 1
      guard partialCount == FrameHead.byteCount else { continue }
      partialCount = 0
      return FrameHead(partialHead.span)
    }
    return nil
  }
}
