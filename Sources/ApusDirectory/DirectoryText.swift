/// The text of `directory.conf`, changed as a person would change it: what others wrote, comments too, stays as it is.
package struct DirectoryText: Sendable {
  package private(set) var lines: [String]

  package init(_ text: String) {
    lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    if lines.last?.isEmpty == true { lines.removeLast() }
  }

  package var text: String { lines.joined(separator: "\n") + "\n" }

  /// Adds a section at the end, with an empty line before it.
  package mutating func append(_ section: SectionFile.Section) {
    if lines.last?.isEmpty == false { lines.append("") }
    lines.append("[\(section.kind) \(section.name)]")
    for (key, value) in section.values { lines.append("\(key) = \(value)") }
  }

  /// Sets a value of a section that is there: in the line that has it, or in a new one below the heading.
  package mutating func set(
    _ key: String, to value: String, in section: SectionFile.Section
  ) {
    let body = body(of: section)
    let line = "\(key) = \(value)"
    // The last one counts, so it is the one to change.
    if let place = body.last(where: { self.key(ofLine: $0) == key }) {
      lines[place] = line
    } else {
      lines.insert(line, at: body.lowerBound)
    }
  }

  /// Takes a section out, with the empty lines behind it. Comments inside it go with it.
  package mutating func remove(_ section: SectionFile.Section) {
    let body = body(of: section)
    lines.removeSubrange(body.lowerBound - 1..<body.upperBound)
  }

  /// The lines below a section's heading, up to the next heading.
  private func body(of section: SectionFile.Section) -> Range<Int> {
    let start = section.line
    let end = lines[start...].firstIndex { $0.trimmed.first == "[" } ?? lines.count
    return start..<end
  }

  private func key(ofLine index: Int) -> String? {
    let line = lines[index].trimmed
    guard line.first != "#", let equals = line.firstIndex(of: "=") else { return nil }
    return String(line[..<equals].trimmed)
  }
}

extension DataDirectory {
  /// Changes `directory.conf`, one at a time over all processes. What comes of it is read as the service would read it
  /// before it takes the file's place: a change that would leave it wrong is refused, and the file stays as it was.
  package func edit(_ change: (inout DirectoryText, SectionFile) throws -> Void) throws {
    try requireProvisioned()
    try changing {
      var text = DirectoryText(try Files.readText(directoryFile))
      try change(&text, try records())
      do {
        _ = try trust(of: SectionFile(text: text.text), generation: 1, allowsES512: true)
      } catch {
        throw DirectoryProblem("\(error); nothing was changed")
      }
      try Files.write(text.text, to: directoryFile, isPrivate: false)
    }
  }

  /// The section of that kind and name; throws when there is none.
  package func section(
    _ kind: String, _ name: String, of records: SectionFile
  ) throws(DirectoryProblem) -> SectionFile.Section {
    guard let section = records.sections.first(where: { $0.kind == kind && $0.name == name })
    else {
      let known = records.sections.filter { $0.kind == kind }.map(\.name)
      throw DirectoryProblem(
        "\(directoryFile) has no \(kind) \(name)"
          + (known.isEmpty ? "" : ", only \(known.joined(separator: ", "))"))
    }
    return section
  }
}
