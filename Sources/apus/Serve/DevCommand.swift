import ApusCommand
import ApusDev
import ApusDirectory
import ApusLoop
import ApusModel
import ApusRelay
import ApusServer
import ApusWeb
import ApusWire
import Glibc

/// `apus dev`
struct DevCommand {
  let invocation: Invocation

  init(_ invocation: Invocation) { self.invocation = invocation }

  func run() throws(CommandFailure) {
    let configuration = try configuration()
    Process.raiseDescriptorLimit()
    // Before any thread starts: threads inherit the mask.
    Service.blockSignals()
    let substitute: DevService
    do {
      substitute = try DevService(configuration)
    } catch let error as SocketError {
      throw CommandFailure(
        .unavailable, "\(error)",
        remedy: "Does another process use the port? --free-ports picks free ports.")
    } catch let error as WebError {
      throw CommandFailure(
        .unavailable, "console: \(error)",
        remedy: "Choose another address with --console-port or --listen.")
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
    announce(substitute.facts)
    DevService.waitForSignal()
    let found = finish(substitute)
    substitute.stop()
    if let failure = found { throw failure }
  }

  // MARK: Configuration

  private func configuration() throws(CommandFailure) -> DevConfiguration {
    var configuration = DevConfiguration()
    configuration.startedMonotonicMilliseconds = Self.startMilliseconds
    configuration.dataDirectory = invocation[DevOptions.data]
    configuration.isLenient = !invocation.isOn(DevOptions.strict)
    configuration.topics = invocation.all(DevOptions.topic)
    let devices = invocation.all(DevOptions.device)
    if !devices.isEmpty { configuration.devices = devices }
    if let twice = devices.first(where: { id in devices.count(where: { $0 == id }) > 1 }) {
      throw invocation.failure(about: DevOptions.device, "the device \"\(twice)\" is given twice")
    }
    configuration.ports = ports
    configuration.keep = invocation.value(DevOptions.keep)
    configuration.keepMegabytes = invocation.value(DevOptions.keepMegabytes)
    if let path = invocation[DevOptions.faults] {
      let text = try Process.text(of: path, for: DevOptions.faults, invocation)
      configuration.faults = .init(path: path, text: Array(text.utf8))
    }
    configuration.strings = try strings(of: configuration.topics[0])
    configuration.version = Program.version
    configuration.usesRSA = invocation.isOn(DevOptions.rsa)
    configuration.allowsLegacyTLS = invocation.isOn(DevOptions.legacyTLS)
    configuration.upstream = try UpstreamArguments(invocation).addition()
    // A kept directory may have an upstream of an earlier run.
    configuration.relay = Relay(log: configuration.log)
    try setAddress(&configuration)
    try setRules(&configuration)
    return configuration
  }

  /// Sets the listeners' address, and the console's password.
  private func setAddress(_ configuration: inout DevConfiguration) throws(CommandFailure) {
    if let host = invocation[DevOptions.listen] {
      do throws(SocketError) {
        configuration.listen = try SocketAddress(HostPort(host: host, port: 0).description)
      } catch {
        throw invocation.failure(about: DevOptions.listen, "\(error)")
      }
    }
    configuration.names = invocation.all(DevOptions.name)
    if let path = invocation[DevOptions.passwordFile] {
      let text = try Process.text(of: path, for: DevOptions.passwordFile, invocation)
      let password = text.split(whereSeparator: \.isNewline).first.map(String.init) ?? ""
      guard Self.isPassword(password) else {
        throw invocation.failure(
          .configuration, about: DevOptions.passwordFile,
          "its first line must be a password of 16 to 256 bytes without spaces")
      }
      configuration.password = password
    } else if let password = Self.environmentPassword {
      guard Self.isPassword(password) else {
        throw CommandFailure(
          .configuration,
          "APUS_DEV_PASSWORD must be a password of 16 to 256 bytes without spaces")
      }
      configuration.password = password
    } else if configuration.listen?.isThisMachine == false {
      configuration.password = DevPassword.make()
    }
  }

  private static func isPassword(_ text: String) -> Bool {
    DevPassword.lengths ~= text.utf8.count && !text.contains(where: \.isWhitespace)
  }

  private static var environmentPassword: String? {
    Process.environment["APUS_DEV_PASSWORD"].flatMap { $0.isEmpty ? nil : $0 }
  }

  /// Whether the user knows the password, which then is not printed.
  private var isPasswordKnown: Bool {
    invocation[DevOptions.passwordFile] != nil || Self.environmentPassword != nil
  }

  private func setRules(_ configuration: inout DevConfiguration) throws(CommandFailure) {
    let rules = LintRule.allCases.map(\.rawValue) + ConnectionRule.allCases.map(\.rawValue)
    for name in invocation.all(DevOptions.allow) {
      guard rules.contains(name) else {
        throw invocation.failure(
          about: DevOptions.allow, "there is no rule \"\(name)\"",
          remedy: "The rules are \(rules.joined(separator: ", ")).")
      }
      configuration.allowedRules.insert(name)
    }
  }

  private var ports: DevConfiguration.Ports {
    guard !invocation.isOn(DevOptions.freePorts) else { return .free }
    func pair(_ option: Option<Int>, _ distance: Int) -> (UInt16, UInt16) {
      let port = invocation.value(option)
      return (UInt16(port), port == 0 ? 0 : UInt16(port + distance))
    }
    var ports = DevConfiguration.Ports()
    (ports.http2, ports.http2Development) = pair(DevOptions.port, 1)
    (ports.channels, ports.channelsDevelopment) = pair(DevOptions.channelsPort, 1)
    (ports.courier, ports.courierDevelopment) = pair(DevOptions.courierPort, 1)
    (ports.gateway, ports.gatewayDevelopment) = pair(DevOptions.gatewayPort, 100)
    (ports.feedback, ports.feedbackDevelopment) = pair(DevOptions.feedbackPort, 100)
    ports.console = UInt16(invocation.value(DevOptions.consolePort))
    return ports
  }

  /// The folders of an app's languages, in Xcode's layout.
  private func strings(
    of topic: String
  ) throws(CommandFailure) -> [(topic: String, language: String, file: DevConfiguration.Source)] {
    guard let folder = invocation[DevOptions.strings] else { return [] }
    var found: [(topic: String, language: String, file: DevConfiguration.Source)] = []
    let names: [String]
    do throws(FileError) { names = try Files.names(in: folder).sorted() } catch {
      throw invocation.failure(.configuration, about: DevOptions.strings, "\(error)")
    }
    for name in names where name.hasSuffix(".lproj") {
      let path = "\(folder)/\(name)/Localizable.strings"
      guard Files.exists(path) else { continue }
      do throws(FileError) {
        let file = DevConfiguration.Source(path: path, text: try Files.read(path))
        found.append((topic, String(name.dropLast(".lproj".count)), file))
      } catch {
        throw invocation.failure(.configuration, about: DevOptions.strings, "\(error)")
      }
    }
    guard !found.isEmpty else {
      throw invocation.failure(
        .configuration, about: DevOptions.strings,
        "\(folder) has no LANGUAGE.lproj/Localizable.strings")
    }
    return found
  }

  /// Start time of the process in milliseconds of the monotonic clock; accurate to ten milliseconds.
  private static var startMilliseconds: Int64? {
    // The program's name is in parentheses and may contain spaces.
    guard let text = try? Files.readText("/proc/self/stat"), let end = text.lastIndex(of: ")"),
      let ticks = Int64(text[end...].split(separator: " ").dropFirst(20).first ?? "")
    else { return nil }
    var now = timespec()
    unsafe clock_gettime(CLOCK_BOOTTIME, &now)
    let boot = Int64(now.tv_sec) * 1000 + Int64(now.tv_nsec) / 1_000_000
    let age = boot - ticks * 1000 / Int64(sysconf(Int32(_SC_CLK_TCK)))
    return Process.milliseconds - max(0, age)
  }

  // MARK: Output

  private func announce(_ facts: DevFacts) {
    if invocation.isOn(ApusOptions.json) { return Output.json(ready(facts)) }
    func ports(_ kind: ListenerKind) -> String {
      let production = facts.port(kind, .production).map { "\($0)" } ?? "off"
      let development = facts.port(kind, .development).map { "\($0)" } ?? "off"
      return "\(facts.host), port \(production) (development \(development))"
    }
    var rows = [("console", "\(facts.console)/")]
    if !isPasswordKnown, let password = facts.password {
      rows.append(("password", password))
    }
    rows += [
      ("providers", ports(.provider)), ("channels", ports(.channels)),
      ("legacy senders", ports(.gateway)), ("feedback", ports(.feedback)),
      ("devices", ports(.courier)), ("authority", facts.authorityFile), ("key", facts.keyFile),
      ("key id", facts.keyID), ("team", facts.team),
      ("topic", facts.topics.joined(separator: "  ")), ("certificate", facts.certificateFile),
      ("device token", facts.deviceToken),
    ]
    var text = """
      Apus development service, \(facts.isLenient ? "lenient" : "strict"); ready after \
      \(facts.readyMilliseconds) ms. Ctrl-C ends it.
      \(table(rows))

      """
    for snippet in Snippet.all(facts) {
      let lines = snippet.text.split(separator: "\n", omittingEmptySubsequences: false)
      text += "\n\(snippet.name)\n" + lines.map { $0.isEmpty ? "\n" : "    \($0)\n" }.joined()
    }
    Output.standard(text)
  }

  private func ready(_ facts: DevFacts) -> JSONValue {
    func ports(_ kind: ListenerKind) -> JSONValue {
      .members([
        "production": facts.port(kind, .production).map { .integer(Int64($0)) },
        "development": facts.port(kind, .development).map { .integer(Int64($0)) },
      ])
    }
    return .members([
      "event": .string("ready"), "console": .string("\(facts.console)/"),
      "api": .string("\(facts.console)/api/v1"), "host": .string(facts.host),
      "mode": .string(facts.isLenient ? "lenient" : "strict"), "http2": ports(.provider),
      "channels": ports(.channels), "courier": ports(.courier), "gateway": ports(.gateway),
      "feedback": ports(.feedback),
      "authority_file": .string(facts.authorityFile), "key_file": .string(facts.keyFile),
      "key_id": .string(facts.keyID), "team": .string(facts.team),
      "topics": .strings(facts.topics), "certificate_file": .string(facts.certificateFile),
      "data": .string(facts.dataDirectory), "ready_milliseconds": .integer(facts.readyMilliseconds),
      "password": isPasswordKnown ? nil : facts.password.map(JSONValue.string),
      "device_token": .string(facts.deviceToken),
      "snippets": .object(
        JSONObject(
          Snippet.all(facts).map { .init(key: $0.name, value: .string($0.text)) })),
    ])
  }

  /// Writes the JUnit report. Returns a failure if there were violations of the given severity.
  private func finish(_ substitute: DevService) -> CommandFailure? {
    if let path = invocation[DevOptions.junit] {
      do throws(FileError) {
        try Files.write(substitute.junit(), to: path, isPrivate: false)
      } catch {
        return CommandFailure(.failed, "\(error)")
      }
    }
    let counts = LintRule.Severity.allCases.map { severity in
      JSONObject.Member(
        key: severity.rawValue,
        value: .integer(Int64(substitute.violations(exactly: severity))))
    }
    if invocation.isOn(ApusOptions.json) {
      Output.json(
        .members(["event": .string("stopped"), "violations": .object(JSONObject(counts))]))
    }
    guard let text = invocation[DevOptions.failOn], let least = LintRule.Severity(rawValue: text)
    else { return nil }
    let count = substitute.violations(atLeast: least)
    guard count > 0 else { return nil }
    return CommandFailure(
      .failed,
      (count == 1 ? "1 violation has" : "\(count) violations have")
        + " severity \(text) or higher",
      remedy: "--junit FILE saves them; the console shows them with their pushes.")
  }
}
