// Comparing and copying bytes without building a String. Names on the wire are `StaticString`s, each spelled once, in
// the type that it belongs to.

extension StaticString {
  /// The text as bytes, for tables that are built once.
  public var bytes: [UInt8] { Array(description.utf8) }
}

extension Span<UInt8> {
  /// Whether the bytes are exactly those of `text`.
  @inlinable
  public func equals(_ text: StaticString) -> Bool {
    count == text.utf8CodeUnitCount && matches(text, at: 0)
  }

  /// Whether the bytes equal `text`, ignoring the case of ASCII letters. `text` must be lower case.
  @inlinable
  public func equalsIgnoringCase(_ text: StaticString) -> Bool {
    guard count == text.utf8CodeUnitCount else { return false }
    return text.withUTF8Buffer { name in
      for index in indices {
        let byte = self[index]
        let lower = byte &- 0x41 < 26 ? byte | 0x20 : byte
        if unsafe lower != name[index] { return false }
      }
      return true
    }
  }

  /// Whether the bytes end with `text`.
  @inlinable
  public func endsWith(_ text: StaticString) -> Bool {
    let offset = count - text.utf8CodeUnitCount
    return offset >= 0 && matches(text, at: offset)
  }

  @inlinable
  func matches(_ text: StaticString, at offset: Int) -> Bool {
    let length = text.utf8CodeUnitCount
    let part = extracting(offset..<offset + length)
    return text.withUTF8Buffer { name in
      unsafe part.equals(Span(_unsafeElements: name))
    }
  }

  /// Whether both spans hold the same bytes.
  ///
  /// Compares whole words, the last one overlapping its predecessor: names have 4 to 17 bytes, and a loop over single
  /// bytes takes ten times as long.
  @inlinable
  public func equals(_ other: Span<UInt8>) -> Bool {
    let length = count
    guard length == other.count else { return false }
    let left = unsafe bytes
    let right = unsafe other.bytes
    if length >= 8 {
      var offset = 0
      while offset < length - 8 {
        if left.word(offset) != right.word(offset) { return false }
        offset += 8
      }
      return left.word(length - 8) == right.word(length - 8)
    }
    if length >= 4 {
      return left.halfWord(0) == right.halfWord(0)
        && left.halfWord(length - 4) == right.halfWord(length - 4)
    }
    for index in indices where self[index] != other[index] { return false }
    return true
  }

  /// The number of leading bytes that both spans share.
  ///
  /// Compares 64 bytes at a time while they are equal, then word by word up to the first difference.
  public func commonPrefixCount(with other: Span<UInt8>) -> Int {
    let limit = Swift.min(count, other.count)
    return unsafe bytes.withUnsafeBytes { left in
      unsafe other.bytes.withUnsafeBytes { right in
        var index = 0
        while limit &- index >= 64 {
          let difference =
            unsafe left.loadUnaligned(fromByteOffset: index, as: SIMD8<UInt64>.self)
            ^ right.loadUnaligned(fromByteOffset: index, as: SIMD8<UInt64>.self)
          let halves = difference.lowHalf | difference.highHalf
          let quarters = halves.lowHalf | halves.highHalf
          guard quarters[0] | quarters[1] == 0 else { break }
          index &+= 64
        }
        while limit &- index >= 8 {
          let difference =
            unsafe left.loadUnaligned(fromByteOffset: index, as: UInt64.self)
            ^ right.loadUnaligned(fromByteOffset: index, as: UInt64.self)
          guard difference == 0 else {
            return index &+ difference.littleEndian.trailingZeroBitCount &>> 3
          }
          index &+= 8
        }
        while unsafe index < limit && left[index] == right[index] { index &+= 1 }
        return index
      }
    }
  }

  /// The eight bytes at `offset`, which must be in range, as a big-endian number.
  @inlinable @inline(__always)
  public func eightBytes(at offset: Int) -> UInt64 { unsafe UInt64(bigEndian: bytes.word(offset)) }

  /// The four bytes at `offset`, likewise.
  @inlinable @inline(__always)
  public func fourBytes(at offset: Int) -> UInt64 {
    unsafe UInt64(UInt32(bigEndian: bytes.halfWord(offset)))
  }

