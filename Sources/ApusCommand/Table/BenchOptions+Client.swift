// The options of `apus-bench send`, which measures the client library.
extension BenchOptions {
  package static let http2 = Option(
    "--connect", .hostPort, in: [BenchVerb.send], group: .connection, scope: .flagOnly,
    default: "127.0.0.1:2197", help: "The server, as a numeric address.")
  package static let sinkAuthority = Option(
    "--authority", .file, in: [BenchVerb.send], group: .connection, scope: .flagOnly,
    isRequired: true, help: "The authority that issued the server's certificate for \"localhost\".")
  package static let connections = Option(
    "--connections", .integer("N", 1...1000), in: [BenchVerb.send], group: .connection,
    scope: .flagOnly, default: "8", help: "Maximum number of connections.")
  package static let token = Option(
    "--token", .text("HEX"), in: [BenchVerb.send], group: .load, scope: .flagOnly,
    isRequired: true, help: "The device token of all notifications.")
  package static let payload = Option(
    "--payload", .file, in: [BenchVerb.send], group: .load, scope: .flagOnly, isRequired: true,
    help: "The payload of all notifications.")
  package static let pushes = Option(
    "--notifications", .integer("N", 1...4_000_000_000), in: [BenchVerb.send], group: .load,
    scope: .flagOnly, isRequired: true, help: "Notifications to measure.")
  package static let warmUp = Option(
    "--warm-up", .integer("N", 0...4_000_000_000), in: [BenchVerb.send], group: .load,
    scope: .flagOnly, default: "20000", help: "Notifications to send before the measurement.")
  package static let form = Option(
    "--form", .choice("FORM", [("bulk", SendForm.bulk), ("single", .single)]),
    in: [BenchVerb.send], group: .load, scope: .flagOnly, default: "bulk",
    help: "Send all in one bulk call, or each with a separate call.")
  package static let capacity = Option(
    "--capacity", .integer("N", 1...1_000_000), in: [BenchVerb.send], group: .load,
    scope: .flagOnly, default: "8192", help: "With --form bulk: maximum number of pushes in flight."
  )
  package static let tasks = Option(
    "--tasks", .integer("N", 1...100_000), in: [BenchVerb.send], group: .load, scope: .flagOnly,
    default: "800", help: "With --form single: tasks, each of which sends one push at a time.")
}

/// How `apus-bench send` calls the client.
package enum SendForm: Sendable {
  case bulk, single
}
