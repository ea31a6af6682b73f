import ApusModel

/// One message about one client, between the node that has accepted its connection (the edge) and the one that serves
/// it. A link carries those of many clients.
///
/// Layout, numbers big-endian: number of the client (4), kind (1), number of bytes that follow (3), bytes. Each link
/// numbers its clients from 1 on, and uses no number twice. What comes for a number that one side has forgotten means
/// nothing.
package struct ClientFrame: Sendable, Equatable {
  package enum Kind: UInt8, Sendable {
    /// From the node that serves, first of all: how many workers it has (2). The number of the client is 0.
    case workers = 1
    /// From the edge: a ``ForwardedPeer``, and what the client has sent already.
    case open = 2
    /// From the node that serves: it has the client. Until then the edge sends no more of it, so that it can begin
    /// again if the link is lost.
    case opened = 3
    /// What the client sends or gets, as it is. The edge makes a TLS record of each: old clients depend on that.
    case bytes = 4
    /// So many bytes (4) of those that came were passed on.
    case credit = 5
    /// Nothing more comes. From the edge of a reader of feedback: it has everything.
    case finished = 6
    /// From the edge: it stops, and the client is to be told so in its protocol. What the client says meanwhile still
    /// comes. From the node that serves, for client 0: it stops, and new clients are for the next node.
    case stopping = 7
    /// The connection has ended. The last frame for its number.
    case ended = 8
    /// From the node that serves: a part of the ``ClientState``, its number first.
    case state = 9
    /// From the node that serves: so many bytes (4) of those that came of a device are dealt with, and what followed
    /// from them was sent before.
    case handled = 10
    /// From the node that serves: it stops, and the next node goes on with the device. The last frame for its number.
    case released = 11
    /// From the edge, in place of `open`: a ``ForwardedPeer`` without a certificate, and the ``ClientState``.
    case resume = 12
  }

  package let client: UInt32
  package let kind: Kind
  /// Where its content is in what was read.
  package let content: Range<Int>

  package enum Reading: Sendable, Equatable {
    case incomplete
    case complete(ClientFrame)
    case malformed
  }

  private static let headByteCount = 8
  /// The most bytes of a client in a frame.
  package static let pieceBytes = 65_536
  /// The description of a client has at most 65,538 bytes.
  private static let mostBytes = 131_072

  package static func encode(
    _ kind: Kind, of client: UInt32, _ content: Span<UInt8> = Span(), to output: inout [UInt8]
  ) {
    output.append(addingCapacity: headByteCount + content.count) { frame in
      frame.append(bigEndian: client)
      frame.append(bigEndian: UInt32(kind.rawValue) << 24 | UInt32(content.count))
      frame.append(copying: content)
    }
  }

  /// Encodes what a client sends or gets, in as many frames as it takes.
  package static func encode(
    bytes: Span<UInt8>, of client: UInt32, to output: inout [UInt8]
  ) {
    for start in stride(from: 0, to: bytes.count, by: pieceBytes) {
      let end = min(start + pieceBytes, bytes.count)
      encode(.bytes, of: client, bytes.extracting(start..<end), to: &output)
    }
  }

  /// Encodes a frame whose content is a number of bytes: `credit` or `handled`.
  package static func encode(
    _ kind: Kind, _ byteCount: UInt32, of client: UInt32, to output: inout [UInt8]
  ) {
    output.append(addingCapacity: headByteCount + 4) { frame in
      frame.append(bigEndian: client)
      frame.append(bigEndian: UInt32(kind.rawValue) << 24 | 4)
      frame.append(bigEndian: byteCount)
    }
  }

  /// Reads the frame at `offset`, and moves behind it if it is complete.
  package static func next(_ bytes: Span<UInt8>, at offset: inout Int) -> Reading {
    guard bytes.count - offset >= headByteCount else { return .incomplete }
    let head = bytes.bigEndianUInt32(at: offset + 4)
    let count = Int(head & 0xff_ffff)
    guard let kind = Kind(rawValue: UInt8(head >> 24)), count <= mostBytes else {
      return .malformed
    }
    let start = offset + headByteCount
    guard bytes.count - start >= count else { return .incomplete }
    offset = start + count
    return .complete(
      ClientFrame(
        client: bytes.bigEndianUInt32(at: start - headByteCount), kind: kind,
        content: start..<offset))
  }
}
