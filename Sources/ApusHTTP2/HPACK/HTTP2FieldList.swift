package import ApusModel

/// The header fields of one request, stored contiguously, as ``HTTP2ClientSession`` encodes them.
///
/// Reusable. Each field: its name (`HeaderName`, 1 byte), the length of its value (2 bytes), the value.
package struct HTTP2FieldList: Sendable {
  private var store: [UInt8] = []
  /// Bytes in use.
  package private(set) var byteCount = 0
  private(set) var count = 0
  /// Whether a field is the method; without one a request is a `POST`.
  private(set) var hasMethod = false

  static let headLength = 3

  package init() {}

  package mutating func removeAll() { (byteCount, count, hasMethod) = (0, 0, false) }

  package var span: Span<UInt8> {
    @_lifetime(borrow self)
    get { store.span.extracting(first: byteCount) }
  }

  /// Adds a field; the value has at most 65,535 bytes.
  package mutating func add(_ name: HeaderName, value: Span<UInt8>) {
    store.write(value, at: begin(name, length: value.count))
  }

  /// Adds a field with a constant value.
  package mutating func add(_ name: HeaderName, _ text: StaticString) {
    let place = begin(name, length: text.utf8CodeUnitCount)
    text.withUTF8Buffer { value in unsafe store.write(Span(_unsafeElements: value), at: place) }
  }

  /// Adds a field with an id in lower case.
  package mutating func add(_ name: HeaderName, _ id: NotificationID) {
    let place = begin(name, length: NotificationID.textLength)
    var output = store.mutableSpan
    id.writeLowercase(to: &output, at: place)
  }

  /// Adds a field whose value has two parts.
  package mutating func add(_ name: HeaderName, _ text: StaticString, _ rest: Span<UInt8>) {
    let length = text.utf8CodeUnitCount
    let place = begin(name, length: length + rest.count)
    text.withUTF8Buffer { value in unsafe store.write(Span(_unsafeElements: value), at: place) }
    store.write(rest, at: place + length)
  }

  /// Adds a field whose value is a constant, and bytes as lower-case digits.
  package mutating func add(
    _ name: HeaderName, _ text: StaticString, hexadecimal bytes: Span<UInt8>
  ) {
    let length = text.utf8CodeUnitCount
    let place = begin(name, length: length + 2 * bytes.count)
    text.withUTF8Buffer { value in unsafe store.write(Span(_unsafeElements: value), at: place) }
    var output = store.mutableSpan
    bytes.writeHexadecimal(to: &output, at: place + length)
  }

  /// Adds a field whose value ends with a constant.
  package mutating func add(_ name: HeaderName, value: Span<UInt8>, _ end: StaticString) {
    let place = begin(name, length: value.count + end.utf8CodeUnitCount)
    store.write(value, at: place)
    end.withUTF8Buffer { text in
      unsafe store.write(Span(_unsafeElements: text), at: place + value.count)
    }
  }

  /// Adds a field with a number, 0 or more.
  package mutating func add(_ name: HeaderName, number: UInt64) {
    var (digits, rest) = (1, number)
    while rest >= 10 { (digits, rest) = (digits + 1, rest / 10) }
    let place = begin(name, length: digits)
    var output = store.mutableSpan
    rest = number
    for index in stride(from: place + digits - 1, through: place, by: -1) {
      output[index] = 0x30 + UInt8(truncatingIfNeeded: rest % 10)
      rest /= 10
    }
  }

  /// Reserves room for a field. Returns the offset of its value.
  private mutating func begin(_ name: HeaderName, length: Int) -> Int {
    precondition(length <= Int(UInt16.max), "a value too long for a header field")
    let start = byteCount
    byteCount = start + Self.headLength + length
    count += 1
    if name == .method { hasMethod = true }
    if byteCount > store.count {
      var larger = [UInt8](repeating: 0, count: max(256, 2 * store.count, byteCount))
      larger.write(store.span, at: 0)
      store = larger
    }
    var output = store.mutableSpan
    output[start] = name.rawValue
    output[start + 1] = UInt8(truncatingIfNeeded: length &>> 8)
    output[start + 2] = UInt8(truncatingIfNeeded: length)
    return start + Self.headLength
  }
}
