import ApusClient
import ApusCommand
import ApusModel
import ApusServer
import ApusWire

/// `apus send`
struct SendCommand: Sendable {
  let invocation: Invocation

  init(_ invocation: Invocation) { self.invocation = invocation }

  func run() async throws(CommandFailure) {
    let invocation = invocation
    let message = try Message(invocation) { (path) throws(CommandFailure) in
      try Process.text(
        of: path == "-" ? "/dev/stdin" : path, for: ApusOptions.payloadFile, invocation)
    }
    let credentials = SendCredentials(invocation)
    let request = request(message, topic: try credentials.topic(for: message.pushType))
    let client = try client(try credentials.credential())
    let outcome: SendOutcome
    do throws(PushRequestError) {
      outcome = try await client.send(request)
    } catch {
      throw CommandFailure(.usage, "\(error)")
    }
    await client.close()
    try report(outcome)
  }

  private func request(_ message: Message, topic: String?) -> PushRequest {
    var request = PushRequest(
      token: message.token, topic: topic, pushType: message.pushType,
      payload: Array(message.payload.utf8))
    request.priority = message.priority
    request.expirationSeconds = message.expiration?.seconds(now: Process.nowSeconds)
    request.collapseID = message.collapseID
    request.id = message.id
    return request
  }

  private func client(
    _ credential: ClientConfiguration.Credential
  ) throws(CommandFailure) -> APNSClient {
    let provider = invocation.value(ApusOptions.provider)
    var configuration = ClientConfiguration(
      endpoint: Endpoint(host: provider.host, port: provider.port),
      trustRoots: .pem(try invocation.authorityPEM()), credential: credential)
    configuration.sendTimeoutSeconds = invocation.value(ApusOptions.timeout)
    configuration.connectTimeoutSeconds = min(
      configuration.connectTimeoutSeconds, configuration.sendTimeoutSeconds)
    do throws(ClientConfigurationError) {
      return try APNSClient(configuration)
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
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
      ? "The service may have taken the notification: sending it again can show it twice."
      : "The service has not taken the notification."
    failure.report = .members([
      "outcome": .string("unknown"), "cause": .string("\(cause.code)"),
      "detail": .string(cause.detail), "retry_may_duplicate": .bool(retryMayDuplicate),
    ])
    return failure
  }
}
