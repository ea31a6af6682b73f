import ApusModel

/// Writes the primitives of RFC 7541, section 5, into memory that is reserved for a header block.
@safe struct HeaderWriter: ~Copyable {
  private let base: UnsafeMutablePointer<UInt8>
  private let room: Int
  private(set) var count = 0

  /// - Parameter base: `room` bytes.
  init(at base: UnsafeMutablePointer<UInt8>, room: Int) {
    unsafe self.base = base
    self.room = room
  }

  mutating func put(_ byte: UInt8) {
    precondition(count < room, "header list too long")
    unsafe base[count] = byte
    count &+= 1
  }

  /// A number after the bits of `pattern` (section 5.1).
  mutating func put(_ number: Int, prefixBits: Int, _ pattern: UInt8) {
    let most = (1 &<< prefixBits) &- 1
    guard number >= most else { return put(pattern | UInt8(truncatingIfNeeded: number)) }
    put(pattern | UInt8(truncatingIfNeeded: most))
    var rest = number &- most
    while rest >= 128 {
      put(UInt8(truncatingIfNeeded: rest & 127 | 128))
      rest &>>= 7
    }
    put(UInt8(truncatingIfNeeded: rest))
  }

  mutating func put(_ bytes: Span<UInt8>) {
    precondition(bytes.count <= room - count, "header list too long")
    unsafe FrameOutput.put(bytes, at: base + count)
    count &+= bytes.count
  }

  /// A string without Huffman coding (section 5.2).
  mutating func putString(_ bytes: Span<UInt8>) {
    put(bytes.count, prefixBits: 7, 0)
    put(bytes)
  }

  mutating func putString(_ text: StaticString) {
    unsafe putString(
      Span(
        _unsafeElements: UnsafeBufferPointer(
          start: text.utf8Start, count: text.utf8CodeUnitCount)))
  }
}
