import ApusModel
import ApusServer

// The number of acceptances: what providers were told, what the workers reported, and what the counters say.

extension Simulation {
  /// A response can be lost with its connection. The reports of the workers tell which were, so that all three must
  /// agree to the last notification. They exist only with a ledger.
  func checkAnswers() {
    let services = parts.compactMap(\.server.service)
    guard services.count == parts.count else { return }
    // What goes upstream has laws of its own.
    let own = services.flatMap { $0.topicCounters() }.filter {
      !SimulationCredentials.isRelayed($0.topic.app)
    }
    let counted = Int(own.reduce(0) { $0 + $1.accepted })
    guard server.keepsLedger else { return checkCountWithoutReports(counted) }
    checkReports()
    checkCount(counted)
  }

  private func checkReports() {
    let accepted = parts.reduce(into: Set()) { $0.formUnion($1.ledger.accepted) }
    for (serial, notification) in oracle.sent.enumerated() where notification.isNamed {
      let isReported = accepted.contains(serial)
      switch notification.standing {
      case .accepted where !isReported:
        oracle.violated(
          .answers, "a provider was told that notification \(serial) was accepted, and it was not")
      case .refused where isReported:
        oracle.violated(
          .answers, "a provider was told that notification \(serial) was rejected, and it was not")
      default: break
      }
    }
    // Notifications of the binary interface have no id. Their answers are lost with connections that end.
    let unnamed = oracle.sent.filter { !$0.isNamed }
    let told = unnamed.count { $0.standing == .accepted }
    let lost = unnamed.count { $0.standing == .unknown }
    let reported = parts.reduce(0) { $0 + $1.ledger.unnamedCount }
    // What the node of legacy senders routes to that of another part, it may route twice.
    let repeated = parts.count > 1 ? unnamed.count { $0.mayComeTwice } : 0
    if !(told...told + lost + repeated).contains(reported) {
      oracle.violated(
        .answers,
        "\(reported) binary notifications were accepted; providers were told so of "
          + "\(told), and nothing of \(lost)")
    }
  }

  /// A power cut loses lines of the ledger that were not synced, and the counts of what was in memory with them.
  private func checkCount(_ counted: Int) {
    let reported = parts.reduce(0) { $0 + $1.ledger.receivedCount }
    let hasLostPower = parts.contains { $0.server.powerLossCount > 0 }
    if counted > reported || counted < reported && !hasLostPower {
      oracle.violated(
        .answers, "the counters have \(counted) acceptances, and the workers reported \(reported)")
    }
  }

  private func checkCountWithoutReports(_ counted: Int) {
    guard diskFaultCount == 0 else { return }
    let told = oracle.acceptedCount
    let lost = oracle.sent.count { $0.standing == .unknown }
    // What was routed twice may have been accepted twice.
    let repeated = oracle.sent.count { $0.mayComeTwice }
    if counted > told + lost + repeated
      || counted < told && crashCount + takeOverCount == 0
    {
      oracle.violated(
        .answers,
        "the counters have \(counted) acceptances; providers were told so \(told) times, and got "
          + "no answer \(lost) times")
    }
  }
}
