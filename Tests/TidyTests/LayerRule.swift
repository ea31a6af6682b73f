/// Imports point down only.
///
/// The build checks each import against the dependencies declared in Package.swift; this checks Package.swift, through
/// the sources, against the layers, so that an edge cannot be added by accident.
enum LayerRule {
  struct Layer {
    /// Modules of this package that the target may import.
    var own: Set<String> = []
    /// Modules of the toolchain that it may import.
    var system: Set<String> = []
    /// Whether it owns C handles, and so may use `unsafe`.
    var mayBeUnsafe = false
  }

  /// Layers with effects use the system; those below them get time, randomness and bytes from their callers.
  private static let effects: Set = ["Glibc", "Synchronization"]
  /// Layers over a C library make no system calls of their own, and so do not depend on Linux.
  private static let portable: Set = ["Synchronization"]
  private static let pure: Set = ["ApusModel", "ApusWire", "ApusCore"]
  private static let bytes: Set = ["ApusTLS", "ApusHTTP2", "ApusTrust"]
  private static let control: Set = [
    "ApusLog", "ApusDirectory", "ApusEnrolment", "ApusWebhooks", "ApusJobs", "ApusAdmin",
  ]

  static let table: [String: Layer] = [
    // Module maps, and the C macros that Swift cannot import.
    "COpenSSL": Layer(),
    "CUV": Layer(),
    "CRocksDB": Layer(),
    "CEngineLog": Layer(),
    "CEmbedded": Layer(),
    "CMicroHTTPD": Layer(),
    "CCurl": Layer(),
    "CPostgres": Layer(),
    "CSystemd": Layer(),
    "CAgent": Layer(),
    "CShims": Layer(own: ["COpenSSL"]),
    // Vocabulary and bytes; files that the programs contain.
    "ApusEmbedded": Layer(own: ["CEmbedded"], mayBeUnsafe: true),
    "ApusModel": Layer(),
    "ApusRandom": Layer(),
    "ApusWire": Layer(own: ["ApusModel"]),
    // Decisions.
    "ApusCore": Layer(own: ["ApusModel", "ApusWire"]),
    "ApusLease": Layer(own: ["ApusModel"]),
    "ApusWalks": Layer(own: ["ApusModel", "ApusRandom", "ApusCore", "ApusLease"]),
    // Bytes in, bytes and events out; all but HTTP/2 over C.
    "ApusTLS": Layer(
      own: ["ApusModel", "COpenSSL", "CShims"], system: portable, mayBeUnsafe: true),
    "ApusHTTP2": Layer(own: ["ApusModel"], mayBeUnsafe: true),
    "ApusTrust": Layer(
      own: ["ApusModel", "ApusWire", "COpenSSL", "CShims"], system: portable, mayBeUnsafe: true),
    // Effects.
    "ApusThread": Layer(system: effects, mayBeUnsafe: true),
    "ApusLoop": Layer(own: ["CUV"], system: effects, mayBeUnsafe: true),
    "ApusStore": Layer(
      own: [
        "ApusModel", "ApusWire", "ApusLease", "ApusThread", "ApusEmbedded", "CRocksDB",
        "CEngineLog", "CPostgres",
      ], system: effects, mayBeUnsafe: true),
    "ApusWeb": Layer(
      own: ["ApusThread", "CMicroHTTPD", "CCurl"], system: effects, mayBeUnsafe: true),
    "ApusConsole": Layer(own: ["ApusEmbedded"]),
    "ApusLog": Layer(own: ["ApusModel", "ApusLoop"], system: effects, mayBeUnsafe: true),
    // The control plane: what commands need of a data directory, and the administration.
    "ApusDirectory": Layer(
      own: pure.union(["ApusTLS", "ApusTrust", "ApusLoop", "ApusLog", "ApusStore"]),
      system: effects, mayBeUnsafe: true),
    "ApusCluster": Layer(
      own: pure.union(["ApusTrust", "ApusLog", "ApusStore", "ApusThread", "ApusDirectory"]),
      system: effects),
    "ApusEnrolment": Layer(
      own: pure.union(["ApusTrust", "ApusLoop", "ApusLog", "ApusDirectory"]), system: effects,
      mayBeUnsafe: true),
    "ApusWebhooks": Layer(
      own: [
        "ApusModel", "ApusWire", "ApusTrust", "ApusLoop", "ApusLog", "ApusWeb", "ApusThread",
        "ApusDirectory",
      ], system: effects, mayBeUnsafe: true),
    "ApusJobs": Layer(
      own: pure.union(["ApusLoop", "ApusLog", "ApusStore", "ApusThread", "ApusDirectory"]),
      system: effects),
    "ApusAdmin": Layer(
      own: pure.union(["ApusTLS", "ApusTrust", "ApusLoop", "ApusStore", "ApusWeb", "ApusThread"])
        .union(["ApusLog", "ApusDirectory", "ApusEnrolment", "ApusEmbedded", "ApusWebhooks"])
        .union(["ApusJobs"]),
      system: effects, mayBeUnsafe: true),
    // Drivers.
    "ApusServer": Layer(
      own: pure.union(bytes).union(control).union(["ApusLoop", "ApusStore", "ApusThread"]),
      system: effects,
      mayBeUnsafe: true),
    "ApusClient": Layer(
      own: pure.union(bytes).union(["ApusLoop"]), system: effects, mayBeUnsafe: true),
    "ApusRelay": Layer(
      own: control.union([
        "ApusModel", "ApusWire", "ApusCore", "ApusTrust", "ApusLoop", "ApusStore", "ApusServer",
        "ApusClient",
      ]), system: ["Synchronization"]),
    "ApusDevice": Layer(
      own: pure.union(["ApusRandom", "ApusTLS", "ApusTrust", "ApusLoop"]), system: effects,
      mayBeUnsafe: true),
    "ApusAgent": Layer(
      own: [
        "ApusModel", "ApusWire", "ApusTLS", "ApusTrust", "ApusLoop", "ApusLog", "ApusDevice",
        "CAgent", "CSystemd",
      ], system: effects, mayBeUnsafe: true),
    "ApusTesting": Layer(
      own: pure.union(bytes).union(control).union([
        "ApusRandom", "ApusLoop", "ApusStore", "ApusServer", "ApusClient", "ApusRelay",
        "ApusDevice", "ApusThread", "ApusWeb",
      ]), system: effects, mayBeUnsafe: true),
    // The development service.
    "ApusDev": Layer(
      own: pure.union(control).union([
        "ApusTLS", "ApusTrust", "ApusLoop", "ApusWeb", "ApusServer", "ApusClient", "ApusDevice",
        "ApusConsole", "ApusRandom", "ApusThread", "ApusEmbedded",
      ]), system: effects, mayBeUnsafe: true),
    // Executables, and their pure parts.
    "ApusCommand": Layer(own: ["ApusModel", "ApusWire"]),
    "apus": Layer(
      own: pure.union(control).union([
        "ApusCommand", "ApusTLS", "ApusTrust", "ApusLoop", "ApusWeb", "ApusServer", "ApusClient",
        "ApusRelay", "ApusDevice", "ApusDev", "ApusCluster",
      ]),
      system: effects.union(["FoundationEssentials"]), mayBeUnsafe: true),
    "apus-agent": Layer(
      own: ["ApusAgent", "ApusCommand", "ApusWire", "ApusLoop", "ApusLog"], system: effects,
      mayBeUnsafe: true),
    "apus-bench": Layer(
      own: [
        "ApusCommand", "ApusModel", "ApusWire", "ApusCore", "ApusLoop", "ApusStore", "ApusTLS",
        "ApusTrust", "ApusClient", "ApusDevice", "ApusRandom",
      ], system: effects, mayBeUnsafe: true),
    "apus-sim": Layer(own: ["ApusTesting", "ApusWalks"], system: effects, mayBeUnsafe: true),
  ]

