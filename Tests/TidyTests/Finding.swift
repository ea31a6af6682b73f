import Testing

/// A place that breaks a rule.
struct Finding: CustomStringConvertible {
  var path: String
  var line: Int
  /// What is wrong here.
  var problem: String
  /// What to do about it.
  var remedy: String

  var description: String { "\(path):\(line): \(problem). \(remedy)" }
}

/// Records each finding as a failure of its own, so that one run shows them all.
func expectNone(_ findings: [Finding], sourceLocation: SourceLocation = #_sourceLocation) {
  for finding in findings {
    Issue.record(Comment(rawValue: finding.description), sourceLocation: sourceLocation)
  }
}
