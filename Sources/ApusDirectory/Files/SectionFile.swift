/// A text file of sections with named values, which people can read and edit.
///
/// ```
/// # a comment
/// [key ABC123DEFG]
/// team = TEAM123456
/// environments = production development
/// ```
///
/// A value is the rest of its line without surrounding spaces. The order is preserved.
package struct SectionFile: Sendable, Equatable {
  package struct Section: Sendable, Equatable {
    /// The first word in the brackets; empty for values before the first section.
    package var kind: String
    /// The rest in the brackets.
    package var name: String
    package var values: [(key: String, value: String)] = []
    package var line: Int

    package init(kind: String, name: String, values: [(String, String)] = [], line: Int = 0) {
      self.kind = kind
      self.name = name
      self.values = values.map { (key: $0.0, value: $0.1) }
      self.line = line
    }

    package subscript(key: String) -> String? { values.last { $0.key == key }?.value }

    /// The words of a value, separated by spaces; empty if there is no value.
    package func words(_ key: String) -> [String] {
      self[key]?.split(separator: " ").map(String.init) ?? []
    }

    package static func == (left: Section, right: Section) -> Bool {
      left.kind == right.kind && left.name == right.name
        && left.values.elementsEqual(right.values, by: ==)
    }
  }

  package struct Fault: Error, Sendable, CustomStringConvertible {
    package var line: Int
    package var problem: String
    package var description: String { "line \(line): \(problem)" }
  }

  package var sections: [Section]

  package init(sections: [Section] = []) { self.sections = sections }

  package init(text: String) throws(Fault) {
    sections = []
    for (index, raw) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
      let line = raw.trimmed
      if line.isEmpty || line.first == "#" { continue }
      if line.first == "[" {
        guard line.last == "]", line.count > 2 else {
          throw Fault(line: index + 1, problem: "a section must have the form [kind name]")
        }
        let words = line.dropFirst().dropLast().split(separator: " ", maxSplits: 1)
        sections.append(
          Section(
            kind: String(words[0]), name: words.count > 1 ? String(words[1]) : "",
            line: index + 1))
        continue
      }
      guard let equals = line.firstIndex(of: "=") else {
        throw Fault(line: index + 1, problem: "a value must have the form key = value")
      }
      let key = line[..<equals].trimmed
      guard !key.isEmpty else { throw Fault(line: index + 1, problem: "the key is missing") }
      if sections.isEmpty { sections.append(Section(kind: "", name: "", line: index + 1)) }
      sections[sections.count - 1].values.append(
        (String(key), String(line[line.index(after: equals)...].trimmed)))
    }
  }

  /// The file as text, with `heading` as a comment at the top.
  package func text(heading: String) -> String {
    var text = heading.split(separator: "\n").map { "# \($0)\n" }.joined()
    for section in sections {
      if !section.kind.isEmpty {
        text += "\n[\(section.kind)\(section.name.isEmpty ? "" : " " + section.name)]\n"
      }
      for (key, value) in section.values { text += "\(key) = \(value)\n" }
    }
    return text
  }
}

extension StringProtocol {
  /// Without spaces, tabs and carriage returns at either end.
  package var trimmed: SubSequence {
    let isBlank: (Character) -> Bool = { $0 == " " || $0 == "\t" || $0 == "\r" || $0 == "\r\n" }
    guard let first = firstIndex(where: { !isBlank($0) }),
      let last = lastIndex(where: { !isBlank($0) })
    else { return self[startIndex..<startIndex] }
    return self[first...last]
  }
}
