internal import ApusModel

/// Writes JSON piece by piece and inserts the commas. The caller ensures that brackets match, and that in an object
/// each value follows a key.
package struct JSONWriter: Sendable {
  /// The text written so far.
  package private(set) var bytes: [UInt8] = []
  private var needsComma = false

  package init() {}

  package mutating func beginObject() { open(0x7b) }
  package mutating func endObject() { close(0x7d) }
  package mutating func beginArray() { open(0x5b) }
  package mutating func endArray() { close(0x5d) }

  package mutating func key(_ name: String) {
    separate()
    quote(name)
    bytes.append(0x3a)
    needsComma = false
  }

  package mutating func null() {
    separate()
    bytes.append("null" as StaticString)
  }

  package mutating func bool(_ value: Bool) {
    separate()
    bytes.append((value ? "true" : "false") as StaticString)
  }

  package mutating func integer(_ value: Int64) {
    separate()
    bytes.append(decimal: value)
  }

  /// A number. JSON has no infinity and no NaN: they become null.
  package mutating func number(_ value: Double) {
    guard value.isFinite else { return null() }
    separate()
    bytes.append(contentsOf: value.description.utf8)
  }

  /// A number as already formatted; the caller ensures that it is valid (RFC 8259, section 6).
  package mutating func number(numeral: String) {
    separate()
    bytes.append(contentsOf: numeral.utf8)
  }

  package mutating func string(_ text: String) {
    separate()
    quote(text)
  }

  package mutating func value(_ value: JSONValue) {
    switch value {
    case .null: null()
    case .bool(let value): bool(value)
    case .integer(let value): integer(value)
    case .number(let value): number(value)
    case .string(let text): string(text)
    case .array(let elements):
      beginArray()
      for element in elements { self.value(element) }
      endArray()
    case .object(let object):
      beginObject()
      for member in object.members {
        key(member.key)
        self.value(member.value)
      }
      endObject()
    }
  }

  private mutating func separate() {
    if needsComma { bytes.append(0x2c) }
    needsComma = true
  }

  private mutating func open(_ bracket: UInt8) {
    separate()
    bytes.append(bracket)
    needsComma = false
  }

  private mutating func close(_ bracket: UInt8) {
    bytes.append(bracket)
    needsComma = true
  }

  /// RFC 8259, section 7: the quotation mark, the reverse solidus and the control characters are escaped.
  private mutating func quote(_ text: String) {
    bytes.append(0x22)
    for byte in text.utf8 {
      switch byte {
      case 0x22, 0x5c:
        bytes.append(0x5c)
        bytes.append(byte)
      case 0x0a: bytes.append("\\n" as StaticString)
      case 0x0d: bytes.append("\\r" as StaticString)
      case 0x09: bytes.append("\\t" as StaticString)
      case 0..<0x20:
        bytes.append("\\u00" as StaticString)
        bytes.append(hexDigit(byte &>> 4))
        bytes.append(hexDigit(byte & 15))
      default: bytes.append(byte)
      }
    }
    bytes.append(0x22)
  }
}

extension JSONValue {
  /// The text without white space.
  package var bytes: [UInt8] {
    var writer = JSONWriter()
    writer.value(self)
    return writer.bytes
  }
}
