import ApusModel

/// The options of `apus send` besides those of a plain message.
package enum SendOptions {
  package static let set = Option(
    "--set", .payloadEdit, in: [Verb.send], group: .message, scope: .flagOnly, repeats: true,
    help:
      "Set any key of the payload; separate nested keys with dots. VALUE is JSON, or else text. May be repeated."
  )
  package static let shorten = message(
    "--shorten", .flag,
    "Shorten the text at a character boundary if the payload is too large.")
  package static let dryRun = message(
    "--dry-run", .flag, "Show what would be sent and any problems with it; send nothing.")
  package static let strict = message(
    "--strict", .flag,
    "Do not send notifications that violate a rule; otherwise violations are only shown.")

  package static let tokens = list(
    "--tokens", .file, "A list of recipients, one per line; - is standard input.")
  package static let format = list(
    "--format", .choice("FORMAT", RecordFormat.allCases.map { ($0.rawValue, $0) }),
    "The format of the list: tokens, csv or jsonl. Without it the first line decides.")
  package static let results = list(
    "--results", .file, "Write the outcome of each row to this file, one JSON object per line.")
  package static let resume = list(
    "--resume", .flag, "Continue the run whose results are in the --results file.")
  package static let retryDoubtful = list(
    "--retry-doubtful", .flag, "Resend rows that may have been sent, with the same id.")
  package static let rate = list(
    "--rate", .integer("N", 1...1_000_000), "Send at most N notifications per second.")
  package static let usualConcurrency = 2000
  package static let concurrency = Option(
    "--concurrency", .integer("N", 1...10_000), in: [Verb.send], group: .list, scope: .flagOnly,
    default: "\(usualConcurrency)", help: "Notifications that may wait for responses at a time."
  )

  private static func message<Value>(
    _ flag: String, _ syntax: ValueSyntax<Value>, _ help: String
  ) -> Option<Value> {
    Option(flag, syntax, in: [Verb.send], group: .message, scope: .flagOnly, help: help)
  }

  private static func list<Value>(
    _ flag: String, _ syntax: ValueSyntax<Value>, _ help: String
  ) -> Option<Value> {
    Option(flag, syntax, in: [Verb.send], group: .list, scope: .flagOnly, help: help)
  }

  static let all: [OptionDescription] = [
    set.description, shorten.description, dryRun.description, strict.description,
    tokens.description, format.description, results.description, resume.description,
    retryDoubtful.description, rate.description, concurrency.description,
  ]
}

extension HostPort {
  /// Short names for Apple's hosts. Source of the hosts: Sending notification requests to APNs.
  static let appleNames: [(name: String, host: String)] = [
    ("apple", "api.push.apple.com"), ("apple-sandbox", "api.sandbox.push.apple.com"),
  ]

  /// The default port for providers, and Apple's.
  private static let providerPort = 2197
  private static let appleProviderPort: UInt16 = 443

  /// Whether it is one of Apple's hosts, whose certificates the system's authorities have signed.
  package var isApple: Bool { host == "push.apple.com" || host.hasSuffix(".push.apple.com") }
}

extension HostPort {
  /// Reads the address of a listener for providers: a host with or without a port, or a short name of Apple's.
  package init(providerListener text: String) throws(ValueProblem) {
    let host = Self.appleNames.first { $0.name == text }?.host ?? text
    var address = HostPort(host)
    if address == nil {
      address = HostPort("\(host):\(Self.providerPort)")
      if address?.isApple == true { address?.port = Self.appleProviderPort }
    }
    guard let address, address.port > 0 else {
      throw ValueProblem(
        "is neither a host such as localhost:2197 or [2001:db8::1]:2197, nor apple or apple-sandbox"
      )
    }
    self = address
  }
}

extension ValueSyntax where Value == HostPort {
  static var providerListener: ValueSyntax {
    ValueSyntax("HOST:PORT", completion: .words(HostPort.appleNames.map(\.name))) {
      text throws(ValueProblem) in try HostPort(providerListener: text)
    }
  }
}

extension ValueSyntax where Value == PushType {
  static var pushType: ValueSyntax {
    .choice("TYPE", PushType.allCases.map { ($0.name.description, $0) })
  }
}

extension ValueSyntax where Value == Priority {
  static var priority: ValueSyntax {
    .choice("N", [("10", .immediate), ("5", .powerSaving), ("1", .whenActive)])
  }
}
