import ApusModel

/// What a node has to know of a device's connection to go on with it where another node stopped.
///
/// The node that serves the device tells the edge, part by part (``ClientFrame/Kind/state``), and the edge gives all
/// parts to the next node (``ClientFrame/Kind/resume``). The edge itself only keeps them.
///
/// Layout: for each part its number (1), the number of bytes that follow (3, big-endian), bytes.
package struct ClientState: Sendable, Equatable {
  package enum Part: UInt8, Sendable {
    /// Who the device is, and by what its certificate is judged.
    case identity = 1
    /// The fields of its last filter.
    case filter = 2
    /// What else it has said of itself.
    case session = 3
  }

  package private(set) var bytes: [UInt8] = []
  private static let headByteCount = 4

  package init() {}

  /// Reads the parts that another node has sent; nil if they are malformed.
  package init?(_ bytes: Span<UInt8>) {
    var reader = ByteReader(bytes)
    while reader.remaining > 0 {
      guard reader.u8() != nil, let high = reader.u8(), let low = reader.u16(),
        reader.take(Int(high) << 16 | Int(low)) != nil
      else { return nil }
    }
    self.bytes = bytes.copied()
  }

  /// Whether a node can go on with the connection.
  package var isComplete: Bool { place(of: .identity) != nil && place(of: .filter) != nil }

  /// Where the bytes of a part are; nil if nothing is known of it.
  package func place(of part: Part) -> Range<Int>? { place(of: part.rawValue) }

  /// The bytes of a part; nil if nothing is known of it.
  package func bytes(of part: Part) -> [UInt8]? { place(of: part).map { Array(bytes[$0]) } }

  private func place(of number: UInt8) -> Range<Int>? {
    var start = 0
    while start < bytes.count {
      let end = end(ofPartAt: start)
      if bytes[start] == number { return start + Self.headByteCount..<end }
      start = end
    }
    return nil
  }

  /// Takes the content of a frame: the number of a part (1), and its bytes. They replace those known before.
  package mutating func take(_ content: Span<UInt8>) {
    guard content.count > 0 else { return }
    if let old = place(of: content[0]) {
      bytes.removeSubrange(old.lowerBound - Self.headByteCount..<old.upperBound)
    }
    let count = content.count - 1
    bytes.reserveCapacity(bytes.count + Self.headByteCount + count)
    bytes.append(bigEndian: UInt32(content[0]) << 24 | UInt32(count))
    bytes.append(content.extracting(1...))
  }

  private func end(ofPartAt start: Int) -> Int {
    let count = bytes.span.bigEndianUInt32(at: start) & 0xff_ffff
    return start + Self.headByteCount + Int(count)
  }
}
