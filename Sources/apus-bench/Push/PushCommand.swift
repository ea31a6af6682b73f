import ApusClient
import ApusCommand
import ApusModel
import ApusWire
import Glibc

/// `apus-bench push`: a provider whose rate does not depend on response times.
final class PushCommand: Sendable {
  private let configuration: ClientConfiguration
  private let request: PushRequest
  private let tokens: [String]
  private let payload: TimedPayload
  private let rate: UInt64
  private let seconds: UInt64
  private let capacity: Int
  private let end = PushEnd()

  /// Maximum open pushes before the timetable waits, in seconds of the rate.
  private static let openSeconds: UInt64 = 10

  init(_ invocation: Invocation) throws(CommandFailure) {
    let target = invocation.value(BenchOptions.pushTarget)
    let authority =
      invocation[BenchOptions.pushAuthority]
      ?? "\(invocation.value(BenchOptions.data))/authority/service.crt"
    var configuration = ClientConfiguration(
      endpoint: Endpoint(host: target.host, port: target.port),
      trustRoots: .pem(Array(try readText(authority).utf8)),
      credential: try PushCredential(invocation).credential)
    configuration.maximumConnections = invocation.value(BenchOptions.pushConnections)
    configuration.serverName = "localhost"
    // Rejections are counted and not retried, because retries would exceed the rate.
    configuration.retriesRefusals = false
    self.configuration = configuration
    payload = TimedPayload(byteCount: invocation.value(BenchOptions.pushPayloadBytes))
    (request, tokens) = try Self.recipients(invocation, payload)
    rate = UInt64(try invocation.require(BenchOptions.rate))
    seconds = UInt64(try invocation.require(BenchOptions.pushSeconds))
    capacity =
      invocation[BenchOptions.openPushes]
      ?? Int(min(max(8192, rate * Self.openSeconds), 1_000_000))
  }

  /// The push without its time, and the device tokens to which it goes in turn; none for broadcasts.
  static func recipients(
    _ invocation: Invocation, _ payload: TimedPayload
  ) throws(CommandFailure) -> (PushRequest, [String]) {
    let topic = invocation.value(BenchOptions.topic)
    let expirationSeconds = invocation.value(BenchOptions.expiration).seconds(
      now: Int64(time(nil)))
    var request: PushRequest
    var tokens: [String] = []
    if let channel = invocation[BenchOptions.pushChannel].flatMap(BroadcastChannel.ID.init) {
      guard !invocation.isGiven(BenchOptions.tokens) else {
        throw invocation.failure(
          about: BenchOptions.pushChannel, "it cannot be combined with --tokens",
          remedy: "Give one of them.")
      }
      request = PushRequest(
        channel: channel, app: topic, payload: payload.bytes, expirationSeconds: expirationSeconds)
    } else {
      tokens = try readTokens(try invocation.require(BenchOptions.tokens)).map(\.hex)
      request = PushRequest(token: tokens[0], topic: topic, payload: payload.bytes)
      request.expirationSeconds = expirationSeconds
    }
    request.priority = invocation.value(BenchOptions.pushPriority)
    return (request, tokens)
  }

  func run() throws(CommandFailure) {
    let summary = try runToEnd(
      "push", signals: [SIGINT, SIGTERM], onSignal: { [end] in end.reach() }
    ) { [self] () throws(CommandFailure) in try await measure() }
    printLine(summary.text)
  }

  private func measure() async throws(CommandFailure) -> JSONValue {
    let client: APNSClient
    do throws(ClientConfigurationError) { client = try APNSClient(configuration) } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
    try await connect(client)
    var tally = PushTally()
    let start = monotonicNanoseconds()
    let pushes = PacedPushes(
      timetable: Timetable(startNanoseconds: start, rate: rate, seconds: seconds),
      request: request, tokens: tokens, payload: payload, end: end)
    for await outcome in client.send(all: pushes, capacity: capacity) { tally.add(outcome) }
    let elapsed = monotonicNanoseconds() - start
    await client.close()
    if let complaint = tally.complaint { report("apus-bench push: \(complaint)\n") }
    guard tally.accepted > 0 else {
      throw CommandFailure(.failed, "no notification was accepted, of \(tally.sent) sent")
    }
    return tally.json(nanoseconds: elapsed)
  }

  /// Opens the first connection before the clock starts, with a push to an invalid token, which is rejected.
  private func connect(_ client: APNSClient) async throws(CommandFailure) {
    let probe = PushRequest(
      token: String(repeating: "0", count: 64), topic: request.topic, payload: payload.bytes)
    let outcome: SendOutcome
    do throws(PushRequestError) { outcome = try await client.send(probe) } catch {
      throw CommandFailure(.usage, "\(error)")
    }
    if case .unknown(let cause, _) = outcome {
      throw CommandFailure(.unavailable, "\(cause)")
    }
  }
}

/// The outcomes of a run.
struct PushTally {
  private(set) var sent = 0
  private(set) var accepted = 0
  private(set) var rejected = 0
  private(set) var unknown = 0
  /// From a request's due time to its response.
  private(set) var latency = FineHistogram()
  /// Describes the first push that was not accepted.
  private(set) var complaint: String?

  mutating func add(_ outcome: BulkOutcome) {
    sent += 1
    let due = PacedPushes.dueNanoseconds(of: outcome.apnsID)
    latency.add(microseconds: sinceNanoseconds(due) / 1000)
    switch outcome.result {
    case .success(.accepted): accepted += 1
    case .success(.rejected(let rejection)):
      rejected += 1
      complaint = complaint ?? "the first rejection was \(rejection.status) \(rejection.reason)"
    case .success(.unknown(let cause, _)):
      unknown += 1
      complaint = complaint ?? "the first unknown outcome: \(cause)"
    case .failure(let error):
      unknown += 1
      complaint = complaint ?? "\(error)"
    }
  }

  func json(nanoseconds: UInt64) -> JSONValue {
    let seconds = Double(nanoseconds) / 1e9
    return .members([
      "sent": .integer(Int64(sent)), "accepted": .integer(Int64(accepted)),
      "rejected": .integer(Int64(rejected)), "unknown": .integer(Int64(unknown)),
      "seconds": .number(seconds), "rate": .number(Double(sent) / seconds),
      "request_latency": latency.json,
    ])
  }
}
