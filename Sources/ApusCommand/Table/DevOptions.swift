/// The options of `apus dev`.
package enum DevOptions {
  package static let data = Option(
    "--data", .directory, in: [Verb.dev], group: .service, scope: .flagOnly,
    note: "a temporary directory, deleted on exit",
    help:
      "Keep authority, keys, apps and devices in this directory for the next run, but no pushes.")
  package static let strict = Option(
    "--strict", .flag, in: [Verb.dev], group: .service, scope: .flagOnly,
    help: "Reject everything that the real service rejects.")
  package static let topic = Option(
    "--topic", .topic, in: [Verb.dev], group: .service, scope: .flagOnly,
    default: "com.example.app", repeats: true, help: "An app's bundle id. May be repeated.")
  package static let device = Option(
    "--device", .text("NAME"), in: [Verb.dev], group: .device, scope: .flagOnly,
    note: "phone and tablet", repeats: true, help: "A virtual device. May be repeated.")
  package static let strings = Option(
    "--strings", .directory, in: [Verb.dev], group: .device, scope: .flagOnly,
    help:
      "The folder with the first app's texts: LANGUAGE.lproj/Localizable.strings for each language."
  )
  package static let faults = Option(
    "--faults", .file, in: [Verb.dev], group: .service, scope: .flagOnly,
    help: "A JSON file with faults to inject.")
  package static let keep = Option(
    "--keep", .integer("N", 1...1_000_000), in: [Verb.dev], group: .service, scope: .flagOnly,
    default: "10000", help: "How many of the newest pushes are kept.")
  package static let keepMegabytes = Option(
    "--keep-mb", .integer("N", 1...65_536), in: [Verb.dev], group: .service, scope: .flagOnly,
    default: "128", help: "Megabytes of memory for the kept pushes.")
  package static let failOn = Option(
    "--fail-on",
    .choice("SEVERITY", [("error", "error"), ("warning", "warning"), ("note", "note")]),
    in: [Verb.dev], group: .service, scope: .flagOnly,
    help:
      "Exit with 1 if there were violations of this severity or higher: error, warning or note.")
  package static let junit = Option(
    "--junit", .file, in: [Verb.dev], group: .service, scope: .flagOnly,
    help: "On exit, write the violations to this file as JUnit XML.")

  package static let allow = Option(
    "--allow", .text("RULE"), in: [Verb.dev], group: .service, scope: .flagOnly, repeats: true,
    help: "Report no violations of this rule, such as key-unknown. May be repeated.")

  package static let port = port(
    "--port", "2197", "Listener for providers; for development, one above.")
  package static let channelsPort = port(
    "--channels-port", "2199",
    "Listener where providers manage channels; for development, one above.")
  package static let courierPort = port(
    "--courier-port", "5223", "Listener for your own devices; for development, one above.")
  package static let gatewayPort = port(
    "--gateway-port", "2195",
    "Listener for legacy senders (binary interface); for development, 100 above.")
  package static let feedbackPort = port(
    "--feedback-port", "2196",
    "Feedback service for legacy senders; for development, 100 above.")
  package static let consolePort = port(
    "--console-port", "2190", "Listener for the web console and the API.")
  package static let listen = Option(
    "--listen", .numericAddress, in: [Verb.dev], group: .listeners, scope: .flagOnly,
    note: "127.0.0.1 and ::1",
    help:
      "The address of all listeners, such as 0.0.0.0. Beyond loopback, page and API need a password."
  )
  package static let name = Option(
    "--name", .text("NAME"), in: [Verb.dev], group: .listeners, scope: .flagOnly, repeats: true,
    help:
      "A host name or address for the certificate, besides localhost. The first is what is printed."
  )
  package static let passwordFile = Option(
    "--password-file", .file, in: [Verb.dev], group: .listeners, scope: .flagOnly,
    note: "$APUS_DEV_PASSWORD, or one is generated and shown",
    help: "A file with that password, at least 16 bytes.")
  package static let rsa = Option(
    "--rsa", .flag, in: [Verb.dev], group: .listeners, scope: .flagOnly,
    help: "An authority with an RSA key, for libraries that do not support ECDSA.")
  package static let legacyTLS = Option(
    "--legacy-tls", .flag, in: [Verb.dev], group: .listeners, scope: .flagOnly,
    help: "Accept TLS 1.0 and 1.1 from legacy senders and for feedback.")
  package static let freePorts = Option(
    "--free-ports", .flag, in: [Verb.dev], group: .listeners, scope: .flagOnly,
    help: "Use free ports for all listeners; --json prints them.")

  private static func port(_ flag: String, _ number: String, _ help: String) -> Option<Int> {
    Option(
      flag, .integer("PORT", 0...65_435), in: [Verb.dev], group: .listeners, scope: .flagOnly,
      default: number, help: help + " 0 picks free ports.")
  }

  static let all: [OptionDescription] = [
    data.description, strict.description, topic.description, device.description,
    strings.description, faults.description, keep.description, keepMegabytes.description,
    failOn.description, junit.description, allow.description, port.description,
    channelsPort.description, courierPort.description, gatewayPort.description,
    feedbackPort.description,
    consolePort.description, listen.description, name.description, passwordFile.description,
    rsa.description, legacyTLS.description, freePorts.description,
  ]
}

extension Verb {
  static let devDescription = CommandDescription(
    name: "dev", summary: "simulate APNs for development and tests",
    details: [
      """
      Starts a development service in memory on this machine, with its own authority, key, app and virtual devices, \
      and prints how to configure a provider for it. A web page shows each push as it arrives: the request, the \
      response with an explanation of its reason, violations of accepted pushes, the delivery path, and what the \
      device shows. Ctrl-C ends it.
      """,
      """
      It is lenient: it accepts any well-formed device token and topic, and any readable key; an unknown token gets a \
      new virtual device. With --strict it rejects what the real service rejects. With --upstream, pushes for the apps \
      of --topic to unknown tokens are recorded and forwarded to Apple, or another service.
      """,
      """
      The same address serves an API for tests: wait for a push, count, clear, change devices, inject faults, set the \
      clock. /openapi.json describes it. With --json the first line on standard output is {"event":"ready", ...}.
      """,
    ],
    examples: [
      ("In a terminal next to your server", "apus dev"),
      ("With your own app's id and texts", "apus dev --topic com.example.shop --strings Resources"),
      (
        "In CI: as strict as the real service, on free ports, failing if a push had violations",
        "apus dev --strict --free-ports --json --fail-on warning --junit violations.xml"
      ),
      (
        "For other machines and containers, which call it apus",
        "apus dev --listen 0.0.0.0 --name apus --password-file password.txt"
      ),
    ])
}
