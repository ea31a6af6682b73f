/// The commands of `apus-bench`, which is for measuring and for trying things out.
package enum BenchVerb: String, Sendable, CaseIterable {
  case jwt
  case fleet
  case help
}

extension Program {
  package static let bench = Program(
    name: "apus-bench", summary: "tools for measuring Apus", details: [],
    commands: [
      CommandDescription(
        name: BenchVerb.jwt.rawValue, summary: "print a provider token",
        details: ["The token is good for an hour from now."],
        examples: [
          ("For curl", "apus-bench jwt --key ABC123DEFG.p8 --key-id ABC123DEFG --team TEAM123456")
        ]),
      CommandDescription(
        name: BenchVerb.fleet.rawValue, summary: "be many devices in one process",
        details: [
          """
          Issues a certificate to each device from the data directory's authority, connects them all, registers the \
          topic, and acknowledges every notification until SIGTERM or SIGINT. Then it prints one JSON object: \
          devices, received, acknowledged, duplicates. A device's id follows from its number, so that a second run \
          has the same devices with the same tokens.
          """
        ],
        examples: [
          (
            "A thousand devices",
            "apus-bench fleet --devices 1000 --connect 127.0.0.1:5223 --print-tokens tokens"
          )
        ]),
      CommandDescription(
        name: BenchVerb.help.rawValue, summary: "describe a command", operands: "[COMMAND]",
        operandCount: 0...1),
    ], options: BenchOptions.all)
}

/// The options of `apus-bench`.
package enum BenchOptions {
  package static let key = Option(
    "--key", .file, in: [BenchVerb.jwt], group: .credentials, scope: .flagOnly, isRequired: true,
    help: "The provider key that signs.")
  package static let keyID = Option(
    "--key-id", .shortID("ID"), in: [BenchVerb.jwt], group: .credentials, scope: .flagOnly,
    isRequired: true, help: "Its id.")
  package static let team = Option(
    "--team", .shortID("ID"), in: [BenchVerb.jwt], group: .credentials, scope: .flagOnly,
    isRequired: true, help: "The team that it belongs to.")

  package static let devices = Option(
    "--devices", .integer("N", 1...1_000_000), in: [BenchVerb.fleet], group: .load,
    scope: .flagOnly, isRequired: true, help: "How many devices.")
  package static let connect = Option(
    "--connect", .hostPort, in: [BenchVerb.fleet], group: .load, scope: .flagOnly,
    default: "127.0.0.1:5223", help: "The service's door for devices, its address in numbers.")
  package static let topic = Option(
    "--topic", .topic, in: [BenchVerb.fleet], group: .load, scope: .flagOnly,
    default: "com.example.app", help: "The app that each device registers.")
  package static let printTokens = Option(
    "--print-tokens", .file, in: [BenchVerb.fleet], group: .load, scope: .flagOnly,
    help: "Write the tokens there once all are known, one a line, in the order of the devices.")
  package static let exitAfterRegistration = Option(
    "--exit-after-registration", .flag, in: [BenchVerb.fleet], group: .load, scope: .flagOnly,
    help: "Disconnect and end once all tokens are known.")
  package static let data = Option(
    "--data", .directory, in: [BenchVerb.fleet], group: .general, scope: .flagAndEnvironment,
    default: "./apus-data", help: "The service's data directory.")

  package static let all: [OptionDescription] = [
    key.description, keyID.description, team.description, devices.description,
    connect.description, topic.description, printTokens.description,
    exitAfterRegistration.description, data.description,
  ]
}
