import ApusModel
import ApusServer

// The number of acceptances: what providers were told, what the workers reported, and what the counters say.

extension Simulation {
  /// A response can be lost with its connection. The reports of the workers tell which were, so that all three must
  /// agree to the last notification. They exist only with a ledger.
  func checkAnswers() {
    guard let service = server.service else { return }
    // What goes upstream has laws of its own.
    let own = service.topicCounters().filter { !SimulationCredentials.isRelayed($0.topic.app) }
    let counted = Int(own.reduce(0) { $0 + $1.accepted })
    guard server.keepsLedger else { return checkCountWithoutReports(counted) }
    checkReports()
    checkCount(counted)
  }

  private func checkReports() {
    for (serial, notification) in oracle.sent.enumerated() where notification.isNamed {
      let isReported = ledger.accepted.contains(serial)
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
    if !(told...told + lost).contains(ledger.unnamedCount) {
      oracle.violated(
        .answers,
        "\(ledger.unnamedCount) binary notifications were accepted; providers were told so of "
          + "\(told), and nothing of \(lost)")
    }
  }

  /// A power cut loses lines of the ledger that were not synced, and the counts of what was in memory with them.
  private func checkCount(_ counted: Int) {
    let reported = ledger.receivedCount
    if counted > reported || counted < reported && server.powerLossCount == 0 {
      oracle.violated(
        .answers, "the counters have \(counted) acceptances, and the workers reported \(reported)")
    }
  }

  private func checkCountWithoutReports(_ counted: Int) {
    guard disk.faultCount == 0 else { return }
    let told = oracle.acceptedCount
    let lost = oracle.sent.count { $0.standing == .unknown }
    // What was routed twice may have been accepted twice.
    let repeated = oracle.sent.count { $0.mayComeTwice }
    if counted > told + lost + repeated
      || counted < told && server.crashCount + server.takeOverCount == 0
    {
      oracle.violated(
        .answers,
        "the counters have \(counted) acceptances; providers were told so \(told) times, and got "
          + "no answer \(lost) times")
    }
  }
}
