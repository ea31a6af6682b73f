import ApusModel

/// Cuts what a client sends into its preface and whole frames (RFC 9113, sections 3.4 and 4.1).
///
/// A frame that arrived in one piece is lent where it lies; only one that did not is gathered in memory of its own,
/// which is given back behind it.
struct FrameReader {
  /// A frame that is whole.
  struct Whole {
    var head: FrameHead
    /// Where its payload lies in the input; nil: in what `takeGathered` gives.
    var place: Range<Int>?
  }

  private static let preface: StaticString = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
  private static let prefaceBytes = 24

  private var prefaceCount = 0
  /// A head of which the end is still to come.
  private var partialHead = InlineArray<9, UInt8>(repeating: 0)
  private var partialCount = 0
  /// The frame of which the payload is still to come.
  private var head: FrameHead?
  private var gathered: [UInt8] = []

  init() {}

  /// The next frame, from `offset` on, which moves behind it. Nil: `input` was taken to its end.
  mutating func next(
    _ input: Span<UInt8>, at offset: inout Int
  ) throws(HTTP2ServerSession.Failure) -> Whole? {
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

  /// The payload of the frame that was gathered.
  mutating func takeGathered() -> [UInt8] {
    var taken: [UInt8] = []
    swap(&taken, &gathered)
    return taken
  }

  private mutating func takePreface(
    _ input: Span<UInt8>, at offset: inout Int
  ) throws(HTTP2ServerSession.Failure) {
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
