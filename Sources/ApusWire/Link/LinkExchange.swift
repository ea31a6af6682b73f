import ApusModel

/// One request of a node's administration to that of the node that decides, and the answer to it, each on a connection
/// of its own. Layout of either: number of bytes that follow (4, big-endian), bytes.
package enum LinkExchange {
  package enum Reading: Sendable, Equatable {
    case incomplete
    case complete([UInt8])
    case tooLong
  }

  private static let headByteCount = 4

  package static func encode(_ message: [UInt8], to output: inout [UInt8]) {
    output.append(bigEndian: UInt32(message.count))
    output += message
  }

  /// Reads what has come of a message. What comes behind it is left out.
  package static func read(_ bytes: Span<UInt8>, atMost limitBytes: Int) -> Reading {
    guard bytes.count >= headByteCount else { return .incomplete }
    let count = Int(bytes.bigEndianUInt32(at: 0))
    guard count <= limitBytes else { return .tooLong }
    guard bytes.count >= headByteCount + count else { return .incomplete }
    return .complete(bytes.extracting(headByteCount..<headByteCount + count).copied())
  }
}
