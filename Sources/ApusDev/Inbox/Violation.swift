package import ApusModel

/// Something that is wrong with a push, or with the way in which it was sent, whether or not it was accepted.
package struct Violation: Sendable, Hashable {
  /// A rule's name: a `LintRule`'s or a `ConnectionRule`'s.
  package var rule: String
  package var severity: LintRule.Severity
  package var message: String
  /// Where in the push: a header field's name, or a path into the payload.
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

/// What a single push does not show: how its provider behaves from one to the next.
package enum ConnectionRule: String, Sendable, CaseIterable {
  /// One connection after the other is opened for a push each.
  case connectionPerPush = "connection-per-push"
  /// A new provider token within 20 minutes of the one before.
  case tokenRefreshedEarly = "provider-token-refreshed-early"
  /// Sent again at once after a refusal that asks for patience (429, 500, 503).
  case retriedAtOnce = "retried-at-once"
  /// Sent again although the answer was that the token is dead (410).
  case deadTokenUsed = "dead-token-used"
  /// The visible text is longer than what a phone shows of it.
  case textLong = "text-long"

  package var severity: LintRule.Severity { self == .textLong ? .note : .warning }

  /// Where it comes from, for a report.
  package var source: String {
    switch self {
    case .connectionPerPush, .tokenRefreshedEarly:
      "Establishing a token-based connection to APNs; Sending notification requests to APNs"
    case .retriedAtOnce, .deadTokenUsed: "Handling notification responses from APNs"
    case .textLong: "Human Interface Guidelines: Notifications"
    }
  }
}
