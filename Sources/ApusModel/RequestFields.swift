/// The header fields of one request or answer: those of ``HeaderName``, in one reusable run of bytes.
///
/// A request is read once from the connection's bytes into this value and looked at many times, so the values lie
/// one behind the other and a table says where each begins. `removeAll` keeps the memory for the next request.
public struct RequestFields: Sendable {
  @usableFromInline
  struct Place: Sendable {
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
  @usableFromInline var places = InlineArray<18, Place>(repeating: Place())
  /// Whether any field came more than once.
  public private(set) var hasRepeatedField = false

  /// Makes room for the values that `Limits.headerListBytes` allows, or for fewer.
  public init(byteCapacity: Int = Limits.headerListBytes) {
    bytes = [UInt8](repeating: 0, count: min(byteCapacity, Limits.headerListBytes))
  }

  /// Forgets every field and keeps the memory.
  public mutating func removeAll() {
    used = 0
    hasRepeatedField = false
    for index in places.indices { places[index] = Place() }
  }

  /// Takes one field.
  ///
  /// A second value of the same field is counted and not kept. Returns false when there is no room: the header list
  /// is longer than `Limits.headerListBytes`.
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
    places[index] = Place(offset: used, length: value.count)
    used += value.count
    return true
  }

  @usableFromInline
  mutating func repeated(_ index: Int) {
    let occurrences = places[index].occurrences
    places[index].occurrences = occurrences == .max ? .max : occurrences + 1
    hasRepeatedField = true
  }

  /// Whether the field came at least once. An empty value counts.
  @inlinable
  public func contains(_ name: HeaderName) -> Bool {
    places[Int(name.rawValue)].occurrences > 0
  }

  /// How often the field came.
  @inlinable
  public func occurrences(of name: HeaderName) -> Int {
    Int(places[Int(name.rawValue)].occurrences)
  }

  /// The first value of the field; empty when it did not come.
  @inlinable
  @_lifetime(borrow self)
  public func value(_ name: HeaderName) -> Span<UInt8> {
    let place = places[Int(name.rawValue)]
    let start = Int(place.offset)
    return bytes.span.extracting(start..<start + Int(place.length))
  }
}
