import ApusModel

/// The options of `apus send` besides those of a plain message, and of the commands that show how sending goes.
package enum SendOptions {
  package static let set = Option(
    "--set", .payloadEdit, in: [Verb.send], group: .message, scope: .flagOnly, repeats: true,
    help:
      "Any key of the payload, with full stops for keys inside keys. VALUE is JSON, or else text. May be repeated."
  )
  package static let shorten = message(
    "--shorten", .flag,
    "Shorten the text, between characters, where the payload would be too large.")
  package static let dryRun = message(
    "--dry-run", .flag, "Show what would be sent and what is wrong with it, and send nothing.")
  package static let strict = message(
    "--strict", .flag, "Do not send what violates a rule; without this, violations are only shown.")

  package static let tokens = list(
    "--tokens", .file, "A list of recipients, one a line; - is standard input.")
  package static let format = list(
    "--format", .choice("FORMAT", RecordFormat.allCases.map { ($0.rawValue, $0) }),
    "How the list is written: tokens, csv or jsonl. Its first line tells, as a rule.")
  package static let results = list(
    "--results", .file, "Write the outcome of each row there, one JSON object a line.")
  package static let resume = list(
    "--resume", .flag, "Go on with the run whose results are in that file.")
  package static let retryDoubtful = list(
    "--retry-doubtful", .flag, "Send rows again that may have been sent, with the same id.")
  package static let rate = list(
    "--rate", .integer("N", 1...1_000_000), "Send at most N notifications a second.")
  package static let usualConcurrency = 2000
  package static let concurrency = Option(
    "--concurrency", .integer("N", 1...10_000), in: [Verb.send], group: .list, scope: .flagOnly,
    default: "\(usualConcurrency)", help: "Notifications that may wait for their answers at a time."
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
  /// Apple's service, whose hosts have names of their own here. "Sending notification requests to APNs".
  static let appleNames: [(name: String, host: String)] = [
    ("apple", "api.push.apple.com"), ("apple-sandbox", "api.sandbox.push.apple.com"),
  ]

  /// Where a service listens for providers unless it is told otherwise, and where Apple's does.
  private static let providerPort = 2197
  private static let appleProviderPort: UInt16 = 443

  /// Whether it is a host of Apple's, whose certificate the system's authorities vouch for.
  package var isApple: Bool { host == "push.apple.com" || host.hasSuffix(".push.apple.com") }
}

extension HostPort {
  /// Reads a service's listener for providers: a host with or without a port, or one of Apple's.
  package init(providerDoor text: String) throws(ValueProblem) {
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
  static var providerDoor: ValueSyntax {
    ValueSyntax("HOST:PORT", completion: .words(HostPort.appleNames.map(\.name))) {
      text throws(ValueProblem) in try HostPort(providerDoor: text)
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
