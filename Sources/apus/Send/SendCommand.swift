import ApusClient
import ApusCommand
import ApusLog
import ApusModel
import ApusWire

/// `apus send`
struct SendCommand: Sendable {
  let invocation: Invocation

  init(_ invocation: Invocation) { self.invocation = invocation }

  func run() throws(CommandFailure) {
    if SendGroupCommand.isAsked(invocation) { return try SendGroupCommand(invocation).run() }
    if invocation[SendOptions.tokens] != nil { return try SendListCommand(invocation).run() }
    try refuseListOptions()
    let message = try Message(invocation) { (path) throws(CommandFailure) in
      try Process.payload(path, invocation)
    }
    let credentials = SendCredentials(invocation)
    let isDry = invocation.isOn(SendOptions.dryRun)
    let request = PushRequest(
      message,
      // A dry run needs no data directory.
      topic: isDry
        ? try? credentials.topic(message.topicSuffix)
        : try credentials.topic(message.topicSuffix))
    let findings = request.lint(nowSeconds: Process.nowSeconds)
    if isDry { return try DryRun(invocation).show(request, findings) }
    try report(findings)
    let client = try invocation.client(credentials)
    try runBlocking { () async throws(CommandFailure) in try await send(request, client) }
  }

  private func refuseListOptions() throws(CommandFailure) {
    let given = [
      ("--results", invocation.isGiven(SendOptions.results)),
      ("--resume", invocation.isGiven(SendOptions.resume)),
      ("--retry-doubtful", invocation.isGiven(SendOptions.retryDoubtful)),
      ("--rate", invocation.isGiven(SendOptions.rate)),
      ("--format", invocation.isGiven(SendOptions.format)),
    ]
    if let (flag, _) = given.first(where: \.1) {
      throw CommandFailure(
        .usage, "\(flag) is for a list of recipients", remedy: "Give the list with --tokens FILE.")
    }
    try SendGroupCommand.refuseOptions(invocation)
  }

  /// Prints findings on standard error; with --strict it then fails.
  private func report(_ findings: [LintFinding]) throws(CommandFailure) {
    guard invocation.isOn(SendOptions.strict), let first = findings.first else {
      for finding in findings { Output.diagnostic("apus send: \(finding)\n") }
      return
    }
    var failure = CommandFailure(
      .failed, "\(first.place): \(first.problem)", remedy: first.remedy)
    failure.report = .members([
      "outcome": .string("invalid"), "findings": .array(findings.map(\.json)),
    ])
    throw failure
  }

  private func send(_ request: PushRequest, _ client: APNSClient) async throws(CommandFailure) {
    let outcome: SendOutcome
    do throws(PushRequestError) {
      outcome = try await client.send(request)
    } catch {
      throw CommandFailure(.usage, "\(error)")
    }
    await client.close()
    try report(outcome)
  }

  // MARK: The outcome

  private func report(_ outcome: SendOutcome) throws(CommandFailure) {
    switch outcome {
    case .accepted(let id, let uniqueID):
      Report(
        fields: [
          "outcome": .string("accepted"), "apns_id": .string(id.text),
          "unique_id": uniqueID.map(JSONValue.string),
        ], text: "accepted  \(id.text)\n"
      ).print(invocation)
    case .rejected(let rejection): throw failure(rejection)
    case .unknown(let cause, let retryMayDuplicate): throw failure(cause, retryMayDuplicate)
    }
  }

  private func failure(_ rejection: PushRejection) -> CommandFailure {
    var failure = CommandFailure(
      .failed, "the service rejected the notification: \(rejection.status) \(rejection.reason)")
    if let dead = rejection.timestampMilliseconds {
      failure.problem += ", since \(Log.timestamp(dead))"
    }
    failure.report = .members([
      "outcome": .string("rejected"), "status": .integer(Int64(rejection.status)),
      "reason": .string(rejection.reason.rawValue), "apns_id": .string(rejection.apnsID.text),
      "timestamp": rejection.timestampMilliseconds.map(JSONValue.integer),
    ])
    return failure
  }

  private func failure(_ cause: UnknownCause, _ retryMayDuplicate: Bool) -> CommandFailure {
    let isOurs = [.cancelled, .clientClosed, .queueFull, .signingFailed].contains(cause.code)
    var failure = CommandFailure(isOurs ? .failed : .unavailable, "\(cause)")
    failure.remedy =
      retryMayDuplicate
      ? "The service may have accepted the notification: if you send it again, it may show twice."
      : "The service has not accepted the notification."
    failure.report = .members([
      "outcome": .string("unknown"), "cause": .string("\(cause.code)"),
      "detail": .string(cause.detail), "retry_may_duplicate": .bool(retryMayDuplicate),
    ])
    return failure
  }
}

extension PushRequest {
  init(_ message: Message, topic: String?) {
    self.init(
      token: message.token, topic: message.topic ?? topic, pushType: message.pushType,
      payload: Array(message.payload.utf8))
    // The option's syntax is that of channel ids.
    channel = message.channel.flatMap(BroadcastChannel.ID.init)
    priority = message.priority
    expirationSeconds = message.expiration?.seconds(now: Process.nowSeconds)
    collapseID = message.collapseID
    id = message.id
  }

  var recipient: RowRecipient { channel.map { .channel($0.text) } ?? .token(token) }
}

extension Invocation {
  /// A client configured by the options.
  func client(_ credentials: SendCredentials) throws(CommandFailure) -> APNSClient {
    let provider = provider
    let credential = try credentials.credential(to: provider)
    return try client(credential, to: provider, try trustRoots(for: provider))
  }

  func client(
    _ credential: ClientConfiguration.Credential, to provider: HostPort,
    _ roots: ClientConfiguration.TrustRoots
  ) throws(CommandFailure) -> APNSClient {
    var configuration = ClientConfiguration(
      endpoint: Endpoint(host: provider.host, port: provider.port),
      trustRoots: roots, credential: credential)
    configuration.sendTimeoutSeconds = value(ApusOptions.timeout)
    configuration.connectTimeoutSeconds = min(
      configuration.connectTimeoutSeconds, configuration.sendTimeoutSeconds)
    do throws(ClientConfigurationError) {
      return try APNSClient(configuration)
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
  }

  /// See ``authority(_:of:_:)``.
  func trustRoots(
    for provider: HostPort
  ) throws(CommandFailure) -> ClientConfiguration.TrustRoots {
    try authority(ApusOptions.authority, of: provider, .provider).map { .pem($0) } ?? .system
  }
}

extension Process {
  /// The text of a payload file; `-` is standard input.
  static func payload(_ path: String, _ invocation: Invocation) throws(CommandFailure) -> String {
    try text(of: path == "-" ? "/dev/stdin" : path, for: ApusOptions.payloadFile, invocation)
  }
}

extension LintFinding {
  var json: JSONValue {
    .members([
      "rule": .string(rule.rawValue), "severity": .string(severity.rawValue),
      "place": .string(place), "problem": .string(problem), "remedy": .string(remedy),
    ])
  }
}
