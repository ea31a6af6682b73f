package import ApusModel

/// The options of `apus send` for devices that are named by the operator, and of `apus job`.
package enum GroupOptions {
  package static let device = group(
    "--device", .text("DEVICE"), repeats: true,
    "Send to this device, by its name or id. May be repeated.")
  package static let tag = group(
    "--tag", .deviceTag, repeats: true,
    "Send to the devices with this tag; KEY alone is any value. Repeated: with all of them.")
  package static let all = group("--all", .flag, "Send to all devices.")
  package static let environment = group(
    "--environment",
    .choice("NAME", Environment.allCases.map { ($0.name, $0) }), default: "production",
    "The environment of the app on the devices.")
  package static let detach = group(
    "--detach", .flag, "Print the job and exit; do not wait for it.")
  package static let idempotencyKey = group(
    "--idempotency-key", .text("KEY"), note: "a new one",
    "Repeating a command with the same key does not send again.")
  package static let outcome = Option(
    "--outcome", .text("OUTCOME"), in: [Verb.job], group: .search, scope: .flagOnly,
    help: "With results: only devices with this outcome, such as accepted, no_app or pending.")

  private static func group<Value>(
    _ flag: String, _ syntax: ValueSyntax<Value>, default value: String? = nil,
    note: String? = nil, repeats: Bool = false, _ help: String
  ) -> Option<Value> {
    Option(
      flag, syntax, in: [Verb.send], group: .devices, scope: .flagOnly, default: value, note: note,
      repeats: repeats, help: help)
  }

  static let descriptions: [OptionDescription] = [
    device.description, tag.description, all.description, environment.description,
    detach.description, idempotencyKey.description, outcome.description,
  ]
}
