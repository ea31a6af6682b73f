public import ApusModel

// Everything on the wire is big-endian. The readers check every bound themselves: where a peer's bytes end too early,
// a span's subscript would trap.

extension Span<UInt8> {
  /// The two bytes at `offset`, which must be in range, as a number.
  @inlinable @inline(__always)
  package func bigEndianUInt16(at offset: Int) -> UInt16 {
    let bytes = extracting(offset..<offset + 2)
    return UInt16(bytes[0]) &<< 8 | UInt16(bytes[1])
  }

  /// The four bytes at `offset`, which must be in range, as a number.
  @inlinable @inline(__always)
  package func bigEndianUInt32(at offset: Int) -> UInt32 {
    UInt32(truncatingIfNeeded: fourBytes(at: offset))
  }

  /// The eight bytes at `offset`, which must be in range, as a number.
  @inlinable @inline(__always)
  package func bigEndianUInt64(at offset: Int) -> UInt64 { eightBytes(at: offset) }
}

/// Reads big-endian values from borrowed bytes. If too few bytes are left, a read returns nil and does not advance;
/// the caller decides whether to wait or to fail.
package struct ByteReader: ~Escapable {
  @usableFromInline let bytes: Span<UInt8>
  /// Bytes read so far.
  package private(set) var offset: Int

  @_lifetime(copy bytes)
  package init(_ bytes: Span<UInt8>) {
    self.bytes = bytes
    offset = 0
  }

  /// Bytes not read yet.
  package var remaining: Int { bytes.count - offset }

  /// Advances by `count` bytes and returns the old offset; nil if fewer are left.
  mutating func advance(_ count: Int) -> Int? {
    guard count >= 0, count <= remaining else { return nil }
    defer { offset += count }
    return offset
  }

  package mutating func u8() -> UInt8? {
    guard let start = advance(1) else { return nil }
    return bytes[start]
  }

  package mutating func u16() -> UInt16? {
    guard let start = advance(2) else { return nil }
    return bytes.bigEndianUInt16(at: start)
  }

  package mutating func u32() -> UInt32? {
    guard let start = advance(4) else { return nil }
    return bytes.bigEndianUInt32(at: start)
  }

  package mutating func u64() -> UInt64? {
    guard let start = advance(8) else { return nil }
    return bytes.bigEndianUInt64(at: start)
  }

  /// The next `count` bytes, borrowed.
  @_lifetime(copy self)
  package mutating func take(_ count: Int) -> Span<UInt8>? {
    guard let start = advance(count) else { return nil }
    return bytes.extracting(start..<start + count)
  }
}
