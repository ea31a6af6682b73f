import ApusAgent
import ApusCommand

/// `apus-agent check`: reads `agent.conf`, and looks for what it refers to.
struct CheckCommand {
  let invocation: Invocation

  init(_ invocation: Invocation) { self.invocation = invocation }

  func run() throws(CommandFailure) {
    let configuration = try invocation.readConfiguration()
    let problems = configuration.missingThings()
    guard problems.isEmpty else {
      throw CommandFailure(
        .configuration, "\(invocation.configurationPath): \(problems[0])",
        remedy: problems.dropFirst().joined(separator: "\n"))
    }
    Terminal.standard(
      "\(invocation.configurationPath): \(configuration.topics.count) topics, "
        + "\(configuration.grants.count) users who may register topics, "
        + "service \(configuration.serviceText)\n")
  }
}
