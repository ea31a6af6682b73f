import Testing

/// A place that breaks a rule.
struct Finding: CustomStringConvertible {
  var path: String
  var line: Int
  /// What is wrong.
  var problem: String
  /// How to fix it.
  var remedy: String

  var description: String { "\(path):\(line): \(problem). \(remedy)" }
}

/// Records each finding as a separate failure, so that one run shows them all.
func expectNone(_ findings: [Finding], sourceLocation: SourceLocation = #_sourceLocation) {
  for finding in findings {
    Issue.record(Comment(rawValue: finding.description), sourceLocation: sourceLocation)
  }
}
