import ApusModel

/// Wire names are spelled once, in ApusModel: a misspelt copy would compile and be wrong on the wire.
enum VocabularyRule {
  /// Files that may spell a name, each with the reason.
  static let exceptions: [String: String] = [:]

  static let headerNames = HeaderName.allCases.map { "\($0.text)" }.filter { $0.hasPrefix("apns-") }
  static let reasons = Reason.allCases.map { "\($0.text)" }

  /// Where to take a word from; nil for a literal that contains none.
  ///
  /// Header names and reasons of several words count anywhere in a literal. `Forbidden` and similar ones are also
  /// English words, so they count only as whole literals.
  private static func source(of literal: String) -> (word: String, spelling: String)? {
    let words = literal.split { !($0.isLetter || $0.isNumber || $0 == "-") }.map(String.init)
    if let name = words.first(where: headerNames.contains) { return (name, "HeaderName") }
    let word = words.first { word in
      reasons.contains(word) && (word == literal || word.dropFirst().contains(where: \.isUppercase))
    }
    return word.map { ($0, "Reason") }
  }

  static func findings(in file: SourceText) -> [Finding] {
    guard let target = file.target, target != "ApusModel", exceptions[file.path] == nil else {
      return []
    }
    return file.literals.compactMap { literal in
      guard let (word, type) = source(of: literal.text) else { return nil }
      return Finding(
        path: file.path, line: literal.line, problem: "the literal spells \"\(word)\"",
        remedy: "Use the case of ApusModel's \(type) and its `text`")
    }
  }
}
