import ApusClient
import ApusCommand
import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusTLS
import ApusTrust
import ApusWire
import Glibc

/// `apus doctor`: checks the path of a push step by step, and explains the first step that fails.
struct DoctorCommand {
  /// A device token that no service issues.
  private static let wrongToken = String(repeating: "0", count: 64)
  /// The number of timed requests after the first one.
  private static let timedRequests = 5
  /// Warn if a certificate expires within this many days.
  private static let expiryDays: Int64 = 30

  private let invocation: Invocation
  private let endpoint: HostPort
  private let upstream: DoctorUpstream?

  init(_ invocation: Invocation) throws(CommandFailure) {
    self.invocation = invocation
    if let app = invocation[UpstreamOptions.examined] {
      guard invocation.operands.isEmpty else {
        throw invocation.failure(
          about: UpstreamOptions.examined, "it cannot be combined with HOST:PORT",
          remedy: "The service knows where its upstream is.")
      }
      let upstream = try DoctorUpstream(invocation, app)
      (self.upstream, endpoint) = (upstream, upstream.endpoint)
      return
    }
    upstream = nil
    guard let operand = invocation.operands.first else {
      endpoint = invocation.provider
      return
    }
    do throws(ValueProblem) {
      endpoint = try HostPort(providerListener: operand)
    } catch {
      throw CommandFailure(.usage, "\"\(operand)\" \(error.text)")
    }
  }

  func run() throws(CommandFailure) {
    if let upstream { return try examine(upstream) }
    if let device = invocation[DeviceOptions.examined] {
      guard invocation.operands.isEmpty else {
        throw invocation.failure(
          about: DeviceOptions.examined, "it cannot be combined with HOST:PORT",
          remedy: "A service elsewhere is named by --admin.")
      }
      return try DoctorDevice(invocation).run(device)
    }
    if let remote = invocation[AdminOptions.url], invocation.isFlagged(AdminOptions.url) {
      throw invocation.failure(
        about: AdminOptions.url, "it has no effect without --device",
        remedy: "Give \(remote.endpoint.host) and its port for providers as HOST:PORT.")
    }
    if invocation.operands.isEmpty, !invocation.isGiven(ApusOptions.provider) {
      try examineService()
    }
    let roots = try invocation.trustRoots(for: endpoint)
    let addresses = try resolve()
    let (connection, roundTrip) = try connect(addresses)
    try handshake(connection, roots)
    let credential = try SendCredentials(invocation).credential(to: endpoint)
    try say(credential)
    let client = try invocation.client(credential, to: endpoint, roots)
    let topic = try? SendCredentials(invocation).topic(.none)
    try request(client, topic ?? nil, roundTrip: roundTrip)
  }

  private func examine(_ upstream: DoctorUpstream) throws(CommandFailure) {
    var roundTrip = 0.0
    if let proxy = upstream.proxy {
      remark("proxy", "the request goes through \(proxy); the steps before it are not tried")
    } else {
      let (connection, milliseconds) = try connect(try resolve())
      try handshake(connection, upstream.configuration.trustRoots)
      roundTrip = milliseconds
    }
    try say(upstream.configuration.credential)
    let client: APNSClient
    do throws(ClientConfigurationError) {
      client = try APNSClient(upstream.configuration)
    } catch {
      throw failure(
        "credential", .configuration, "\(error)", "Correct it with `apus app --change`.")
    }
    try request(client, upstream.topic, roundTrip: roundTrip)
  }

  /// The service's own files and process come first: they are the cause of what its clients see.
  private func examineService() throws(CommandFailure) {
    let findings = try DoctorService(invocation)?.findings() ?? []
    for finding in findings where finding.state != .bad {
      print(finding.check, finding.state.rawValue, finding.text)
    }
    let bad = findings.filter { $0.state == .bad }
    // The last one ends the command.
    for finding in bad.dropLast() { print(finding.check, "bad", finding.text) }
    if let finding = bad.last {
      throw failure(finding.check, .configuration, finding.text, finding.remedy)
    }
  }

  // MARK: The path to the service

  private func resolve() throws(CommandFailure) -> [SocketAddress] {
    let start = Process.milliseconds
    do throws(SocketError) {
      let addresses = try SocketAddress.resolve(host: endpoint.host, port: endpoint.port)
      let list = addresses.map(\.hostText).joined(separator: ", ")
      say("name", "\(endpoint.host) resolves to \(list) (\(Process.milliseconds - start) ms)")
      return addresses
    } catch {
      throw failure(
        "name", .unavailable, "\(endpoint.host) has no address: \(error)",
        "Check the spelling, and this machine's resolver (/etc/resolv.conf).")
    }
  }

