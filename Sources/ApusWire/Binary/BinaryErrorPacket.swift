package import ApusModel

/// What a provider is told about a notification: `08 status:u8 identifier:4`. It is the last thing that a connection
/// says, except on listeners that confirm.
///
/// Source: "Binary Provider API", "The format of the error-response packet".
package struct BinaryErrorPacket: Sendable, Hashable {
  package static let byteCount = 6
  /// The number that the packet begins with.
  package static let command: UInt8 = 8

  /// A `BinaryStatus`, or a number that nobody has defined: a reader must live with those.
  package var status: UInt8
  /// The four opaque bytes of the notification meant; with status 10 the last one that was accepted. 0 where the
  /// service cannot tell, though notifications may have that identifier as well.
  package var identifier: UInt32

  package init(status: BinaryStatus, identifier: UInt32) {
    self.status = status.rawValue
    self.identifier = identifier
  }

  /// Reads a packet; nil for what is not exactly one, with its command and length.
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
