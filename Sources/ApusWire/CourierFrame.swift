internal import ApusModel

// frame = command:u8 length:u32be field*     (the length counts the fields only)
// field = id:u8 length:u16be value

/// A complete frame: the location of its fields.
package struct CourierFrame: Sendable {
  /// Bytes of a frame before its fields.
  package static let headerBytes = 5

  /// A `CourierCommand`, or an unknown number.
  package let command: UInt8
  /// The frame assembled from several inputs; empty for a frame within a single input.
  let assembled: [UInt8]
  let range: Range<Int>

  /// Appends a frame with these fields.
  package static func append(
    _ command: UInt8, _ fields: Span<UInt8>, to output: inout [UInt8]
  ) {
    output.append(command)
    output.append(bigEndian: UInt32(fields.count))
    output.append(fields)
  }

  /// The fields. `input` must be the span that the frame was read from.
  @_lifetime(copy input, borrow self)
  package func fields(in input: Span<UInt8>) -> Span<UInt8> {
    if assembled.isEmpty { return input.extracting(range) }
    return assembled.span.extracting(range)
  }
}

/// Splits a stream of bytes into frames.
///
/// A frame within one input is not copied. The beginning of an incomplete frame is kept in memory that exists only as
/// long: a connection between frames holds none. Memory grows with the bytes received, not with what a header
/// announces.
package struct CourierFramer: Sendable {
  private var partial: [UInt8] = []

  package init() {}

  /// Bytes of an unfinished frame.
  package var partialBytes: Int { partial.count }

  /// The next frame of `input` from `offset` on; moves `offset` past it. Nil once the rest of the input is kept and
  /// more is needed. Do not use the framer after a fault.
  package mutating func next(
    _ input: Span<UInt8>, at offset: inout Int
  ) throws(CourierFault) -> CourierFrame? {
    guard partial.isEmpty else { return try nextAssembled(input, at: &offset) }
    let rest = input.extracting(offset...)
    guard let total = try Self.frameBytes(rest), total <= rest.count else {
      keep(rest, &offset)
      return nil
    }
    defer { offset += total }
    return CourierFrame(
      command: rest[0], assembled: [], range: offset + CourierFrame.headerBytes..<offset + total)
  }

  private mutating func nextAssembled(
    _ input: Span<UInt8>, at offset: inout Int
  ) throws(CourierFault) -> CourierFrame? {
    let header = CourierFrame.headerBytes
    if partial.count < header {
      keep(input.extracting(offset...).extracting(first: header - partial.count), &offset)
    }
    guard let total = try Self.frameBytes(partial.span) else { return nil }
    keep(input.extracting(offset...).extracting(first: total - partial.count), &offset)
    guard partial.count == total else { return nil }
    let assembled = partial
    partial = []
    return CourierFrame(command: assembled[0], assembled: assembled, range: header..<total)
  }

  /// The whole length of the frame at the front of `bytes`; nil before its header is complete.
  private static func frameBytes(_ bytes: Span<UInt8>) throws(CourierFault) -> Int? {
    guard bytes.count > 0 else { return nil }
    guard bytes[0] != 0 else { throw .commandZero }
    guard bytes.count >= CourierFrame.headerBytes else { return nil }
    let length = Int(bytes.bigEndianUInt32(at: 1))
    guard length <= Limits.courierFrameBytes else {
      throw .frameTooLong(command: bytes[0], length: length)
    }
    return CourierFrame.headerBytes + length
  }

  private mutating func keep(_ bytes: Span<UInt8>, _ offset: inout Int) {
    guard bytes.count > 0 else { return }
    partial.append(bytes)
    offset += bytes.count
  }
}
