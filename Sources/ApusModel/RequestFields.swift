/// The header fields of one request or answer: those of ``HeaderName``, in one reusable run of bytes.
///
/// A request is read once from the connection's bytes into this value and looked at many times, so the values lie
/// one behind the other and a table says where each begins. `removeAll` keeps the memory for the next request.
public struct RequestFields: Sendable {
  struct Place: Sendable {
    var offset: UInt16 = 0
    var length: UInt16 = 0
    var occurrences: UInt8 = 0
  }

  private var bytes: [UInt8]
  private var used = 0
  private var places = InlineArray<18, Place>(repeating: Place())

  /// Makes room for the values that `Limits.headerListBytes` allows.
  public init() {
    bytes = [UInt8](repeating: 0, count: Limits.headerListBytes)
  }

  /// Forgets every field and keeps the memory.
  public mutating func removeAll() {
    used = 0
    places = InlineArray(repeating: Place())
  }

  /// Takes one field.
  ///
  /// A second value of the same field is counted and not kept. Returns false when there is no room: the header list
  /// is longer than `Limits.headerListBytes`.
  public mutating func add(_ name: HeaderName, value: Span<UInt8>) -> Bool {
    let index = Int(name.rawValue)
    let occurrences = places[index].occurrences
    guard occurrences == 0 else {
      places[index].occurrences = occurrences == .max ? .max : occurrences + 1
      return true
    }
    guard used + value.count <= bytes.count else { return false }
    bytes.write(value, at: used)
    places[index] = Place(
      offset: UInt16(used), length: UInt16(value.count), occurrences: 1)
    used += value.count
    return true
  }

  /// Whether the field came at least once. An empty value counts.
  public func contains(_ name: HeaderName) -> Bool {
    places[Int(name.rawValue)].occurrences > 0
  }

  /// How often the field came.
  public func occurrences(of name: HeaderName) -> Int {
    Int(places[Int(name.rawValue)].occurrences)
  }

  /// The first value of the field; empty when it did not come.
  @_lifetime(borrow self)
  public func value(_ name: HeaderName) -> Span<UInt8> {
    let place = places[Int(name.rawValue)]
    let start = Int(place.offset)
    return bytes.span.extracting(start..<start + Int(place.length))
  }
}
