import ApusModel

extension Span<UInt8> {
  /// Whether these bytes sort before `other`: byte by byte, and a prefix before its continuations.
  func precedes(_ other: Span<UInt8>) -> Bool {
    for index in 0..<Swift.min(count, other.count) where self[index] != other[index] {
      return self[index] < other[index]
    }
    return count < other.count
  }

  /// The first key after all that begin with these bytes: the bytes with the last one below 0xff incremented. Empty if
  /// there is none, because all are 0xff, or there are no bytes, and every key from them on begins with them.
  func firstBehind() -> [UInt8] {
    var end = count
    while end > 0 && self[end - 1] == 0xff { end -= 1 }
    var bound = extracting(..<end).copied()
    if end > 0 { bound[end - 1] += 1 }
    return bound
  }
}
