import ApusModel
import ApusWire

/// The JSON form of an `Encodable` value.
indirect enum EncodedValue: Sendable, Hashable {
  case null
  case bool(Bool)
  /// A number as in RFC 8259, section 6: integers of any width, and other numbers in the shortest text that reads back
  /// as the same number.
  case number(String)
  case string(String)
  case array([EncodedValue])
  case object([String: EncodedValue])

  /// Writes the keys of an object in sorted order, so that equal values give equal bytes; the order of a dictionary
  /// varies.
  func write(to writer: inout JSONWriter) {
    switch self {
    case .null: writer.null()
    case .bool(let value): writer.bool(value)
    case .number(let numeral): writer.number(numeral: numeral)
    case .string(let text): writer.string(text)
    case .array(let elements):
      writer.beginArray()
      for element in elements { element.write(to: &writer) }
      writer.endArray()
    case .object(let members):
      writer.beginObject()
      Self.write(members, to: &writer)
      writer.endObject()
    }
  }

  static func write(_ members: [String: EncodedValue], to writer: inout JSONWriter) {
    for (key, value) in members.sorted(by: { $0.key < $1.key }) {
      writer.key(key)
      value.write(to: &writer)
    }
  }

  /// Encodes a value; throws what is wrong and where.
  init(encoding value: some Encodable) throws(PushRequestError) {
    do {
      self = try Self.encode(value, at: [])
    } catch let error as PushRequestError {
      throw error
    } catch let EncodingError.invalidValue(_, context) {
      let place = Self.text(of: context.codingPath)
      throw PushRequestError(.invalidPayload, "\(place): \(context.debugDescription)")
    } catch {
      throw PushRequestError(.invalidPayload, "the custom keys cannot be encoded: \(error)")
    }
  }

  private static func text(of path: [any CodingKey]) -> String {
    path.isEmpty ? "the custom keys" : path.map(\.stringValue).joined(separator: ".")
  }

  static func encode(
    _ value: some Encodable, at path: [any CodingKey]
  ) throws -> EncodedValue {
    // Devices and the service reject deeper nesting.
    guard path.count < Limits.payloadDepth else {
      throw PushRequestError(
        .invalidPayload,
        "\(text(of: Array(path.prefix(4))))…: nested deeper than "
          + "\(Limits.payloadDepth) containers")
    }
    switch value {
    case let value as String: return .string(value)
    case let value as Bool: return .bool(value)
    case let value as any FixedWidthInteger: return .number("\(value)")
    case let value as Double: return try number(value, at: path)
    case let value as Float: return try number(value, at: path)
    default: return try encodeComposite(value, at: path)
    }
  }

  private static func number(
    _ value: some BinaryFloatingPoint & CustomStringConvertible, at path: [any CodingKey]
  ) throws -> EncodedValue {
    guard value.isFinite else {
      throw PushRequestError(
        .invalidPayload, "\(text(of: path)) is \(value), which JSON cannot represent")
    }
    let numeral = value.description
    return .number(numeral.hasSuffix(".0") ? String(numeral.dropLast(2)) : numeral)
  }

  private static func encodeComposite(
    _ value: some Encodable, at path: [any CodingKey]
  ) throws -> EncodedValue {
    let node = EncodingNode()
    try value.encode(to: NodeEncoder(node: node, codingPath: path))
    let plain = node.value
    // Three Foundation types, which nothing here links, encode differently under Foundation's JSON coders than by their
    // own `encode(to:)`. Apps decode with those coders, so this follows them.
    switch _typeName(type(of: value), qualified: true) {
    case "Foundation.Data", "FoundationEssentials.Data": return base64(plain) ?? plain
    case "Foundation.URL", "FoundationEssentials.URL": return .string("\(value)")
    case "Foundation.Decimal", "FoundationEssentials.Decimal", "__C.NSDecimal":
      return try decimal("\(value)", at: path)
    default: return plain
    }
  }

  private static func base64(_ value: EncodedValue) -> EncodedValue? {
    guard case .array(let elements) = value else { return nil }
    var bytes: [UInt8] = []
    for case .number(let numeral) in elements {
      guard let byte = UInt8(numeral) else { return nil }
      bytes.append(byte)
    }
    return .string(String(decoding: Base64.encode(bytes.span), as: UTF8.self))
  }

  private static func decimal(
    _ numeral: String, at path: [any CodingKey]
  ) throws -> EncodedValue {
    guard numeral != "NaN" else {
      throw PushRequestError(
        .invalidPayload, "\(text(of: path)) is NaN, which JSON cannot represent")
    }
    return .number(numeral)
  }
}
