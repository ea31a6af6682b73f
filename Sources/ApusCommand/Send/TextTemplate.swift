package import ApusWire

/// Why a row gives no message, worded to follow the row in a sentence.
package struct RowProblem: Error, Sendable, Hashable {
  package var text: String
  package init(_ text: String) { self.text = text }
}

/// A text with fields of a row in it: `Hello {{name}}`.
///
/// `{{name}}` is the field's value; `{{name|friend}}` uses the words after the bar if the field is empty or missing. A
/// text that consists of one field alone takes the field's value unchanged, so numbers stay numbers. `{{name:json}}`
/// parses the value as JSON first, for tables, whose cells are all texts.
package struct TextTemplate: Sendable, Hashable {
  private enum Segment: Hashable {
    case text(String)
    case field(name: String, isJSON: Bool, fallback: String?)
  }

  private var segments: [Segment] = []

  package init(_ text: String) throws(ValueProblem) {
    var rest = text[...]
    while let opening = rest.pair(of: "{") {
      if opening.lowerBound > rest.startIndex {
        segments.append(.text(String(rest[..<opening.lowerBound])))
      }
      rest = rest[opening.upperBound...]
      guard let closing = rest.pair(of: "}") else {
        throw ValueProblem("has {{ without a closing }}")
      }
      segments.append(try Self.field(rest[..<closing.lowerBound]))
      rest = rest[closing.upperBound...]
    }
    if !rest.isEmpty { segments.append(.text(String(rest))) }
  }

  private static func field(_ text: Substring) throws(ValueProblem) -> Segment {
    let parts = text.split(separator: "|", maxSplits: 1, omittingEmptySubsequences: false)
    var name = parts[0].trimmed
    let isJSON = name.hasSuffix(":json")
    if isJSON { name = name.dropLast(5) }
    guard !name.isEmpty else { throw ValueProblem("has {{}} without a name") }
    return .field(
      name: String(name), isJSON: isJSON, fallback: parts.count == 2 ? String(parts[1]) : nil)
  }

  /// Whether it is the same for every row.
  package var isConstant: Bool {
    segments.allSatisfy { if case .text = $0 { true } else { false } }
  }

  /// The text for a row.
  package func text(_ fields: [String: JSONValue]) throws(RowProblem) -> String {
    var text = ""
    for segment in segments {
      switch segment {
      case .text(let part): text += part
      case .field:
        let value = try Self.value(segment, fields)
        text += value.string ?? value.text
      }
    }
    return text
  }

  /// The value for a row, where the text stands for a string of JSON.
  package func value(_ fields: [String: JSONValue]) throws(RowProblem) -> JSONValue {
    guard segments.count == 1, case .field = segments[0] else {
      return .string(try text(fields))
    }
    return try Self.value(segments[0], fields)
  }

  private static func value(
    _ segment: Segment, _ fields: [String: JSONValue]
  ) throws(RowProblem) -> JSONValue {
    guard case .field(let name, let isJSON, let fallback) = segment else { return .null }
    var value = fields[name]
    if let fallback, value == nil || value == .null || value == .string("") {
      value = .string(fallback)
    }
    guard let value else { throw RowProblem("has no field \(name)") }
    guard isJSON, let text = value.string else { return value }
    guard let parsed = JSONValue(text: text) else {
      throw RowProblem("has a field \(name) that is not JSON")
    }
    return parsed
  }
}

extension Substring {
  /// The first pair of adjacent `brace` characters.
  fileprivate func pair(of brace: Character) -> Range<Index>? {
    var index = startIndex
    while index < endIndex {
      let next = self.index(after: index)
      if self[index] == brace, next < endIndex, self[next] == brace {
        return index..<self.index(after: next)
      }
      index = next
    }
    return nil
  }
}

/// A JSON text whose strings may be templates. Everything else stays byte for byte.
package struct PayloadTemplate: Sendable {
  private enum Segment { case bytes([UInt8]), text(TextTemplate) }

  private var segments: [Segment] = []

  /// - Parameter json: Valid JSON; the caller has checked it.
  package init(json: [UInt8]) throws(ValueProblem) {
    var plain: [UInt8] = []
    var index = 0
    while index < json.count {
      guard json[index] == 0x22 else {
        plain.append(json[index])
        index += 1
        continue
      }
      let end = Self.endOfString(json, from: index)
      let literal = Array(json[index..<end])
      index = end
      guard !Self.isKey(json, behind: end), let template = try Self.template(literal) else {
        plain += literal
        continue
      }
      segments += [.bytes(plain), .text(template)]
      plain = []
    }
    segments.append(.bytes(plain))
  }

  private static func template(_ literal: [UInt8]) throws(ValueProblem) -> TextTemplate? {
    guard let text = JSONValue(text: String(decoding: literal, as: UTF8.self))?.string else {
      return nil
    }
    let template = try TextTemplate(text)
    return template.isConstant ? nil : template
  }

  /// The index after the string that begins at `start`.
  private static func endOfString(_ json: [UInt8], from start: Int) -> Int {
    var index = start + 1
    while index < json.count, json[index] != 0x22 { index += json[index] == 0x5c ? 2 : 1 }
    return min(index + 1, json.count)
  }

  private static func isKey(_ json: [UInt8], behind end: Int) -> Bool {
    json[end...].first { ![0x20, 0x09, 0x0a, 0x0d].contains($0) } == 0x3a
  }

  package func bytes(_ fields: [String: JSONValue]) throws(RowProblem) -> [UInt8] {
    var bytes: [UInt8] = []
    for segment in segments {
      switch segment {
      case .bytes(let part): bytes += part
      case .text(let template): bytes += try template.value(fields).bytes
      }
    }
    return bytes
  }
}
