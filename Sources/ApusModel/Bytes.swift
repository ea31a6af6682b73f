// Comparing and copying bytes without building a String. StaticString keeps every name of the wire spelled once,
// in the type that it belongs to.

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

  /// Whether the bytes are those of `text`, apart from the case of ASCII letters. `text` is in lower case.
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

  /// Whether the last bytes are those of `text`.
  @inlinable
  public func endsWith(_ text: StaticString) -> Bool {
    let offset = count - text.utf8CodeUnitCount
    return offset >= 0 && matches(text, at: offset)
  }

  @inlinable
  func matches(_ text: StaticString, at offset: Int) -> Bool {
    text.withUTF8Buffer { name in
      for index in 0..<text.utf8CodeUnitCount where unsafe self[offset + index] != name[index] {
        return false
      }
      return true
    }
  }

  /// Whether two runs of bytes are the same.
  @inlinable
  public func equals(_ other: Span<UInt8>) -> Bool {
    guard count == other.count else { return false }
    for index in indices where self[index] != other[index] { return false }
    return true
  }

  /// A copy of the bytes.
  @inlinable
  public func copied() -> [UInt8] {
    let count = count
    return [UInt8](capacity: count) { output in
      for index in 0..<count { output.append(self[index]) }
    }
  }

  /// The bytes as text. For messages and set-up: never on a hot path.
  public var text: String { String(decoding: copied(), as: UTF8.self) }
}

extension [UInt8] {
  /// Writes `source` over the elements from `offset` on. There must be room.
  @inlinable
  public mutating func write(_ source: Span<UInt8>, at offset: Int) {
    let length = source.count
    precondition(offset >= 0 && offset + length <= count, "no room")
    var target = mutableSpan
    for index in 0..<length { target[offset + index] = source[index] }
  }

  /// Appends `source`.
  @inlinable
  public mutating func append(_ source: Span<UInt8>) {
    append(addingCapacity: source.count) { output in
      for index in source.indices { output.append(source[index]) }
    }
  }

  /// Appends the bytes of `text`.
  @inlinable
  public mutating func append(_ text: StaticString) {
    text.withUTF8Buffer { unsafe append(contentsOf: $0) }
  }
}
