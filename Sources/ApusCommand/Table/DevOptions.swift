/// The options of `apus dev`.
package enum DevOptions {
  package static let data = Option(
    "--data", .directory, in: [Verb.dev], group: .service, scope: .flagOnly,
    note: "a temporary directory, deleted on exit",
    help: "Keep authority, keys, apps and devices there for the next run, but no pushes.")
  package static let strict = Option(
    "--strict", .flag, in: [Verb.dev], group: .service, scope: .flagOnly,
    help: "Refuse everything that the real service refuses.")
  package static let topic = Option(
    "--topic", .topic, in: [Verb.dev], group: .service, scope: .flagOnly,
    default: "com.example.app", repeats: true, help: "An app's bundle id. May be repeated.")
  package static let device = Option(
    "--device", .text("NAME"), in: [Verb.dev], group: .device, scope: .flagOnly,
    note: "phone and tablet", repeats: true, help: "A virtual device. May be repeated.")
  package static let strings = Option(
    "--strings", .directory, in: [Verb.dev], group: .device, scope: .flagOnly,
    help:
      "The folder of the first app's texts: it has LANGUAGE.lproj, and in each Localizable.strings."
  )
  package static let faults = Option(
    "--faults", .file, in: [Verb.dev], group: .service, scope: .flagOnly,
    help: "A JSON file of faults to inject.")
  package static let keep = Option(
    "--keep", .integer("N", 1...1_000_000), in: [Verb.dev], group: .service, scope: .flagOnly,
    default: "10000", help: "How many of the newest pushes are kept.")
  package static let keepMegabytes = Option(
    "--keep-mb", .integer("N", 1...65_536), in: [Verb.dev], group: .service, scope: .flagOnly,
    default: "128", help: "How much memory they may take.")
  package static let failOn = Option(
    "--fail-on",
    .choice("SEVERITY", [("error", "error"), ("warning", "warning"), ("note", "note")]),
    in: [Verb.dev], group: .service, scope: .flagOnly,
    help:
      "End with exit code 1 where there were violations as severe as this: error, warning or note.")
  package static let junit = Option(
    "--junit", .file, in: [Verb.dev], group: .service, scope: .flagOnly,
    help: "At the end, write the violations there as JUnit XML.")

  package static let port = port("--port", "2197", "Providers; development one above.")
  package static let courierPort = port(
    "--courier-port", "5223", "Devices of your own; development one above.")
  package static let gatewayPort = port(
    "--gateway-port", "2195", "Old senders (the binary interface); development 100 above.")
  package static let feedbackPort = port(
    "--feedback-port", "2196", "Their feedback service; development 100 above.")
  package static let consolePort = port("--console-port", "2190", "The console and the API.")
  package static let listen = Option(
    "--listen", .consolePlace("ADDRESS[:PORT]"), in: [Verb.dev], group: .listeners,
    scope: .flagOnly,
    note: "127.0.0.1",
    help: "Another address for the console and the API; requests there need a password.")
  package static let passwordFile = Option(
    "--password-file", .file, in: [Verb.dev], group: .listeners, scope: .flagOnly,
    note: "one is made and shown", help: "A file with that password, 16 bytes or more.")
  package static let freePorts = Option(
    "--free-ports", .flag, in: [Verb.dev], group: .listeners, scope: .flagOnly,
    help: "Take free ports everywhere; --json tells which.")

  private static func port(_ flag: String, _ number: String, _ help: String) -> Option<Int> {
    Option(
      flag, .integer("PORT", 0...65_435), in: [Verb.dev], group: .listeners, scope: .flagOnly,
      default: number, help: help + " 0 takes free ones.")
  }

  static let all: [OptionDescription] = [
    data.description, strict.description, topic.description, device.description,
    strings.description, faults.description, keep.description, keepMegabytes.description,
    failOn.description, junit.description, port.description, courierPort.description,
    gatewayPort.description, feedbackPort.description, consolePort.description,
    listen.description, passwordFile.description, freePorts.description,
  ]
}

extension Verb {
  static let devDescription = CommandDescription(
    name: "dev", summary: "simulate APNs for development and tests",
    details: [
      """
      Starts the whole service in memory on this machine, with an authority, a key, an app and virtual devices of its \
      own, and tells what to write into a provider so that it sends there. A page shows each push as it comes: what \
      was asked for, the answer with its reason in words, violations of accepted pushes, the delivery path, \
      and what the device shows. Ctrl-C ends it.
      """,
      """
      It is lenient: any well-formed device token and topic is taken, and any key that can be read; an \
      unknown token gets a new virtual device. With --strict it refuses what the service refuses.
      """,
      """
      The page's address has an API as well, for tests: wait for a push, count, clear, switch devices, arm faults, set \
      the clock. /openapi.json describes it. With --json the first line on standard output is {"event":"ready", ...}.
      """,
    ],
    examples: [
      ("In a terminal beside your server", "apus dev"),
      ("Your own app's id, and its texts", "apus dev --topic com.example.shop --strings Resources"),
      (
        "In CI: as strict as the service, on free ports, failing when a push was wrong",
        "apus dev --strict --free-ports --json --fail-on warning --junit violations.xml"
      ),
    ])
}
