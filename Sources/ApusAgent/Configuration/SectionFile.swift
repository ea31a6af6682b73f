/// A file of sections: `[kind name]`, lines of `key = value` below it, comment lines that begin with `#`.
///
/// Lines before the first section belong to a section without kind and name. A line that ends with a backslash goes on
/// in the next one.
struct SectionFile {
  struct Entry: Equatable {
    var key: String
    var value: String
    /// Counted from 1.
    var line: Int
  }

  struct Section: Equatable {
    var kind: String
    var name: String
    var line: Int
    var entries: [Entry] = []
  }

  let path: String
  private(set) var sections = [Section(kind: "", name: "", line: 1)]

  init(path: String, text: String) throws(AgentFault) {
    self.path = path
    var pending = ""
    var pendingLine: Int?
    let lines = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
    for (index, raw) in lines.enumerated() {
      let number = pendingLine ?? index + 1
      let text = pending + raw.trimmedBlanks
      if text.last == "\\", text.first != "#" {
        (pending, pendingLine) = (text.dropLast().trimmedBlanks + " ", number)
        continue
      }
      (pending, pendingLine) = ("", nil)
      try take(text.trimmedBlanks, line: number)
    }
    if let pendingLine { throw fault(pendingLine, "the last line ends with a backslash", nil) }
  }

  private mutating func take(_ line: String, line number: Int) throws(AgentFault) {
    if line.isEmpty || line.first == "#" { return }
    if line.first == "[" {
      let words = line.dropFirst().dropLast().split(separator: " ").map(String.init)
      guard line.last == "]", words.count == 2 else {
        throw fault(
          number, "\"\(line)\" is not the beginning of a section",
          "Write [topic NAME] or [user NAME].")
      }
      let (kind, name) = (words[0], words[1])
      if let earlier = sections.first(where: { $0.kind == kind && $0.name == name }) {
        throw fault(
          number, "[\(kind) \(name)] is already on line \(earlier.line)", "Keep one of them.")
      }
      sections.append(Section(kind: kind, name: name, line: number))
      return
    }
    guard let equals = line.firstIndex(of: "="), equals != line.startIndex else {
      throw fault(
        number, "\"\(line)\" is not a setting",
        "A line is `key = value`, [topic NAME], [user NAME], or a comment that begins with #.")
    }
    let key = line[..<equals].trimmedBlanks
    let last = sections.count - 1
    if let earlier = sections[last].entries.first(where: { $0.key == key }) {
      throw fault(number, "\(key) is already set on line \(earlier.line)", "Keep one of them.")
    }
    sections[last].entries.append(
      Entry(key: key, value: line[line.index(after: equals)...].trimmedBlanks, line: number))
  }

  /// A fault that names file and line.
  func fault(_ line: Int, _ problem: String, _ remedy: String?) -> AgentFault {
    AgentFault("\(path), line \(line): \(problem)", remedy: remedy)
  }
}

extension StringProtocol {
  /// Without spaces and tabs at either end.
  var trimmedBlanks: String {
    let isBlank: (Character) -> Bool = { $0 == " " || $0 == "\t" }
    guard let first = firstIndex(where: { !isBlank($0) }),
      let last = lastIndex(where: { !isBlank($0) })
    else { return "" }
    return String(self[first...last])
  }
}
