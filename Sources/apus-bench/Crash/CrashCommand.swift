import ApusCommand
import ApusLoop
import ApusWire
import Glibc

/// `apus-bench crash`: kills a service repeatedly, and checks that nothing is lost.
struct CrashCommand {
  let invocation: Invocation

  init(_ invocation: Invocation) { self.invocation = invocation }

  func run() throws(CommandFailure) {
    raiseDescriptorLimit()
    let seed = UInt64(invocation[BenchOptions.seed] ?? Int.random(in: 1...999_999_999))
    report("apus-bench crash: seed \(seed)\n")
    let loop = EventLoop(name: "crash")
    let run = CrashRun(
      try CrashSetting(invocation), kills: invocation.value(BenchOptions.kills), seed: seed,
      retention: invocation.value(BenchOptions.retention), loop: loop)
    do {
      let signals = try [SIGINT, SIGTERM].map { (signal) throws(SocketError) in
        try SignalWatcher(loop: loop, signal: signal) { run.interrupt() }
      }
      try withExtendedLifetime(signals) { try run.perform() }
      try run.readLedger()
    } catch {
      throw error as? CommandFailure ?? CommandFailure(.failed, "\(error)")
    }
    print(summary(run, seed).text)
    try judge(run, seed)
  }

  private func summary(_ run: CrashRun, _ seed: UInt64) -> JSONValue {
    let totals = run.account.totals
    let kinds = run.killCounts.sorted { $0.key < $1.key }
    let counts: KeyValuePairs<String, Int> = [
      "sent": totals.sent, "accepted": totals.accepted, "delivered": totals.delivered,
      "replaced": totals.replaced, "not_stored": totals.notStored,
      "redelivered": totals.redelivered, "refused": totals.refused, "unanswered": totals.unknown,
      "unanswered_delivered": totals.unknownDelivered, "lost": totals.lost,
      "without_final_state": totals.withoutFinalState, "unaccounted": totals.unaccounted,
      "violations": run.account.violations.count,
    ]
    func member(_ key: String, _ count: Int) -> JSONObject.Member {
      JSONObject.Member(key: key, value: .integer(Int64(count)))
    }
    let kills = JSONObject(kinds.map { member($0.key, $0.value) })
    var members = [JSONObject.Member(key: "seed", value: .integer(Int64(seed)))]
    members.append(member("kills", run.killCounts.values.reduce(0, +)))
    members.append(JSONObject.Member(key: "killed_when", value: .object(kills)))
    members += counts.map { member($0.key, $0.value) }
    return .object(JSONObject(members))
  }

  private func judge(_ run: CrashRun, _ seed: UInt64) throws(CommandFailure) {
    let violations = run.account.violations.prefix(50).map { violation -> String in
      switch violation {
      case .lost(let number), .withoutFinalState(let number), .unaccounted(let number):
        "\(violation): \(run.account.entries[number])"
      default: "\(violation)"
      }
    }
    let troubles = run.failures + violations
    guard !troubles.isEmpty else { return }
    throw CommandFailure(
      .failed, "seed \(seed):\n" + troubles.joined(separator: "\n"),
      remedy: "The same seed gives the same plan, but not the same timing.")
  }
}
