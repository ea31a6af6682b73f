internal import ApusModel

// Output is an array that the caller owns and reuses: appending within its capacity allocates nothing.

extension [UInt8] {
  @inlinable
  package mutating func append(bigEndian value: UInt16) {
    append(UInt8(truncatingIfNeeded: value &>> 8))
    append(UInt8(truncatingIfNeeded: value))
  }

  @inlinable
  package mutating func append(bigEndian value: UInt32) {
    append(addingCapacity: 4) { output in output.append(bigEndian: value) }
  }

  @inlinable
  package mutating func append(bigEndian value: UInt64) {
    append(addingCapacity: 8) { output in output.append(bigEndian: value) }
  }

  /// Overwrites the two bytes at `offset` with `value`: for a length that is known only after its content is written.
  @inlinable
  package mutating func patch(bigEndian value: UInt16, at offset: Int) {
    self[offset] = UInt8(truncatingIfNeeded: value &>> 8)
    self[offset + 1] = UInt8(truncatingIfNeeded: value)
  }

  /// Overwrites the four bytes at `offset` with `value`.
  @inlinable
  package mutating func patch(bigEndian value: UInt32, at offset: Int) {
    patch(bigEndian: UInt16(truncatingIfNeeded: value &>> 16), at: offset)
    patch(bigEndian: UInt16(truncatingIfNeeded: value), at: offset + 2)
  }
}

// Where the size of a message is known, one `append(addingCapacity:)` and writes into its span avoid the array's
// checks for each byte.

extension OutputSpan<UInt8> {
  @inlinable @inline(__always)
  package mutating func append(bigEndian value: UInt16) {
    append(UInt8(truncatingIfNeeded: value &>> 8))
    append(UInt8(truncatingIfNeeded: value))
  }

  @inlinable @inline(__always)
  package mutating func append(bigEndian value: UInt32) {
    append(bigEndian: UInt16(truncatingIfNeeded: value &>> 16))
    append(bigEndian: UInt16(truncatingIfNeeded: value))
  }

  @inlinable @inline(__always)
  package mutating func append(bigEndian value: UInt64) {
    append(bigEndian: UInt32(truncatingIfNeeded: value &>> 32))
    append(bigEndian: UInt32(truncatingIfNeeded: value))
  }
}
