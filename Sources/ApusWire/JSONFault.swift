/// Why bytes are not the expected JSON. Offsets count bytes from the first.
package enum JSONFault: Error, Sendable, Hashable {
  /// Empty, or only white space.
  case empty
  /// The payload's first byte does not begin an object.
  case notObject
  /// The bytes end inside a value.
  case truncated
  /// A byte that the grammar of RFC 8259 does not allow there.
  case badToken(offset: Int)
  /// An invalid UTF-8 sequence (RFC 3629) at this offset.
  case badUTF8(offset: Int)
  /// Containers nested deeper than `Limits.payloadDepth`.
  case tooDeep(offset: Int)
  /// Bytes after the value.
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
    case .trailingBytes(let offset): "more bytes follow the JSON at offset \(offset)"
    }
  }
}
