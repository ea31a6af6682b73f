import ApusTesting

/// The parsed command line.
struct Arguments {
  struct Fault: Error, CustomStringConvertible {
    var description: String
  }

  /// What to run.
  enum Kind {
    case worlds
    /// Random walks of a shard and of a cluster.
    case walks
    /// Each rule broken on purpose.
    case canaries
    /// The worlds that are run whatever the seeds.
    case known
  }

  private(set) var seed: UInt64?
  private(set) var seconds = 1800
  /// How many consecutive seeds to run; with `durationSeconds` as many as fit.
  private(set) var seedCount = 1
  /// Real seconds for which to run consecutive seeds.
  private(set) var durationSeconds: Int?
  private(set) var kind = Kind.worlds
  private(set) var canary: SimulationCanary?
  private(set) var printsTrace = false
  /// How many nodes each world has; nil: its seed decides.
  private(set) var nodes: Int?
  /// How many of them decide about a part of the devices.
  private(set) var parts: Int?
  private(set) var asksForHelp = false

  static let help = """
    apus-sim runs the whole service with providers and devices in a simulated world.

      --seed N        the seed of the first world (default: a random one)
      --hours H       simulated hours of traffic (default: 0.5)
      --nodes N       one to five in each world (default: the seed decides)
      --parts N       the parts of the devices, with a node for each of them (default: the seed decides)
      --count N       run N seeds, one after the other (default: 1)
      --duration S    continue with the following seeds for S seconds
      --canaries      break each rule once, and find out whether the law about it is reported
      --known         a world that once broke a law, and one whose disk is full for an hour
      --walks         only walk: one shard, its disk and its devices, 300 random steps for each seed; and a cluster of
                      nodes over one database, for 43 seconds
      --trace         print the last events, even if no law was broken
      --canary NAME   break a rule deliberately: \
    \(SimulationCanary.allCases.map(\.rawValue).joined(separator: ", "))

    The same seed and hours give the same trace with the same program. Exits with 1 if a law was broken.
    """

  init(_ words: [String]) throws {
    var rest = words[...]
    while let word = rest.popFirst() {
      switch word {
      case "--seed": seed = try Self.value(UInt64.init, of: word, &rest)
      case "--hours":
        let hours = try Self.value(Double.init, of: word, &rest)
        guard hours > 0, hours < 10_000 else { throw Fault(description: "--hours: not \(hours)") }
        seconds = max(1, Int((hours * 3600).rounded()))
      case "--nodes": nodes = try Self.nodeCount(of: word, &rest)
      case "--parts": parts = try Self.nodeCount(of: word, &rest)
      case "--count": seedCount = try Self.value({ Int($0) }, of: word, &rest)
      case "--duration": durationSeconds = try Self.value({ Int($0) }, of: word, &rest)
      case "--canary":
        canary = try Self.value(SimulationCanary.init(rawValue:), of: word, &rest)
      case "--walks": kind = .walks
      case "--canaries": kind = .canaries
      case "--known": kind = .known
      case "--trace": printsTrace = true
      case "--help", "-h": asksForHelp = true
      default: throw Fault(description: "unknown option \"\(word)\"; see apus-sim --help")
      }
    }
  }

  private static func nodeCount(
    of option: String, _ rest: inout ArraySlice<String>
  ) throws -> Int {
    let count = try value({ Int($0) }, of: option, &rest)
    guard (1...5).contains(count) else { throw Fault(description: "\(option): not \(count)") }
    return count
  }

  private static func value<Value>(
    _ read: (String) -> Value?, of option: String, _ rest: inout ArraySlice<String>
  ) throws -> Value {
    guard let text = rest.popFirst(), let value = read(text) else {
      throw Fault(description: "\(option) needs a value; see apus-sim --help")
    }
    return value
  }

  func options(seed: UInt64) -> Simulation.Options {
    var options = Simulation.Options(seed: seed, seconds: seconds)
    options.canary = canary
    (options.nodes, options.parts) = (nodes, parts)
    options.traceCapacity = 400
    if printsTrace { options.traceEverything() }
    return options
  }

  /// The options that run this seed again.
  func repetition(_ seed: UInt64) -> String {
    var words = ["--seed \(seed)", "--hours \(Double(seconds) / 3600)", "--trace"]
    if let nodes { words.append("--nodes \(nodes)") }
    if let parts { words.append("--parts \(parts)") }
    if let canary { words.append("--canary \(canary.rawValue)") }
    return words.joined(separator: " ")
  }
}
