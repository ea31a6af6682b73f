package import ApusWire

extension JSONValue {
  package static func strings(_ texts: some Sequence<String>) -> JSONValue {
    .array(texts.map(JSONValue.string))
  }

  /// Parses a text; nil if it is not JSON.
  package init?(text: String) {
    let bytes = Array(text.utf8)
    do throws(JSONFault) {
      self = try JSONValue(parsing: bytes.span)
    } catch {
      return nil
    }
  }

  /// The value as JSON on one line.
  package var text: String { String(decoding: bytes, as: UTF8.self) }
}
