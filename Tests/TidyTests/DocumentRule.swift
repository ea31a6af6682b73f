/// Documents name only what exists: the code spans of ARCHITECTURE.md name files and declarations, and the relative
/// links of all Markdown files lead to a file and, with a fragment, to one of its headings.
enum DocumentRule {
  // MARK: Names

  /// Findings for the code spans that look like a path (from the root or from `Sources`), or like a type, a member of
  /// one, or a function. Other spans, such as commands and metrics, are not checked.
  static func nameFindings(
    in file: SourceText, paths: Set<String>, sources: [Declarations]
  ) -> [Finding] {
    MarkdownText(file).lines.flatMap { line -> [Finding] in
      line.code.compactMap { span -> Finding? in
        if paths.contains(span) || paths.contains("Sources/" + span) { return nil }
        return switch kind(of: span) {
        case .path:
          Finding(
            path: file.path, line: line.number, problem: "there is no file or folder `\(span)`",
            remedy: "Name its path from the root of the repository or from Sources")
        case .declaration where isDeclared(span, in: sources): nil
        case .declaration:
          Finding(
            path: file.path, line: line.number, problem: "Sources does not declare `\(span)`",
            remedy: "Name what the code has now: Type, Type.member, member(label:)")
        case .other: nil
        }
      }
    }
  }

  private enum Kind { case path, declaration, other }

