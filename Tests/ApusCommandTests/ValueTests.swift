import ApusModel
import Testing

@testable import ApusCommand

@Suite("Values")
struct ValueTests {
  @Test(
    "A host and a port are read in every form",
    arguments: [
      ("localhost:2197", HostPort(host: "localhost", port: 2197)),
      ("192.0.2.1:0", HostPort(host: "192.0.2.1", port: 0)),
      ("[2001:db8::1]:443", HostPort(host: "2001:db8::1", port: 443)),
      ("localhost", nil), (":2197", nil), ("::1:2197", nil), ("[localhost]:1", nil),
      ("a:65536", nil), ("a:+1", nil), ("a:", nil), ("a b:1", nil),
    ])
  func hostPort(text: String, expected: HostPort?) {
    #expect(HostPort(text) == expected)
    if let expected { #expect(expected.description == text) }
  }

  @Test(
    "Durations have units",
    arguments: [
      ("90", 90), ("90s", 90), ("15m", 900), ("2h", 7200), ("1d", 86_400), ("", nil), ("m", nil),
      ("-1", nil), ("+1", nil), ("1w", nil), ("1.5h", nil), ("9223372036854775807d", nil),
    ])
  func durations(text: String, expected: Int?) {
    #expect(duration(text) == expected)
  }

  @Test(
    "An expiration is a moment, a span or never",
    arguments: [
      ("0", Expiration.at(0)), ("1700000000", .at(1_700_000_000)), ("+1h", .after(3600)),
      ("+30", .after(30)), ("-1", nil), ("tomorrow", nil), ("+", nil), ("1h", nil),
    ])
  func expiration(text: String, expected: Expiration?) {
    #expect((try? ValueSyntax<Expiration>.expiration.read(text)) == expected)
  }

  @Test(
    "A moment is a span before now, or an RFC 3339 time",
    arguments: [
      ("90", Moment.ago(90)), ("2h", .ago(7200)), ("7d", .ago(604_800)),
      ("1970-01-01T00:00:00Z", .at(0)), ("2023-11-14T22:13:20Z", .at(1_700_000_000_000)),
      ("2023-11-14t22:13:20.123z", .at(1_700_000_000_123)),
      ("2023-11-14 23:13:20.1234567+01:00", .at(1_700_000_000_123)),
      ("2023-11-14T17:43:20-04:30", .at(1_700_000_000_000)),
      ("2024-02-29T00:00:00Z", .at(1_709_164_800_000)),
      ("2000-02-29T23:59:60Z", .at(951_868_800_000)), ("1969-12-31T23:59:59Z", .at(-1000)),
      ("2023-02-29T00:00:00Z", nil), ("1900-02-29T00:00:00Z", nil), ("2023-13-01T00:00:00Z", nil),
      ("2023-11-31T00:00:00Z", nil), ("2023-11-14T24:00:00Z", nil), ("2023-11-14T22:13:20", nil),
      ("2023-11-14T22:13:20.Z", nil), ("2023-11-14T22:13:20+1:00", nil), ("2023-11-14", nil),
      ("2023-11-14T22:13:20Zx", nil), ("+1h", nil), ("", nil), ("yesterday", nil),
    ])
  func moment(text: String, expected: Moment?) {
    #expect((try? ValueSyntax<Moment>.moment.read(text)) == expected)
  }

  @Test("A span before now becomes a time")
  func momentMilliseconds() {
    #expect(Moment.ago(60).milliseconds(nowMilliseconds: 100_500) == 40_500)
    #expect(Moment.at(7).milliseconds(nowMilliseconds: 100_500) == 7)
  }

  @Test(
    "A state is named by its label, or by the first words of labels",
    arguments: [
      ("Received by APNs", [DeliveryState.received]), ("received", [.received]),
      ("delivered to device", [.delivered]), ("Delivered", [.delivered, .deliveredFromStorage]),
      ("delivered-to-device-from-storage", [.deliveredFromStorage]),
      ("Delivered to Device (From Storage)", [.deliveredFromStorage]),
      ("stored", [.storedDeviceOffline, .storedPowerConsiderations, .deferredUpstream]),
      ("discarded expired", [.expired]), ("", nil), ("expired", nil), ("deliver", nil), ("--", nil),
    ])
  func states(text: String, expected: [DeliveryState]?) {
    #expect((try? ValueSyntax<[DeliveryState]>.deliveryStates.read(text)) == expected)
  }

  @Test("Each label and each completion names exactly one state", arguments: DeliveryState.allCases)
  func labels(state: DeliveryState) throws {
    let syntax = ValueSyntax<[DeliveryState]>.deliveryStates
    #expect(try syntax.read(state.label.description) == [state])
    guard case .words(let words) = syntax.completion else {
      Issue.record("no completions")
      return
    }
    #expect(try syntax.read(words[Int(state.rawValue)]) == [state])
  }

  @Test(
    "The ledger follows all notifications, none or a fraction",
    arguments: [
      ("all", LedgerMode.all), ("off", .off), ("1/1", .all), ("1/100", .oneIn(100)), ("1/0", nil),
      ("2/3", nil), ("1/", nil), ("1/-3", nil), ("1/4294967296", nil), ("some", nil), ("", nil),
    ])
  func ledgerMode(text: String, expected: LedgerMode?) {
    #expect((try? ValueSyntax<LedgerMode>.ledgerMode.read(text)) == expected)
  }

  @Test("A span counts from now, 0 stays 0")
  func expirationSeconds() {
    #expect(Expiration.after(60).seconds(now: 1000) == 1060)
    #expect(Expiration.at(0).seconds(now: 1000) == 0)
  }

  @Test("Device tokens are converted to lower case")
  func token() throws {
    #expect(try ValueSyntax<String>.deviceToken.read("ABcd") == "abcd")
    let longest = String(repeating: "a", count: 2 * Limits.deviceTokenBytes)
    #expect((try? ValueSyntax<String>.deviceToken.read(longest)) == longest)
    #expect((try? ValueSyntax<String>.deviceToken.read(longest + "aa")) == nil)
  }

  @Test(
    "A labelled topic has both parts",
    arguments: [
      ("a.b:voip", LabelledTopic(topic: "a.b", label: "voip")), ("a.b", nil), (":voip", nil),
      ("a.b:", nil), ("a b:voip", nil),
    ])
  func labelledTopic(text: String, expected: LabelledTopic?) {
    #expect((try? ValueSyntax<LabelledTopic>.labelledTopic.read(text)) == expected)
  }

  @Test(
    "A name for a certificate is short, and has no control characters",
    arguments: [
      ("Apus for Apple", true), ("Grüße", true), (String(repeating: "a", count: 60), true),
      (String(repeating: "a", count: 61), false), ("", false), ("a\nb", false), ("a\u{7f}", false),
    ])
  func authorityName(text: String, isGood: Bool) {
    #expect((try? ValueSyntax<String>.authorityName.read(text)) == (isGood ? text : nil))
  }

  @Test("A certificate's name has room for the longest topic after Apple's longest text")
  func commonName() {
    let longest = "Apple Development IOS Push Services: " + String(repeating: "a", count: 280)
    #expect((try? ValueSyntax<String>.commonName.read(longest)) == longest)
    #expect((try? ValueSyntax<String>.commonName.read(longest + "aaaa")) == nil)
  }

  @Test("A payload must be a JSON object")
  func payload() {
    #expect((try? ValueSyntax<String>.json.read(#"{"aps":{}}"#)) != nil)
    #expect((try? ValueSyntax<String>.json.read("[]")) == nil)
    #expect((try? ValueSyntax<String>.json.read(#"{"aps":{}"#)) == nil)
  }
}

@Suite("The table")
struct TableTests {
  private static let programs = [Program.apus, .bench]

