/// Why bytes are not a message of Protocol Buffers.
enum ProtobufFault: Error {
  /// It ends inside a field.
  case truncated
  /// A number of more than ten bytes, a field number 0, or a wire type that does not exist.
  case malformed
}

/// The fields of a message in the encoding of Protocol Buffers, in order. Source: "Encoding", Protocol Buffers
/// Documentation. Groups, which are deprecated, are rejected.
struct ProtobufReader: ~Escapable {
  enum Kind { case varint, bytes, fixed }

  struct Field: ~Escapable {
    let number: UInt64
    let kind: Kind
    /// Of a varint.
    let integer: UInt64
    /// Of the kind `bytes`; empty for others.
    let value: Span<UInt8>

    @_lifetime(copy value)
    init(number: UInt64, kind: Kind, integer: UInt64, value: Span<UInt8>) {
      self.number = number
      self.kind = kind
      self.integer = integer
      self.value = value
    }
  }

  private let bytes: Span<UInt8>
  /// Bytes read so far; the value of the last field ends there.
  private(set) var offset = 0

  @_lifetime(copy bytes)
  init(_ bytes: Span<UInt8>) { self.bytes = bytes }

  /// Nil at the end.
  @_lifetime(copy self)
  mutating func next() throws(ProtobufFault) -> Field? {
    guard offset < bytes.count else { return nil }
    let tag = try varint()
    let number = tag >> 3
    guard number > 0 else { throw .malformed }
    switch tag & 7 {
    case 0:
      let integer = try varint()
      return Field(number: number, kind: .varint, integer: integer, value: bytes.extracting(0..<0))
    case 1:
      return Field(number: number, kind: .fixed, integer: 0, value: try take(8).extracting(0..<0))
    case 2:
      let length = try varint()
      guard length <= UInt64(bytes.count - offset) else { throw .truncated }
      return Field(number: number, kind: .bytes, integer: 0, value: try take(Int(length)))
    case 5:
      return Field(number: number, kind: .fixed, integer: 0, value: try take(4).extracting(0..<0))
    default: throw .malformed
    }
  }

  @_lifetime(copy self)
  private mutating func take(_ count: Int) throws(ProtobufFault) -> Span<UInt8> {
    guard count <= bytes.count - offset else { throw .truncated }
    defer { offset += count }
    return bytes.extracting(offset..<offset + count)
  }

  private mutating func varint() throws(ProtobufFault) -> UInt64 {
    var number: UInt64 = 0
    for place in 0..<10 {
      guard offset < bytes.count else { throw .truncated }
      let byte = bytes[offset]
      offset += 1
      // The tenth byte has the last of 64 bits.
      guard place < 9 || byte <= 1 else { throw .malformed }
      number |= UInt64(byte & 0x7f) << UInt64(7 * place)
      if byte < 0x80 { return number }
    }
    throw .malformed
  }
}

extension [UInt8] {
  private mutating func appendVarint(_ number: UInt64) {
    var rest = number
    while rest >= 0x80 {
      append(UInt8(truncatingIfNeeded: rest) | 0x80)
      rest >>= 7
    }
    append(UInt8(rest))
  }

  mutating func appendProtobuf(_ number: UInt8, _ value: UInt64) {
    appendVarint(UInt64(number) << 3)
    appendVarint(value)
  }

  mutating func appendProtobuf(_ number: UInt8, _ value: [UInt8]) {
    appendVarint(UInt64(number) << 3 | 2)
    appendVarint(UInt64(value.count))
    append(contentsOf: value)
  }
}