  private static func kind(of span: String) -> Kind {
    if span.wholeMatch(of: #/[A-Za-z][\w+.\-]*(?:/[\w+.\-]+)+/#) != nil { return .path }
    if span.wholeMatch(of: #/[\w+.\-]+\.(?:swift|md|c|h|json)/#) != nil { return .path }
    // The first name of a type has a lower-case letter: GOAWAY is none.
    let isDeclaration =
      span.wholeMatch(of: #/[A-Z]\w*[a-z]\w*(?:\.\w+)*(?:\((?:\w+:)*\))?/#) != nil
      || span.wholeMatch(of: #/[a-z]\w*\((?:\w+:)*\)/#) != nil
    return isDeclaration ? .declaration : .other
  }

  /// Whether each name of a dotted one is declared in a file that declares or extends the one before it.
  private static func isDeclared(_ name: String, in sources: [Declarations]) -> Bool {
    let parts = name.split(separator: ".").map(String.init)
    guard parts.count > 1 else {
      let isFunction = name.last == ")"
      return sources.contains { (isFunction ? $0.names : $0.types).contains(name) }
    }
    return zip(parts, parts.dropFirst()).allSatisfy { outer, inner in
      sources.contains { $0.types.contains(outer) && $0.names.contains(inner) }
    }
  }

  /// The paths of files, and of the folders that contain them.
  static func paths(of files: [SourceText]) -> Set<String> {
    var paths: Set<String> = []
    for file in files {
      var path = Substring(file.path)
      while paths.insert(String(path)).inserted, let slash = path.lastIndex(of: "/") {
        path = path[..<slash]
      }
    }
    return paths
  }

  // MARK: Links

  /// Findings for the relative links of a Markdown file.
  ///
  /// - Parameters:
  ///   - exists: Whether there is a file or folder with a path from the root of the repository.
  ///   - anchors: The fragments of a file; nil if it has none to check, as a folder or an image.
  static func linkFindings(
    in file: SourceText, exists: (String) -> Bool, anchors: (String) -> Set<String>?
  ) -> [Finding] {
    let targets = MarkdownText(file).lines.flatMap { line -> [(line: Int, target: Substring)] in
      line.text.matches(of: #/\]\((?<target>[^()\s]+)\)/#).map { (line.number, $0.target) }
    }
    return targets.compactMap { line, target in
      guard target.prefixMatch(of: #/[a-z]+:/#) == nil else { return nil }
      let parts = target.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
      let problem: String
      if let path = resolve(parts[0], from: file.path), exists(path) {
        guard parts.count > 1, let known = anchors(path), !known.contains(String(parts[1]))
        else { return nil }
        problem = "\(path) has no heading for #\(parts[1])"
      } else {
        problem = "the link to \(target) leads nowhere"
      }
      return Finding(
        path: file.path, line: line, problem: problem,
        remedy: "Links start from their file; a fragment is a heading in lower case with dashes")
    }
  }

  /// The path from the root of a link in the file at `path`; nil if it leads out of the repository.
  private static func resolve(_ link: Substring, from path: String) -> String? {
    guard !link.isEmpty else { return path }
    var parts = path.split(separator: "/").dropLast()
    for part in link.split(separator: "/") where part != "." {
      guard part == ".." else {
        parts.append(part)
        continue
      }
      guard parts.popLast() != nil else { return nil }
    }
    return parts.joined(separator: "/")
  }

  /// The fragments of a Markdown file's headings, as GitHub makes them.
  static func anchors(of file: SourceText) -> Set<String> {
    let headings = MarkdownText(file).lines.map(\.whole).filter { $0.hasPrefix("#") }
    return Set(
      headings.map { heading -> String in
        let title = heading.drop { $0 == "#" }.dropFirst().replacing(#/\]\([^)]*\)/#, with: "")
        return String(
          title.lowercased().compactMap { character -> Character? in
            if character == " " { return "-" }
            let isKept = character.isLetter || character.isNumber || "-_".contains(character)
            return isKept ? character : nil
          })
      })
  }
}

/// The lines of a Markdown file outside of fenced blocks. A code span may go on in the next line of its paragraph.
struct MarkdownText {
  struct Line {
    var number: Int
    var whole: Substring
    /// Without code spans.
    var text = ""
    /// The content of each code span, or of the part of it that is in this line.
    var code: [String] = []
  }

  private(set) var lines: [Line] = []

  init(_ file: SourceText) {
    var isFenced = false
    var isCode = false
    for (index, whole) in file.lines.enumerated() {
      if whole.drop(while: { $0 == " " }).hasPrefix("```") {
        isFenced.toggle()
        isCode = false
        continue
      }
      guard !isFenced else { continue }
      if whole.isEmpty { isCode = false }
      var line = Line(number: index + 1, whole: whole)
      let parts = whole.split(separator: "`", omittingEmptySubsequences: false)
      for (place, part) in parts.enumerated() {
        if place > 0 { isCode.toggle() }
        if isCode { line.code.append(String(part)) } else { line.text += part }
      }
      lines.append(line)
    }
  }
}

/// The names that a Swift file declares, as far as possible without a grammar.
struct Declarations {
  /// Types that it declares or extends.
  private(set) var types: Set<String> = []
  /// Everything that it declares. Functions also with their labels: `read`, `read(into:)`.
  private(set) var names: Set<String> = []

  private static let typeKeywords: Set = [
    "actor", "class", "enum", "extension", "protocol", "struct", "typealias",
  ]

  init(_ file: SourceText) {
    var scanner = WordScanner(file.code.joined(separator: "\n"))
    while let word = scanner.next() {
      switch word {
      case _ where Self.typeKeywords.contains(word):
        while let name = scanner.next() {
          types.insert(name)
          names.insert(name)
          guard scanner.takeDot() else { break }
        }
      case "case", "let", "var":
        if let name = scanner.next() { names.insert(name) }
      case "func":
        guard let name = scanner.next() else { return }
        names.insert(name)
        if let labels = scanner.labels() { names.insert(name + labels) }
      case "init", "subscript":
        if let labels = scanner.labels() { names.insert(word + labels) }
      default: continue
      }
    }
  }
}

/// Reads words of code. It works on bytes, which a debug build compares many times faster than characters.
private struct WordScanner {
  private let bytes: [UInt8]
  private var position = 0

  init(_ code: String) { bytes = Array(code.utf8) }

  private static func isWord(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
      true
    default: byte >= 0x80
    }
  }

  /// The next word; nil at the end.
  mutating func next() -> String? {
    while position < bytes.count, !Self.isWord(bytes[position]) { position += 1 }
    let start = position
    while position < bytes.count, Self.isWord(bytes[position]) { position += 1 }
    return start < position ? String(decoding: bytes[start..<position], as: UTF8.self) : nil
  }

  /// Consumes a dot that follows at once.
  mutating func takeDot() -> Bool {
    guard position < bytes.count, bytes[position] == UInt8(ascii: ".") else { return false }
    position += 1
    return true
  }

  /// The labels of the parameters that follow, as in `(_:count:)`; nil if none follow. Nothing is consumed.
  func labels() -> String? {
    var place = endOfGenerics()
    guard place < bytes.count, bytes[place] == UInt8(ascii: "(") else { return nil }
    var labels = "("
    var label: [UInt8] = []
    var awaitsLabel = true
    var isLabelWhole = false
    var depth = 0
    while place < bytes.count {
      let byte = bytes[place]
      place += 1
      switch byte {
      case UInt8(ascii: "("), UInt8(ascii: "["), UInt8(ascii: "{"): depth += 1
      case UInt8(ascii: ")"), UInt8(ascii: "]"), UInt8(ascii: "}"):
        depth -= 1
        if depth == 0 { return labels + ")" }
      case _ where depth > 1: continue
      case UInt8(ascii: ","): (label, awaitsLabel, isLabelWhole) = ([], true, false)
      case UInt8(ascii: ":") where awaitsLabel:
        labels += String(decoding: label, as: UTF8.self) + ":"
        awaitsLabel = false
      case _ where Self.isWord(byte): if awaitsLabel, !isLabelWhole { label.append(byte) }
      default: isLabelWhole = !label.isEmpty
      }
    }
    return nil
  }

  /// The place behind generic parameters, or the question mark of `init?`, if there are any.
  private func endOfGenerics() -> Int {
    var place = position
    if place < bytes.count, bytes[place] == UInt8(ascii: "?") { place += 1 }
    guard place < bytes.count, bytes[place] == UInt8(ascii: "<") else { return place }
    var depth = 0
    repeat {
      if bytes[place] == UInt8(ascii: "<") { depth += 1 }
      if bytes[place] == UInt8(ascii: ">") { depth -= 1 }
      place += 1
    } while depth > 0 && place < bytes.count
    return place
  }
}