  /// Connects to the first address that answers, and measures the round trip in milliseconds.
  private func connect(
    _ addresses: [SocketAddress]
  ) throws(CommandFailure) -> (ProbeConnection, Double) {
    var problems: [String] = []
    for address in addresses.prefix(4) {
      do throws(ProbeProblem) {
        let connection = try ProbeConnection(to: address, seconds: seconds)
        for problem in problems { remark("connection", problem) }
        say("connection", "\(address) in \(Self.text(connection.milliseconds)) ms")
        return (connection, connection.milliseconds)
      } catch {
        problems.append("\(address): \(error.text)")
      }
    }
    throw failure(
      "connection", .unavailable, problems.joined(separator: "; "),
      problems.allSatisfy { $0.contains("refused") }
        ? "Nothing listens on port \(endpoint.port). Check that the service runs and that the port is right."
        : "Packets are dropped on the path, often by a firewall. Apple's hosts listen on 443 and 2197."
    )
  }

  private var seconds: Int { min(invocation.value(ApusOptions.timeout), 30) }

  private func handshake(
    _ connection: ProbeConnection, _ roots: ClientConfiguration.TrustRoots
  ) throws(CommandFailure) {
    let facts: ProbeConnection.Facts
    do throws(ProbeProblem) {
      facts = try connection.handshake(tls(roots, verifies: true), seconds: seconds)
    } catch {
      let shown = Self.certificate(of: connection.address, tls(roots, verifies: false), seconds)
      throw failure(
        "TLS", .unavailable,
        error.text + (shown.map { "; its certificate is \(Self.text($0))" } ?? ""),
        remedy(for: error, shown))
    }
    guard facts.applicationProtocol == "h2" else {
      throw failure(
        "TLS", .unavailable, "the service does not offer HTTP/2 (ALPN h2)",
        "It is not a push service, or a proxy on the path terminates TLS.")
    }
    say("TLS", "\(facts.version), HTTP/2, in \(Self.text(facts.milliseconds)) ms")
    judge(facts.certificate)
  }

  private func tls(_ roots: ClientConfiguration.TrustRoots, verifies: Bool)
    -> TLSClientConfiguration
  {
    var configuration = TLSClientConfiguration(
      applicationProtocols: ["h2"], serverName: endpoint.host, keepsSessions: false,
      insecureSkipVerify: !verifies)
    if case .pem(let pem) = roots { configuration.trustRoots = .authorities(PEM: pem) }
    return configuration
  }

  /// The service's certificate, whether or not it is trusted.
  private static func certificate(
    of address: SocketAddress, _ configuration: TLSClientConfiguration, _ seconds: Int
  ) -> Certificate? {
    guard let connection = try? ProbeConnection(to: address, seconds: seconds) else { return nil }
    return (try? connection.handshake(configuration, seconds: seconds))?.certificate
  }

  private func remedy(for problem: ProbeProblem, _ certificate: Certificate?) -> String {
    let now = Process.nowSeconds
    guard let certificate else {
      return
        "The listener is not a push service, or something on the path interrupts TLS."
    }
    if now < certificate.notBefore {
      return
        "It is not valid yet. This machine's clock says \(Log.timestamp(now * 1000)): is that right?"
    }
    if now > certificate.notAfter {
      return
        "It has expired. If this machine's clock is right (\(Log.timestamp(now * 1000))), the service needs a new one."
    }
    if problem.text.contains("hostname") || problem.text.contains("IP address") {
      return
        "It is for other names: use one of those, or issue the service a certificate for \(endpoint.host)."
    }
    return
      "Give the authority that signed it with --authority FILE, or `system` for those of this machine."
  }

  private func judge(_ certificate: Certificate?) {
    guard let certificate else { return }
    let days = (certificate.notAfter - Process.nowSeconds) / 86_400
    say("certificate", Self.text(certificate))
    if days < Self.expiryDays { remark("certificate", "it expires in \(counted(days, "day"))") }
  }

  private static func text(_ certificate: Certificate) -> String {
    let name = certificate.subject.commonName ?? certificate.serial
    let names = certificate.serverNames.prefix(4).joined(separator: ", ")
    return "\"\(name)\" for \(names.isEmpty ? "no names" : names), "
      + "\(Log.timestamp(certificate.notBefore * 1000).prefix(10)) to "
      + "\(Log.timestamp(certificate.notAfter * 1000).prefix(10))"
  }

  // MARK: The credential

  private func say(_ credential: ClientConfiguration.Credential) throws(CommandFailure) {
    switch credential {
    case .providerToken(_, let keyID, let teamID), .providerTokenFile(_, let keyID, let teamID):
      say("credential", "key \(keyID) of team \(teamID)")
    case .certificate(let pem, _):
      try say(Self.certificate(pem))
    case .certificateFiles, .pkcs12, .pkcs12File:
      preconditionFailure("no option gives this kind of credential")
    }
  }

