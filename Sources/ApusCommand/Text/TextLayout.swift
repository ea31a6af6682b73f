/// Breaking text into lines for a terminal.
enum TextLayout {
  /// Breaks at spaces; no line has more than `width` columns unless a single word does.
  static func wrap(_ text: String, width: Int) -> [String] {
    var lines: [String] = []
    var line = ""
    for word in text.split(separator: " ") {
      if !line.isEmpty, line.count + 1 + word.count > width {
        lines.append(line)
        line = ""
      }
      line += (line.isEmpty ? "" : " ") + word
    }
    if !line.isEmpty { lines.append(line) }
    return lines
  }

  static func paragraph(_ text: String, width: Int, indent: Int) -> String {
    wrap(text, width: width - indent).map { spaces(indent) + $0 + "\n" }.joined()
  }

  static func spaces(_ count: Int) -> String { String(repeating: " ", count: max(0, count)) }

  /// Two columns: `term` and its description. A long term gets a separate line.
  static func entry(_ term: String, _ text: String, column: Int, width: Int) -> String {
    let lines = wrap(text, width: width - column)
    let head = "  \(term)"
    var output = ""
    var rest = lines[...]
    if head.count + 2 <= column {
      output += head + spaces(column - head.count) + (rest.popFirst() ?? "") + "\n"
    } else {
      output += head + "\n"
    }
    for line in rest { output += spaces(column) + line + "\n" }
    return output
  }

  /// A command line broken before options, with a backslash at each line end, so that it can be pasted.
  static func shellLine(_ line: String, width: Int, indent: Int) -> String {
    var lines: [String] = []
    var current = ""
    for part in optionParts(of: line) {
      let limit = width - indent - 2 - (lines.isEmpty ? 0 : 2)
      if !current.isEmpty, current.count + 1 + part.count > limit {
        lines.append(current)
        current = ""
      }
      current += (current.isEmpty ? "" : " ") + part
    }
    lines.append(current)
    return lines.enumerated().map { index, text in
      spaces(indent + (index > 0 ? 2 : 0)) + text + (index < lines.count - 1 ? " \\\n" : "\n")
    }.joined()
  }

  /// The line split before each ` --`.
  private static func optionParts(of line: String) -> [String] {
    var parts: [String] = []
    for word in line.split(separator: " ") {
      if parts.isEmpty || word.hasPrefix("--") {
        parts.append(String(word))
      } else {
        parts[parts.count - 1] += " " + word
      }
    }
    return parts
  }
}
