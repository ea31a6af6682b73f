// Of `apus-bench send`, which measures the client library.
extension BenchOptions {
  package static let http2 = Option(
    "--connect", .hostPort, in: [BenchVerb.send], group: .connection, scope: .flagOnly,
    default: "127.0.0.1:2197", help: "The server, its address in numbers.")
  package static let sinkAuthority = Option(
    "--authority", .file, in: [BenchVerb.send], group: .connection, scope: .flagOnly,
    isRequired: true, help: "The authority that its certificate for \"localhost\" comes from.")
  package static let connections = Option(
    "--connections", .integer("N", 1...1000), in: [BenchVerb.send], group: .connection,
    scope: .flagOnly, default: "8", help: "How many at most.")
  package static let token = Option(
    "--token", .text("HEX"), in: [BenchVerb.send], group: .load, scope: .flagOnly,
    isRequired: true, help: "The device token of all notifications.")
  package static let payload = Option(
    "--payload", .file, in: [BenchVerb.send], group: .load, scope: .flagOnly, isRequired: true,
    help: "The payload of all notifications.")
  package static let pushes = Option(
    "--notifications", .integer("N", 1...4_000_000_000), in: [BenchVerb.send], group: .load,
    scope: .flagOnly, isRequired: true, help: "How many are measured.")
  package static let warmUp = Option(
    "--warm-up", .integer("N", 0...4_000_000_000), in: [BenchVerb.send], group: .load,
    scope: .flagOnly, default: "20000", help: "How many are sent before.")
  package static let form = Option(
    "--form", .choice("FORM", [("bulk", SendForm.bulk), ("single", .single)]),
    in: [BenchVerb.send], group: .load, scope: .flagOnly, default: "bulk",
    help: "All in one bulk send, or each with a call of its own.")
  package static let capacity = Option(
    "--capacity", .integer("N", 1...1_000_000), in: [BenchVerb.send], group: .load,
    scope: .flagOnly, default: "8192", help: "With --form bulk: pushes on their way at most.")
  package static let tasks = Option(
    "--tasks", .integer("N", 1...100_000), in: [BenchVerb.send], group: .load, scope: .flagOnly,
    default: "800", help: "With --form single: tasks that each send one after the other.")
}

/// How `apus-bench send` calls the client.
package enum SendForm: Sendable {
  case bulk, single
}