  @Test("No command has two options with one flag, variable or key", arguments: programs)
  func unique(program: Program) {
    for command in program.commands {
      let options = program.options(of: command)
      for names in [
        options.map(\.flag), options.compactMap(\.environment), options.compactMap(\.fileKey),
      ] {
        #expect(Set(names).count == names.count, "\(command.name): \(names)")
      }
    }
  }

  @Test("Every default is a valid value of its option", arguments: programs)
  func defaults(program: Program) {
    for option in program.options {
      guard let text = option.defaultText else { continue }
      #expect(option.check(text) == nil, "\(option.flag)")
    }
  }

  @Test("Every example is a command line that parses", arguments: programs)
  func examples(program: Program) throws {
    for example in program.commands.flatMap(\.examples) {
      let words = Self.shellWords(example.line)
      guard let start = words.firstIndex(of: program.name) else { continue }
      var own = Array(words[(start + 1)...].prefix { !["|", ">", "<"].contains($0) })
      for index in own.indices {
        // Replace what a shell would substitute or remove.
        if own[index] == "$TOKEN" { own[index] = "0a" }
        if own[index] == "$CHANNEL" { own[index] = "YQ==" }
        own[index].removeAll { $0 == ")" }
      }
      // `apus bench` passes its arguments to another program.
      let isOther = own.first == Verb.bench.rawValue
      let parser = CommandLineParser(
        program: isOther ? .bench : program, environment: [:]
      ) { _ in nil }
      _ = try parser.parse(isOther ? Array(own.dropFirst()) : own)
    }
  }

  /// The words of a command line; text between single quotation marks stays together.
  private static func shellWords(_ line: String) -> [String] {
    var words = [""]
    for (index, part) in line.split(separator: "'", omittingEmptySubsequences: false).enumerated() {
      guard index.isMultiple(of: 2) else {
        words[words.count - 1] += part
        continue
      }
      let pieces = part.split(separator: " ", omittingEmptySubsequences: false)
      words[words.count - 1] += pieces[0]
      words += pieces.dropFirst().map(String.init)
    }
    return words.filter { !$0.isEmpty }
  }

  @Test("Every option belongs to existing commands", arguments: programs)
  func commands(program: Program) {
    let names = Set(program.commands.map(\.name))
    for option in program.options {
      #expect(!option.commands.isEmpty && names.isSuperset(of: option.commands), "\(option.flag)")
      #expect(option.help.hasSuffix("."), "\(option.flag)")
    }
  }

  @Test("The program can run every command")
  func verbs() {
    #expect(Program.apus.commands.map(\.name) == Verb.allCases.map(\.rawValue))
    #expect(Program.bench.commands.map(\.name) == BenchVerb.allCases.map(\.rawValue))
  }

  @Test("The service's defaults match its documentation")
  func defaults() {
    let defaults = [
      "--http2-listen": "2197", "--http2-development-listen": "2198", "--courier-listen": "5223",
      "--courier-development-listen": "5224", "--gateway-listen": "2195",
      "--gateway-development-listen": "2295", "--feedback-listen": "2196",
      "--feedback-development-listen": "2296", "--channels-listen": "off",
      "--channels-development-listen": "off", "--admin": "unix", "--admin-listen": "off",
      "--port": "2197", "--channels-port": "2199", "--courier-port": "5223",
      "--gateway-port": "2195",
      "--feedback-port": "2196", "--console-port": "2190",
      "--proxy-from": "127.0.0.0/8,::1", "--link-listen": "off",
    ]
    for option in Program.apus.options where option.group == .listeners {
      #expect(option.defaultText == defaults[option.flag])
    }
  }
}