  /// The imports of a file. `import struct A.B` and `@_exported public import A` name module A.
  static func imports(of file: SourceText) -> [(line: Int, module: String)] {
    let pattern =
      #/
      (?:^|;)\s*(?:@\w+(?:\(\w+\))?\s+)*
      (?:(?:public|package|internal|fileprivate|private)\s+)?
      import\s+(?:(?:struct|class|enum|protocol|typealias|func|let|var)\s+)?
      (?<module>\w+)
      /#
    return file.code.enumerated().flatMap { index, text in
      text.matches(of: pattern).map { (index + 1, String($0.module)) }
    }
  }

  static func findings(in file: SourceText) -> [Finding] {
    guard let target = file.target else { return [] }
    guard let layer = table[target] else {
      return [
        Finding(
          path: file.path, line: 1, problem: "the target \(target) stands in no layer",
          remedy: "Give it a row in Tests/TidyTests/LayerRule.swift and in ARCHITECTURE.md")
      ]
    }
    return imports(of: file).compactMap { line, module in
      if layer.own.contains(module) || layer.system.contains(module) { return nil }
      return Finding(
        path: file.path, line: line, problem: "\(target) must not import \(module)",
        remedy: remedy(for: module, in: target))
    }
  }

  private static func remedy(for module: String, in target: String) -> String {
    switch module {
    case "Foundation", "FoundationEssentials":
      "Foundation makes the static program seven times as large; use the standard library and Glibc"
    case "Dispatch":
      "Work runs on a worker's loop (ApusLoop) or on the store's thread, never on a queue besides"
    case "Glibc":
      "\(target) makes no system calls: take time, randomness and bytes as parameters"
    default:
      "Imports point down: move the code to the layer that may, or pass what it needs from there"
    }
  }
}