  private static func certificate(_ pem: [UInt8]) throws(CommandFailure) -> Certificate {
    do throws(TrustFault) {
      return try Certificate(pem: String(decoding: pem, as: UTF8.self))
    } catch {
      throw CommandFailure(.configuration, "the certificate cannot be read: \(error)")
    }
  }

  private func say(_ certificate: Certificate) throws(CommandFailure) {
    let now = Process.nowSeconds
    guard certificate.isValid(now: now) else {
      throw failure(
        "credential", .configuration,
        "the provider's certificate is not valid now: "
          + Self.text(certificate), "Renew it, or correct this machine's clock.")
    }
    let topic = certificate.subject.userID ?? "no topic"
    let days = (certificate.notAfter - now) / 86_400
    say("credential", "a certificate for \(topic), valid for \(counted(days, "day"))")
    if days < Self.expiryDays {
      remark("credential", "it expires in \(counted(days, "day")): renew it")
    }
  }

  // MARK: A request

  private func request(
    _ client: APNSClient, _ topic: String?, roundTrip: Double
  ) throws(CommandFailure) {
    try runBlocking { [self] () async throws(CommandFailure) in
      try await judge(client, topic, roundTrip: roundTrip)
    }
  }

  private func judge(
    _ client: APNSClient, _ topic: String?, roundTrip: Double
  ) async throws(CommandFailure) {
    let push = PushRequest(
      token: Self.wrongToken, topic: topic, payload: AlertPayload(body: "Test").bytes)
    var times: [Double] = []
    var verdict = DoctorVerdict(
      .unknown(UnknownCause(.cancelled), retryMayDuplicate: false), topic: topic)
    for number in 0...Self.timedRequests {
      let start = Process.nanoseconds
      guard let outcome = try? await client.send(push) else { break }
      verdict = DoctorVerdict(outcome, topic: topic)
      if number > 0 { times.append(Double(Process.nanoseconds - start) / 1e6) }
      if verdict.code != nil { break }
    }
    let clock = await client.metrics().clockText
    await client.close()
    if let clock { remark("clock", clock) }
    if let code = verdict.code {
      throw failure("request", code, verdict.text, verdict.remedy)
    }
    say("request", verdict.text)
    pace(roundTrip: roundTrip, times: times)
  }

  /// Reports what limits the rate.
  ///
  /// - Parameter times: Milliseconds from a request to its response, at least one element.
  private func pace(roundTrip: Double, times: [Double]) {
    let sorted = times.sorted()
    let answer = max(sorted[sorted.count / 2], 0.05)
    // A busy machine is also slow to connect.
    let distance = min(roundTrip, sorted[0])
    var text = "a response takes \(Self.text(answer)) ms: one request at a time gives "
    text += "\(Digits.grouped(Int(1000 / answer))) per second"
    if answer > 5 {
      let concurrency = SendOptions.usualConcurrency
      let most = Digits.grouped(Int(Double(concurrency) * 1000 / answer))
      text +=
        ", \(Digits.grouped(concurrency)) at a time, the default of `apus send`, at most \(most)"
    }
    if answer - distance > 20, answer > 3 * distance {
      text += ". The limit is the service, which takes most of that time"
    } else if distance > 20 {
      text +=
        ". The limit is the distance (\(Self.text(distance)) ms round trip): more requests at a time "
      text += "(--concurrency) or a provider closer to the service helps"
    } else {
      text += ". The path is short and the service fast: the limit will be a processor"
    }
    say("pace", text)
  }

  // MARK: Output

  private static func text(_ milliseconds: Double) -> String {
    let tenths = Int(milliseconds * 10 + 0.5)
    return tenths >= 100 ? "\((tenths + 5) / 10)" : "\(tenths / 10).\(tenths % 10)"
  }

  private func say(_ check: String, _ text: String) { print(check, "ok", text) }
  private func remark(_ check: String, _ text: String) { print(check, "note", text) }

  private func print(_ check: String, _ state: String, _ text: String) {
    let text = NotificationCard.harmless(text)
    guard !invocation.isOn(ApusOptions.json) else {
      return Output.json(
        .members(["check": .string(check), "state": .string(state), "text": .string(text)]))
    }
    let name = check + String(repeating: " ", count: max(0, 11 - check.count))
    let mark = state + String(repeating: " ", count: 4 - state.count)
    Output.standard("  \(mark)  \(name)  \(text)\n")
  }

  private func failure(
    _ check: String, _ code: ExitCode, _ problem: String, _ remedy: String
  ) -> CommandFailure {
    let problem = NotificationCard.harmless(problem)
    var failure = CommandFailure(code, "\(check): \(problem)", remedy: remedy)
    failure.report = .members([
      "check": .string(check), "state": .string("bad"), "text": .string(problem),
      "remedy": .string(remedy),
    ])
    return failure
  }
}
