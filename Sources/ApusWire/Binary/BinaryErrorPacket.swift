package import ApusModel

/// The response to a notification: `08 status:u8 identifier:4`. It is the last packet of a connection, except on
/// listeners that confirm.
///
/// Source: "Binary Provider API", "The format of the error-response packet".
package struct BinaryErrorPacket: Sendable, Hashable {
  package static let byteCount = 6
  /// The packet's first byte.
  package static let command: UInt8 = 8

  /// A `BinaryStatus`, or an undefined number, which a reader must accept.
  package var status: UInt8
  /// The four opaque bytes of the notification concerned; with status 10, of the last accepted one. 0 if the service
  /// cannot tell, though notifications may use 0 as well.
  package var identifier: UInt32

  package init(status: BinaryStatus, identifier: UInt32) {
    self.status = status.rawValue
    self.identifier = identifier
  }

  /// Reads a packet; nil unless the bytes are exactly one, with its command and length.
  package init?(_ bytes: Span<UInt8>) {
    guard bytes.count == Self.byteCount, bytes[0] == Self.command else { return nil }
    status = bytes[1]
    identifier = bytes.bigEndianUInt32(at: 2)
  }

  package func append(to output: inout [UInt8]) {
    output.append(addingCapacity: Self.byteCount) { output in
      output.append(Self.command)
      output.append(status)
      output.append(bigEndian: identifier)
    }
  }
}
