/// JSON as a tree, for cold paths.
package indirect enum JSONValue: Sendable, Equatable {
  case null
  case bool(Bool)
  /// A number without fraction and exponent that fits into 64 bits.
  case integer(Int64)
  /// Any other number; beyond the range of `Double` it is infinite.
  case number(Double)
  case string(String)
  case array([JSONValue])
  case object(JSONObject)

  /// An object of the members that are not nil.
  package static func members(_ members: KeyValuePairs<String, JSONValue?>) -> JSONValue {
    .object(
      JSONObject(
        members.compactMap { key, value in value.map { JSONObject.Member(key: key, value: $0) } }))
  }

  package var string: String? {
    if case .string(let text) = self { text } else { nil }
  }

  package var bool: Bool? {
    if case .bool(let value) = self { value } else { nil }
  }

  /// A whole number, even if written with a fraction of zero.
  package var integer: Int64? {
    switch self {
    case .integer(let value): value
    case .number(let value): Self.whole(value)
    default: nil
    }
  }

  // `Int64(exactly:)` would need the C library's rounding functions, which nothing here links.
  private static func whole(_ value: Double) -> Int64? {
    guard value >= -0x1p63, value < 0x1p63 else { return nil }
    let truncated = Int64(value)
    return Double(truncated) == value ? truncated : nil
  }

  package var number: Double? {
    switch self {
    case .integer(let value): Double(value)
    case .number(let value): value
    default: nil
    }
  }

  package var array: [JSONValue]? {
    if case .array(let elements) = self { elements } else { nil }
  }

  package var object: JSONObject? {
    if case .object(let members) = self { members } else { nil }
  }

  /// The member of an object.
  package subscript(key: String) -> JSONValue? { object?[key] }
}

/// The members of an object in the order of the text.
package struct JSONObject: Sendable, Equatable {
  package struct Member: Sendable, Equatable {
    package var key: String
    package var value: JSONValue

    package init(key: String, value: JSONValue) {
      self.key = key
      self.value = value
    }
  }

  package var members: [Member]

  package init(_ members: [Member] = []) { self.members = members }

  /// The value of a key; the last one if the key repeats.
  package subscript(key: String) -> JSONValue? { members.last { $0.key == key }?.value }
}
