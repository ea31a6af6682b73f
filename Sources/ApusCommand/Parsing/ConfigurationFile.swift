/// A configuration file: lines of `key = value`, and comment lines that begin with `#`.
///
/// The syntax is that of the other files in the data directory, without sections. A key is an option's flag without
/// the leading hyphens. A value is the rest of the line, trimmed.
package struct ConfigurationFile: Sendable {
  package struct Entry: Sendable, Hashable {
    package var key: String
    package var value: String
    package var line: Int
  }

  package let path: String
  package let entries: [Entry]

  package init(path: String, text: String) throws(CommandFailure) {
    var entries: [Entry] = []
    let lines = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
    for (index, raw) in lines.enumerated() {
      let line = raw.trimmed
      if line.isEmpty || line.first == "#" { continue }
      guard let equals = line.firstIndex(of: "="), line.first != "[" else {
        throw Self.syntaxFailure(path: path, line: index + 1, text: String(line))
      }
      let key = line[..<equals].trimmed
      guard !key.isEmpty else {
        throw Self.syntaxFailure(path: path, line: index + 1, text: String(line))
      }
      let value = line[line.index(after: equals)...].trimmed
      entries.append(Entry(key: String(key), value: String(value), line: index + 1))
    }
    self.path = path
    self.entries = entries
  }

  private static func syntaxFailure(path: String, line: Int, text: String) -> CommandFailure {
    CommandFailure(
      .usage, "\(path), line \(line): \"\(text)\" is not a setting",
      remedy: "A line is `key = value`, or a comment that begins with #.")
  }

  func origin(of entry: Entry) -> Origin {
    .file(path: path, line: entry.line, key: entry.key)
  }
}

extension StringProtocol {
  /// Without spaces and tabs at either end.
  var trimmed: SubSequence {
    let isBlank: (Character) -> Bool = { $0 == " " || $0 == "\t" }
    guard let first = firstIndex(where: { !isBlank($0) }),
      let last = lastIndex(where: { !isBlank($0) })
    else { return self[startIndex..<startIndex] }
    return self[first...last]
  }
}
