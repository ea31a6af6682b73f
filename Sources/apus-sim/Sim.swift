import ApusTesting
import ApusWalks
import Glibc

/// `apus-sim`: runs simulations of the whole service, one seed after the other, and reports broken laws.
@main
struct Sim {
  static func main() {
    do {
      let arguments = try Arguments(Array(CommandLine.arguments.dropFirst()))
      if arguments.asksForHelp { return print(Arguments.help) }
      let isGood =
        switch arguments.kind {
        case .worlds: try run(arguments)
        case .walks: walk(arguments)
        case .canaries: try runCanaries()
        case .known: try runKnownWorlds()
        }
      exit(isGood ? 0 : 1)
    } catch {
      report("apus-sim: \(error)")
      exit(2)
    }
  }

  /// Returns true if no law was broken.
  private static func run(_ arguments: Arguments) throws -> Bool {
    var totals = Totals()
    for seed in arguments.seeds {
      let outcome = try Simulation(arguments.options(seed: seed)).run()
      totals.add(outcome)
      tell(outcome, arguments)
      if !outcome.violations.isEmpty { return false }
    }
    if arguments.runsSeveral { print(totals.text) }
    return true
  }

  private static let stepsOfWalk = 300

  private static func walk(_ arguments: Arguments) -> Bool {
    var walks = 0
    for seed in arguments.seeds {
      if let fault = ShardWalk(seed: seed, steps: stepsOfWalk).fault
        ?? LeaseWalk(seed: seed, rounds: 1).fault
      {
        print("broken: \(fault)\nrepeat: apus-sim --walks --seed \(seed)")
        return false
      }
      walks += 1
    }
    print("\(walks) walks of a shard (\(stepsOfWalk) steps) and of a cluster, no law broken")
    return true
  }

  private static func tell(_ outcome: Simulation.Report, _ arguments: Arguments) {
    guard outcome.violations.isEmpty else {
      for line in outcome.trace { print(line) }
      for violation in outcome.violations { print("broken: \(violation)") }
      print(
        "\(outcome.line)\nrepeat with the trace: apus-sim \(arguments.repetition(outcome.seed))")
      return
    }
    if arguments.printsTrace { for line in outcome.trace { print(line) } }
    if arguments.printsTrace || !arguments.runsSeveral { print(outcome.line) }
  }

  private static func report(_ text: String) {
    var bytes = Array((text + "\n").utf8)
    _ = unsafe write(STDERR_FILENO, &bytes, bytes.count)
  }
}

extension Arguments {
  fileprivate var runsSeveral: Bool { seedCount > 1 || durationSeconds != nil }

  /// Consecutive seeds, from a random one if none is given.
  fileprivate var seeds: some Sequence<UInt64> {
    let first = seed ?? UInt64(bitPattern: Int64(time(nil))) &* 1_000_000
    let end = durationSeconds.map { time(nil) + $0 }
    return (0...).lazy.map { first &+ $0 }.prefix { seed in
      if let end { seed == first || time(nil) < end } else { seed &- first < UInt64(seedCount) }
    }
  }
}

extension Simulation.Report {
  fileprivate var line: String {
    "seed \(seed)  trace \(String(hash, radix: 16))  \(simulatedSeconds) s simulated, "
      + "\(events) events, \(sent) sent, \(accepted) accepted, \(delivered) delivered, "
      + "\(crashes) crashes, \(takeOvers) take-overs, \(links) links, \(stops) stops, \(diskFaults) disk faults, "
      + "\(broadcastsAccepted) of \(broadcastsSent) broadcasts accepted, "
      + "\(broadcastsDelivered) delivered, \(woken) of \(dormant) dormant devices woken, "
      + "\(relayedReceived) of \(relayed) received upstream, \(relayedRepeated) repeated"
  }
}

/// The sums over all seeds.
private struct Totals {
  private var seeds = 0
  private var seconds = 0
  private var crashes = 0
  private var takeOvers = 0
  private var diskFaults = 0
  private var accepted = 0
  private var broadcasts = 0
  private var woken: UInt64 = 0
  private var relayed = 0
  private var repeated = 0

  mutating func add(_ outcome: Simulation.Report) {
    seeds += 1
    seconds += outcome.simulatedSeconds
    crashes += outcome.crashes
    takeOvers += outcome.takeOvers
    diskFaults += outcome.diskFaults
    accepted += outcome.accepted
    broadcasts += outcome.broadcastsAccepted
    woken += outcome.woken
    relayed += outcome.relayedReceived
    repeated += outcome.relayedRepeated
  }

  var text: String {
    let tenths = seconds / 360
    return "\(seeds) seeds, \(tenths / 10).\(tenths % 10) simulated hours, \(crashes) crashes, "
      + "\(takeOvers) take-overs, \(diskFaults) disk faults, \(accepted) notifications and "
      + "\(broadcasts) broadcasts accepted, "
      + "\(woken) dormant devices woken, \(relayed) notifications relayed, \(repeated) of them "
      + "again after a crash: no law was broken"
  }
}
