/// Files have one subject and a readable length; lines fit two windows side by side.
enum SizeRule {
  static let maximumLines = 400
  static let maximumColumns = 120

  struct Exception {
    /// The current number of lines: the file may shrink, never grow.
    var lines: Int
    var reason: String
  }

  /// Longer files, each with the reason why it is still one subject.
  static let exceptions: [String: Exception] = [:]

  static func lengthFindings(
    in file: SourceText, exceptions: [String: Exception] = exceptions
  ) -> [Finding] {
    let limit = exceptions[file.path]?.lines ?? maximumLines
    if file.lines.count > limit {
      return [
        Finding(
          path: file.path, line: limit + 1, problem: "\(file.lines.count) lines, \(limit) allowed",
          remedy: "Give each subject of it a file of its own")
      ]
    }
    guard let exception = exceptions[file.path], file.lines.count < exception.lines else {
      return []
    }
    return [
      Finding(
        path: file.path, line: file.lines.count,
        problem: "only \(file.lines.count) of the \(exception.lines) lines that it was allowed",
        remedy: file.lines.count > maximumLines
          ? "Lower its number in Tests/TidyTests/SizeRule.swift, so that it cannot grow back"
          : "Remove it from the exceptions in Tests/TidyTests/SizeRule.swift")
    ]
  }

  static func columnFindings(in file: SourceText) -> [Finding] {
    file.lines.enumerated().compactMap { index, text in
      guard text.count > maximumColumns else { return nil }
      return Finding(
        path: file.path, line: index + 1,
        problem: "\(text.count) columns, \(maximumColumns) allowed",
        remedy: "`make format` breaks code; break comments and literals by hand")
    }
  }
}
