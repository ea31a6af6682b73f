extension Verb {
  static let benchDescription = CommandDescription(
    name: bench.rawValue, summary: "load test: simulate many devices or a constant-rate provider",
    details: [
      """
      Runs `apus-bench` from the folder of this program and passes all further arguments on. `apus bench help` lists \
      its commands, `apus bench fleet --help` describes one.
      """
    ], operands: "COMMAND [options]", operandCount: 0...Int.max,
    operandWords: BenchVerb.allCases.map(\.rawValue),
    examples: [
      (
        "A thousand devices, connected to the service on this machine",
        "apus bench fleet --data apus-data --devices 1000 --print-tokens tokens"
      ),
      (
        "Notifications for them",
        "apus bench push --data apus-data --tokens tokens --rate 1000 --seconds 10"
      ),
    ])
}
