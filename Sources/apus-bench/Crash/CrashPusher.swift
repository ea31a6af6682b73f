import ApusClient
import ApusLoop
import ApusModel

/// A provider on the HTTP/2 API. Each life of the service gets a new client, like a backend that retries.
///
/// Confined to its loop; outcomes from the client's tasks return through `perform`.
final class CrashPusher: @unchecked Sendable {
  private unowned let run: CrashRun
  /// The load whose tokens it sends to. Set once, before use.
  weak var load: CrashLoad?
  private let loop: EventLoop
  private let configuration: ClientConfiguration
  private let topic: String
  private var client: APNSClient?
  private(set) var underWay = 0

  /// Maximum number of pushes without a response.
  static let windowCount = 200

  init(
    run: CrashRun, loop: EventLoop, configuration: ClientConfiguration, topic: String
  ) {
    self.run = run
    self.loop = loop
    self.configuration = configuration
    self.topic = topic
  }

  func renew() throws(ClientConfigurationError) {
    abandon()
    client = try APNSClient(configuration)
  }

  /// Ends the client; its open pushes get their outcomes.
  func abandon() {
    guard let old = client else { return }
    client = nil
    Task { await old.close() }
  }

  func send(to device: Int, isStored: Bool, collapses: Bool) {
    guard underWay < Self.windowCount, let client, let token = load?.devices.tokens[device] else {
      return
    }
    let id = NotificationID(
      high: run.seed, low: UInt64(run.account.entries.count))
    let number = run.account.send(
      to: device, isStored: isStored, collapses: collapses, id: id)
    load?.sent(number, to: device)
    var request = PushRequest(token: token, topic: topic, payload: CrashPayload.bytes(number))
    request.expirationSeconds = isStored ? Int64(run.expirationSeconds) : 0
    request.id = id
    if collapses { request.collapseID = "score" }
    let push = request
    underWay += 1
    Task { [self] in
      let outcome: SendOutcome?
      do {
        outcome = try await client.send(push)
      } catch {
        outcome = nil
      }
      loop.perform { [self] in finished(number, outcome) }
    }
  }

  private func finished(_ number: Int, _ outcome: SendOutcome?) {
    underWay -= 1
    switch outcome {
    case .accepted: run.accepted(number)
    case .unknown(_, retryMayDuplicate: true): run.account.end(number, .unknown)
    case .unknown(_, retryMayDuplicate: false): run.account.end(number, .refused)
    case .rejected(let rejection):
      // After a 5xx, a copy in flight may still arrive.
      guard rejection.status < 500 else { return run.account.end(number, .unknown) }
      run.account.end(number, .refused)
      run.fail("\(number) was rejected with \(rejection.reason)")
    case nil: run.fail("\(number) could not be sent at all")
    }
  }
}
