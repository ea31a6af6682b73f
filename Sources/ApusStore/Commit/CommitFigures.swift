package import ApusModel

/// How the groups that were submitted to a store fared since it was opened.
package struct CommitFigures: Sendable {
  /// From the submission of a group until it was durable.
  package var durations = MillisecondHistogram()
  /// Groups that were refused or failed.
  package var failedCount: UInt64 = 0

  package init() {}
}
