internal import ApusModel

// What a provider writes. A length on the wire is a u16: a token or payload of more than 65,535 bytes traps.
// Everything else is for the receiver to check.

extension [UInt8] {
  /// Appends a notification of command 0.
  ///
  /// - Precondition: neither `token` nor `payload` is longer than 65,535 bytes.
  package mutating func append(simple token: Span<UInt8>, payload: Span<UInt8>) {
    append(addingCapacity: 5 + token.count + payload.count) { output in
      output.append(BinaryCommand.simple.rawValue)
      output.append(measured: token)
      output.append(measured: payload)
    }
  }

  /// Appends a notification of command 1. `expiration` is in seconds since 1970; 0 means "do not store".
  ///
  /// - Precondition: neither `token` nor `payload` is longer than 65,535 bytes.
  package mutating func append(
    enhanced token: Span<UInt8>, payload: Span<UInt8>, identifier: UInt32, expiration: UInt32
  ) {
    append(addingCapacity: 13 + token.count + payload.count) { output in
      output.append(BinaryCommand.enhanced.rawValue)
      output.append(bigEndian: identifier)
      output.append(bigEndian: expiration)
      output.append(measured: token)
      output.append(measured: payload)
    }
  }

  /// Appends a notification of command 2: items 1 to 5 in order, without those that are nil.
  ///
  /// - Precondition: neither `token` nor `payload` is longer than 65,535 bytes.
  package mutating func append(
    framed token: Span<UInt8>, payload: Span<UInt8>, identifier: UInt32?, expiration: UInt32?,
    priority: UInt8?
  ) {
    let header = BinaryItem.headerBytes
    var length = 2 * header + token.count + payload.count
    if identifier != nil { length += header + 4 }
    if expiration != nil { length += header + 4 }
    if priority != nil { length += header + 1 }
    append(addingCapacity: BinaryFrame.headerBytes + length) { output in
      output.append(BinaryCommand.framed.rawValue)
      output.append(bigEndian: UInt32(length))
      output.appendField(BinaryItem.deviceToken.rawValue, token)
      output.appendField(BinaryItem.payload.rawValue, payload)
      if let identifier { output.appendField(BinaryItem.identifier.rawValue, identifier) }
      if let expiration { output.appendField(BinaryItem.expiration.rawValue, expiration) }
      if let priority { output.appendField(BinaryItem.priority.rawValue, priority) }
    }
  }
}

extension OutputSpan<UInt8> {
  /// The length as a u16, then the bytes.
  mutating func append(measured bytes: Span<UInt8>) {
    precondition(bytes.count <= UInt16.max, "a length on the wire is at most 65,535")
    append(bigEndian: UInt16(truncatingIfNeeded: bytes.count))
    append(copying: bytes)
  }
}
