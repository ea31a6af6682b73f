import Foundation

/// The repository is self-contained: it refers to nothing that a reader of a clone does not have.
enum SelfContainedRule {
  /// The patterns, assembled so that this file does not match itself, and how to fix a match.
  private static let banned: [(text: String, remedy: String)] = {
    let path = "Name paths from the root of the repository"
    let reason = "Say here what the reader has to know, or point to a section of ARCHITECTURE.md"
    return [
      ("/" + "work/", path), ("/" + "root/", path), ("/" + "home/", path), ("/" + "tmp/h/", path),
      ("issue " + "#", reason), ("issues" + "/", reason), ("design" + ".md", reason),
      ("feasibility" + ".md", reason), ("provider-" + "api.md", reason),
    ]
  }()

  static func findings(in file: SourceText) -> [Finding] {
    file.lines.enumerated().flatMap { index, line in
      let text = line.lowercased()
      return banned.filter { contains(text, $0.text) }.map { banned in
        Finding(
          path: file.path, line: index + 1,
          problem: "\"\(banned.text)\" means nothing to a reader of a clone", remedy: banned.remedy)
      }
    }
  }

  /// Whether `word` occurs in `text` other than as the end of a longer word or path.
  private static func contains(_ text: String, _ word: String) -> Bool {
    // C finds much faster than a debug build that a line does not have it.
    let mayHave = text.withCString { strlen($0) < text.utf8.count || strstr($0, word) != nil }
    guard mayHave else { return false }
    return text.ranges(of: word).contains { range in
      guard range.lowerBound > text.startIndex else { return true }
      let before = text[text.index(before: range.lowerBound)]
      return
        !(before.isLetter || before.isNumber || before == "_" || before == "-" || before == ".")
    }
  }
}
