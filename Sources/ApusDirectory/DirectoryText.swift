/// The text of `directory.conf`. Edits preserve all other lines, including comments.
package struct DirectoryText: Sendable {
  package private(set) var lines: [String]

  package init(_ text: String) {
    lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    if lines.last?.isEmpty == true { lines.removeLast() }
  }

  package var text: String { lines.joined(separator: "\n") + "\n" }

  /// Appends a section, preceded by an empty line.
  package mutating func append(_ section: SectionFile.Section) {
    if lines.last?.isEmpty == false { lines.append("") }
    lines.append("[\(section.kind) \(section.name)]")
    for (key, value) in section.values { lines.append("\(key) = \(value)") }
  }

  /// Sets a value of an existing section: in the line that has it, or in a new line below the heading.
  package mutating func set(
    _ key: String, to value: String, in section: SectionFile.Section
  ) {
    let body = body(of: section)
    let line = "\(key) = \(value)"
    // The last of several lines with the key takes effect.
    if let place = body.last(where: { self.key(ofLine: $0) == key }) {
      lines[place] = line
    } else {
      lines.insert(line, at: body.lowerBound)
    }
  }

  /// Removes a value of an existing section, if it has it.
  mutating func unset(_ key: String, in section: SectionFile.Section) {
    for place in body(of: section).reversed() where self.key(ofLine: place) == key {
      lines.remove(at: place)
    }
  }

  /// Removes a section, including its comments and the empty lines after it.
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
  /// Changes `directory.conf` under the lock that all processes share. The new text is validated as the service would
  /// read it before it replaces the file.
  ///
  /// - Throws: ``DirectoryProblem`` if the new text is not valid; the file is then unchanged.
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

  /// The section of that kind and name; throws if it does not exist.
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
