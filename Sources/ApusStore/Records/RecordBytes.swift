// Numbers in stored values are big-endian, so that keys sort like their numbers.

/// Why a stored key or value cannot be read.
package enum RecordError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The version byte is that of an unknown layout.
  case unknownVersion(UInt8)
  /// The record ends inside `field`.
  case truncated(field: String)
  /// `field` has a value that is never written.
  case malformed(field: String)
  /// Bytes follow the last field.
  case trailingBytes(Int)

  package var description: String {
    switch self {
    case .unknownVersion(let version): "a record of unknown version \(version)"
    case .truncated(let field): "a record that ends inside its field '\(field)'"
    case .malformed(let field): "a record with an impossible value in its field '\(field)'"
    case .trailingBytes(let count): "a record with \(count) bytes after its end"
    }
  }
}

extension [UInt8] {
  @inline(__always)
  mutating func append<Value: FixedWidthInteger & BitwiseCopyable>(bigEndian value: Value) {
    unsafe Swift.withUnsafeBytes(of: value.bigEndian) { unsafe append(contentsOf: $0) }
  }
}

extension OutputSpan<UInt8> {
  /// - Precondition: There is room.
  @inline(__always)
  mutating func append<Value: FixedWidthInteger & BitwiseCopyable>(bigEndian value: Value) {
    let size = MemoryLayout<Value>.size
    precondition(freeCapacity >= size, "no room")
    unsafe withUnsafeMutableBufferPointer { buffer, count in
      unsafe UnsafeMutableRawBufferPointer(buffer).storeBytes(
        of: value.bigEndian, toByteOffset: count, as: Value.self)
      count += size
    }
  }

  /// - Precondition: There is room.
  @inline(__always)
  mutating func append(copying source: Span<UInt8>) {
    precondition(freeCapacity >= source.count, "no room")
    unsafe withUnsafeMutableBufferPointer { buffer, count in
      unsafe source.withUnsafeBytes { bytes in
        unsafe UnsafeMutableRawBufferPointer(
          rebasing: UnsafeMutableRawBufferPointer(buffer)[count...]
        )
        .copyMemory(from: bytes)
      }
      count += source.count
    }
  }
}

/// A reader's position in a record. The bytes are passed to each call: the cursor does not hold them.
struct RecordCursor {
  private(set) var position = 0

  @inline(__always)
  mutating func integer<Value: FixedWidthInteger & BitwiseCopyable>(
    _ field: StaticString, in bytes: Span<UInt8>
  ) throws(RecordError) -> Value {
    let size = MemoryLayout<Value>.size
    guard size <= bytes.count - position else { throw .truncated(field: "\(field)") }
    // In bounds: see above.
    let value = unsafe bytes.bytes.unsafeLoadUnaligned(fromByteOffset: position, as: Value.self)
    position += size
    return Value(bigEndian: value)
  }

  /// The next `count` bytes.
  mutating func run(
    _ count: Int, _ field: StaticString, in bytes: Span<UInt8>
  ) throws(RecordError) -> Range<Int> {
    guard count <= bytes.count - position else { throw .truncated(field: "\(field)") }
    let range = position..<position + count
    position = range.upperBound
    return range
  }

  /// Checks that the record ends here.
  func end(in bytes: Span<UInt8>) throws(RecordError) {
    guard position == bytes.count else { throw .trailingBytes(bytes.count - position) }
  }
}
