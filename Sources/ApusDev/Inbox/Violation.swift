package import ApusModel

/// A problem of a push, or of the way it was sent, whether or not it was accepted.
package struct Violation: Sendable, Hashable {
  /// The name of a `LintRule` or a `ConnectionRule`.
  package var rule: String
  package var severity: LintRule.Severity
  package var message: String
  /// The position in the push: a header field's name, or a path into the payload.
  package var path: String?

  package init(_ finding: LintFinding) {
    rule = finding.rule.rawValue
    severity = finding.severity
    message = "\(finding.problem). \(finding.remedy)"
    path = finding.place
  }

  init(_ rule: ConnectionRule, _ message: String, at path: String? = nil) {
    self.rule = rule.rawValue
    severity = rule.severity
    self.message = message
    self.path = path
  }
}

/// Rules about the behaviour of a provider across several pushes.
package enum ConnectionRule: String, Sendable, CaseIterable {
  /// The provider opens a connection for each push.
  case connectionPerPush = "connection-per-push"
  /// The provider uses a new provider token within 20 minutes of the previous one.
  case tokenRefreshedEarly = "provider-token-refreshed-early"
  /// The provider retries at once after a rejection that requires waiting (429, 500, 503).
  case retriedAtOnce = "retried-at-once"
  /// The provider sends again although the response said that the token is invalid (410).
  case deadTokenUsed = "dead-token-used"
  /// The visible text is longer than a phone shows.
  case textLong = "text-long"

  package var severity: LintRule.Severity { self == .textLong ? .note : .warning }

  /// The document with the rule, for reports.
  package var source: String {
    switch self {
    case .connectionPerPush, .tokenRefreshedEarly:
      "Establishing a token-based connection to APNs; Sending notification requests to APNs"
    case .retriedAtOnce, .deadTokenUsed: "Handling notification responses from APNs"
    case .textLong: "Human Interface Guidelines: Notifications"
    }
  }
}
