/// Why bytes are not the JSON that was asked for. Offsets count bytes from the first.
package enum JSONFault: Error, Sendable, Hashable {
  /// Nothing, or nothing but white space.
  case empty
  /// A payload whose first byte begins another thing than an object.
  case notObject
  /// An end inside a value.
  case truncated
  /// A byte that the grammar of RFC 8259 does not have there.
  case badToken(offset: Int)
  /// A sequence, beginning at this offset, that is not UTF-8 (RFC 3629).
  case badUTF8(offset: Int)
  /// A container deeper than `Limits.payloadDepth`.
  case tooDeep(offset: Int)
  /// Something behind the value.
  case trailingBytes(offset: Int)
}

extension JSONFault: CustomStringConvertible {
  package var description: String {
    switch self {
    case .empty: "there is no JSON"
    case .notObject: "the JSON is not an object"
    case .truncated: "the JSON ends too early"
    case .badToken(let offset): "the JSON has an unexpected byte at offset \(offset)"
    case .badUTF8(let offset): "the JSON is not UTF-8 at offset \(offset)"
    case .tooDeep(let offset): "the JSON is nested too deep at offset \(offset)"
    case .trailingBytes(let offset): "the JSON ends before offset \(offset), where more follows"
    }
  }
}
