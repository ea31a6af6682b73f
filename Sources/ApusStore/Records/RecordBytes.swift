// Numbers in stored values are big-endian, so that keys sort as their numbers do.

/// Why a stored key or value cannot be read.
package enum RecordError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The version byte names a layout that this program does not know.
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
    case .trailingBytes(let count): "a record with \(count) bytes behind its end"
    }
  }
}

extension [UInt8] {
  mutating func append(bigEndian value: some FixedWidthInteger) {
    append(addingCapacity: value.bitWidth / 8) { output in
      var shift = value.bitWidth
      while shift > 0 {
        shift -= 8
        output.append(UInt8(truncatingIfNeeded: value &>> shift))
      }
    }
  }
}

/// Where a reader stands in a record. The bytes are passed to each call: the cursor holds none.
struct RecordCursor {
  private(set) var position = 0

  mutating func integer<Value: FixedWidthInteger>(
    _ field: StaticString, in bytes: Span<UInt8>
  ) throws(RecordError) -> Value {
    let range = try run(Value.bitWidth / 8, field, in: bytes)
    var value: Value = 0
    for index in range { value = value << 8 | Value(truncatingIfNeeded: bytes[index]) }
    return value
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

  /// Holds the record to its end.
  func end(in bytes: Span<UInt8>) throws(RecordError) {
    guard position == bytes.count else { throw .trailingBytes(bytes.count - position) }
  }
}