  /// The sixteen bytes at `offset`, which must be in range, as a vector of signed numbers.
  @inlinable @inline(__always)
  public func sixteenBytes(at offset: Int) -> SIMD16<Int8> {
    unsafe bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: SIMD16<Int8>.self)
  }

  /// A copy of the bytes.
  @inlinable
  public func copied() -> [UInt8] {
    let count = count
    return [UInt8](capacity: count) { output in
      for index in 0..<count { output.append(self[index]) }
    }
  }

  /// The bytes as text. It allocates: use it for messages and set-up, not on a hot path.
  public var text: String { String(decoding: copied(), as: UTF8.self) }
}

extension MutableSpan<UInt8> {
  /// Writes eight bytes at `offset`, which must be in range, the most significant first.
  @inlinable @inline(__always)
  public mutating func setEightBytes(_ bytes: UInt64, at offset: Int) {
    var target = unsafe mutableBytes
    target.storeBytes(of: bytes.bigEndian, toByteOffset: offset, as: UInt64.self)
  }

  /// Writes the four low bytes at `offset`, likewise.
  @inlinable @inline(__always)
  public mutating func setFourBytes(_ bytes: UInt64, at offset: Int) {
    var target = unsafe mutableBytes
    let low = UInt32(truncatingIfNeeded: bytes)
    target.storeBytes(of: low.bigEndian, toByteOffset: offset, as: UInt32.self)
  }
}

extension OutputSpan<UInt8> {
  /// Appends `source`. It must fit.
  @inlinable
  public mutating func append(copying source: Span<UInt8>) {
    let length = source.count
    precondition(length <= freeCapacity, "no room")
    unsafe withUnsafeMutableBufferPointer { target, count in
      unsafe source.withUnsafeBufferPointer { source in
        guard let from = source.baseAddress, let to = target.baseAddress else { return }
        unsafe (to + count).initialize(from: from, count: length)
      }
      count += length
    }
  }
}

extension SIMDMask<SIMD16<Int8>> {
  /// The index of the first lane that is set; 16 if none is.
  @inlinable @inline(__always)
  public var firstLane: Int {
    let words = unsafe unsafeBitCast(self, to: SIMD2<UInt64>.self)
    if words[0] != 0 { return words[0].trailingZeroBitCount &>> 3 }
    return 8 &+ words[1].trailingZeroBitCount &>> 3
  }

  /// Whether any lane is set.
  @inlinable @inline(__always)
  public var hasLane: Bool {
    let words = unsafe unsafeBitCast(self, to: SIMD2<UInt64>.self)
    return words[0] | words[1] != 0
  }
}

extension RawSpan {
  /// The eight bytes at `offset`, in native byte order. Traps if they are out of range.
  @inlinable @inline(__always)
  func word(_ offset: Int) -> UInt64 {
    unsafe unsafeLoadUnaligned(fromByteOffset: offset, as: UInt64.self)
  }

  /// The four bytes at `offset`, likewise.
  @inlinable @inline(__always)
  func halfWord(_ offset: Int) -> UInt32 {
    unsafe unsafeLoadUnaligned(fromByteOffset: offset, as: UInt32.self)
  }
}

extension [UInt8] {
  /// Overwrites the elements from `offset` on with `source`, which must fit.
  ///
  /// `source` cannot be part of this array: the exclusive access rules that out. A loop over two spans is as fast for
  /// long runs, but sets up a dozen vector registers for short ones, and header fields are short.
  @inlinable
  public mutating func write(_ source: Span<UInt8>, at offset: Int) {
    let length = source.count
    precondition(offset >= 0 && length <= count - offset, "no room")
    unsafe withUnsafeMutableBufferPointer { target in
      unsafe source.withUnsafeBufferPointer { source in
        guard let from = source.baseAddress, let to = target.baseAddress else { return }
        unsafe (to + offset).update(from: from, count: length)
      }
    }
  }

  /// Appends `source`.
  @inlinable
  public mutating func append(_ source: Span<UInt8>) {
    unsafe source.withUnsafeBufferPointer { unsafe append(contentsOf: $0) }
  }

  /// Appends the bytes of `text`.
  @inlinable
  public mutating func append(_ text: StaticString) {
    text.withUTF8Buffer { unsafe append(contentsOf: $0) }
  }
}
