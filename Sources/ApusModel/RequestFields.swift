/// The known header fields (``HeaderName``) of one request or response, in one reusable buffer.
///
/// A request is copied once from the connection's bytes into this value and then read many times. The values are
/// contiguous, and a table holds where each begins. `removeAll` keeps the memory for the next request.
public struct RequestFields: Sendable {
  @usableFromInline
  struct FieldRange: Sendable {
    @usableFromInline var offset: UInt16 = 0
    @usableFromInline var length: UInt16 = 0
    @usableFromInline var occurrences: UInt8 = 0

    @inlinable init() {}

    @inlinable init(offset: Int, length: Int) {
      self.offset = UInt16(truncatingIfNeeded: offset)
      self.length = UInt16(truncatingIfNeeded: length)
      occurrences = 1
    }
  }

  @usableFromInline var bytes: [UInt8]
  @usableFromInline var used = 0
  @usableFromInline var places = InlineArray<18, FieldRange>(repeating: FieldRange())
  /// Whether any field occurred more than once.
  public private(set) var hasRepeatedField = false

  /// Reserves the bytes that `Limits.headerListBytes` allows, or fewer.
  public init(byteCapacity: Int = Limits.headerListBytes) {
    bytes = [UInt8](repeating: 0, count: min(byteCapacity, Limits.headerListBytes))
  }

  /// Removes every field and keeps the memory.
  public mutating func removeAll() {
    used = 0
    hasRepeatedField = false
    for index in places.indices { places[index] = FieldRange() }
  }

  /// Adds one field.
  ///
  /// A second value of the same field is counted but not kept. Returns false if there is no room: the header list is
  /// longer than `Limits.headerListBytes`.
  @inlinable
  public mutating func add(_ name: HeaderName, value: Span<UInt8>) -> Bool {
    let index = Int(name.rawValue)
    guard places[index].occurrences == 0 else {
      repeated(index)
      return true
    }
    // Offsets and lengths fit their 16 bits because `bytes` is no longer than that.
    guard value.count <= bytes.count - used else { return false }
    bytes.write(value, at: used)
    places[index] = FieldRange(offset: used, length: value.count)
    used += value.count
    return true
  }

  @usableFromInline
  mutating func repeated(_ index: Int) {
    let occurrences = places[index].occurrences
    places[index].occurrences = occurrences == .max ? .max : occurrences + 1
    hasRepeatedField = true
  }

  /// Whether the field occurred. An empty value counts.
  @inlinable
  public func contains(_ name: HeaderName) -> Bool {
    places[Int(name.rawValue)].occurrences > 0
  }

  /// How often the field occurred.
  @inlinable
  public func occurrences(of name: HeaderName) -> Int {
    Int(places[Int(name.rawValue)].occurrences)
  }

  /// The first value of the field; empty if it did not occur.
  @inlinable
  @_lifetime(borrow self)
  public func value(_ name: HeaderName) -> Span<UInt8> {
    let place = places[Int(name.rawValue)]
    let start = Int(place.offset)
    return bytes.span.extracting(start..<start + Int(place.length))
  }
}
