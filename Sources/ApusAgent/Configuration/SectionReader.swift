/// Takes the settings of a section one by one; what is left over at the end is unknown.
struct SectionReader {
  let file: SectionFile
  let section: SectionFile.Section
  private var left: [SectionFile.Entry]
  private var known: [String] = []

  init(_ file: SectionFile, _ section: SectionFile.Section) {
    self.file = file
    self.section = section
    left = section.entries
  }

  /// A fault at the line of `key`; of the section, if it has no such key.
  func fault(_ key: String?, _ problem: String, _ remedy: String?) -> AgentFault {
    let line = section.entries.first { $0.key == key }?.line ?? section.line
    return file.fault(line, problem, remedy)
  }

  func has(_ key: String) -> Bool { left.contains { $0.key == key } }

  /// The text of a setting; nil if it is missing.
  mutating func take(_ key: String) -> String? {
    known.append(key)
    guard let index = left.firstIndex(where: { $0.key == key }) else { return nil }
    return left.remove(at: index).value
  }

  mutating func entries(withPrefix prefix: String) -> [SectionFile.Entry] {
    let found = left.filter { $0.key.hasPrefix(prefix) && $0.key != prefix }
    left.removeAll { $0.key.hasPrefix(prefix) && $0.key != prefix }
    return found
  }

  mutating func text(_ key: String, bytes: ClosedRange<Int>) throws(AgentFault) -> String? {
    guard let text = take(key) else { return nil }
    guard bytes ~= text.utf8.count else {
      throw fault(
        key, "\(key) must have \(bytes.lowerBound) to \(bytes.upperBound) bytes", nil)
    }
    return text
  }

  mutating func path(_ key: String) throws(AgentFault) -> String? {
    guard let text = take(key) else { return nil }
    guard text.first == "/" else {
      throw fault(key, "\"\(text)\" is not an absolute path", "Begin it with /.")
    }
    return text
  }

  mutating func requiredPath(_ key: String) throws(AgentFault) -> String {
    guard let path = try path(key) else {
      throw fault(nil, "\(key) is missing", "Add `\(key) = /etc/apus-agent/service.crt`.")
    }
    return path
  }

  mutating func integer(_ key: String, _ range: ClosedRange<Int>) throws(AgentFault) -> Int? {
    guard let text = take(key) else { return nil }
    guard let number = Int(text), range ~= number else {
      throw fault(
        key, "\"\(text)\" is not a number from \(range.lowerBound) to \(range.upperBound)", nil)
    }
    return number
  }

  /// `90`, `90s`, `15m` or `2h`.
  mutating func seconds(_ key: String, _ range: ClosedRange<Int>) throws(AgentFault) -> Int? {
    guard let text = take(key) else { return nil }
    let units: [Character: Int] = ["s": 1, "m": 60, "h": 3600]
    let unit = text.last.flatMap { units[$0] }
    let number = Int(unit == nil ? text[...] : text.dropLast())
    let (seconds, overflow) = (number ?? -1).multipliedReportingOverflow(by: unit ?? 1)
    guard !overflow, range ~= seconds else {
      throw fault(
        key, "\"\(text)\" is not a time from \(range.lowerBound) s to \(range.upperBound) s",
        "Write 90s, 15m or 2h, for example.")
    }
    return seconds
  }

  mutating func truth(_ key: String) throws(AgentFault) -> Bool? {
    guard let text = take(key) else { return nil }
    switch text {
    case "yes": return true
    case "no": return false
    default: throw fault(key, "\"\(text)\" is neither yes nor no", nil)
    }
  }

  mutating func choice<Choice: RawRepresentable<String>>(
    _ key: String, _ choices: [Choice]
  ) throws(AgentFault) -> Choice? {
    guard let text = take(key) else { return nil }
    guard let choice = Choice(rawValue: text) else {
      throw fault(
        key, "\"\(text)\" is no value of \(key)",
        "Write \(choices.map(\.rawValue).joined(separator: " or ")).")
    }
    return choice
  }

  /// Words separated by commas.
  mutating func list(_ key: String) throws(AgentFault) -> [String]? {
    guard let text = take(key) else { return nil }
    let items = text.split(separator: ",").map(\.trimmedBlanks)
    if let bad = items.first(where: { $0.isEmpty || $0.contains(" ") }) {
      throw fault(key, "\"\(bad)\" is not a single word", "Separate the words by commas.")
    }
    if items.isEmpty { throw fault(key, "\(key) is empty", nil) }
    return items
  }

  /// A program with its arguments.
  mutating func command(_ key: String) throws(AgentFault) -> [String]? {
    guard let text = take(key) else { return nil }
    guard let words = CommandWords.split(text) else {
      throw fault(key, "a quotation mark or a backslash in \"\(text)\" lacks its other half", nil)
    }
    guard let program = words.first, program.first == "/" else {
      throw fault(
        key, "the command does not begin with an absolute path",
        "No shell and no PATH is involved: write /usr/bin/logger, for example.")
    }
    return words
  }

  /// Reports what nobody took.
  func finish() throws(AgentFault) {
    guard let entry = left.first else { return }
    throw file.fault(
      entry.line, "there is no setting \"\(entry.key)\" here",
      "Known are \(known.joined(separator: ", ")).")
  }
}
