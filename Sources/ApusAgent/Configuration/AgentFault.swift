/// What is wrong, and what to do about it.
package struct AgentFault: Error, Sendable, Hashable, CustomStringConvertible {
  package var problem: String
  /// In full sentences; nil if the problem says it.
  package var remedy: String?

  package init(_ problem: String, remedy: String? = nil) {
    self.problem = problem
    self.remedy = remedy
  }

  package var description: String { problem }
}
