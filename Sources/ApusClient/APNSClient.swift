import ApusLoop
import ApusModel
import ApusTrust
import Synchronization

/// Sends notifications to a push service: Apple's, or any that speaks its HTTP/2 provider API.
///
/// A client runs on its own thread and connects when there is something to send. Any number of tasks may send at the
/// same time; they share a few connections, and each connection carries as many requests at once as the service allows.
/// Close a client that is no longer needed.
public final class APNSClient: Sendable {
  private let loop: EventLoop
  private let inbox: Inbox<ClientCommand>
  /// Bulk sends with waiting pushes; each appears at most twice.
  private let bulkInbox: Inbox<BulkJob>
  /// Commands that end the client, which always fit, and metrics requests.
  private let control: Inbox<ClientControl>
  private let isClosed = Mutex(false)
  /// For pushes without an id.
  private let ids = Mutex(RandomIDs())
  let timeoutMilliseconds: UInt64

  let maximumConnections: Int

  private static let bulkSends = 10_000
  private static let reports = 1000

  /// Creates a client, which stays idle until the first push. Throws if the configuration is invalid.
  public init(_ configuration: ClientConfiguration) throws(ClientConfigurationError) {
    try configuration.validate()
    let credentials = try ClientCredentials(configuration)
    loop = EventLoop(name: "apns-client")
    timeoutMilliseconds = UInt64(configuration.sendTimeoutSeconds) * 1000
    maximumConnections = configuration.maximumConnections
    let driver = ClientDriver(
      loop: loop, configuration: configuration, credentials: credentials)
    // Room for a full queue plus one cancellation for each of its pushes.
    inbox = Inbox(loop: loop, capacity: 2 * configuration.queueCapacity) { commands in
      driver.handle(commands)
    }
    bulkInbox = Inbox(loop: loop, capacity: 2 * Self.bulkSends) { jobs in driver.handle(jobs) }
    control = Inbox(loop: loop, capacity: Self.reports) { commands in driver.handle(commands) }
    loop.start()
  }

  deinit { if beginClosing() { end() } }

  /// Sends one notification, to a device or a channel, and waits for its outcome, for at most `timeout` or
  /// `ClientConfiguration.sendTimeoutSeconds`.
  ///
  /// While there is time, the client resends with the same id whatever the service has certainly not processed:
  /// requests that the service refused without reading, requests that did not leave this machine completely, and
  /// requests that a busy service asks to retry (429, 500 and 503; see ``ClientConfiguration/retriesRefusals``). Every
  /// other outcome is returned, and the caller decides whether to send again. Cancelling the task ends the wait. Throws
  /// only if the push is invalid, before anything is sent.
  public func send(
    _ request: PushRequest, within timeout: Duration? = nil
  ) async throws(PushRequestError) -> SendOutcome {
    let push = try EncodedPush(request, id: ids.withLock { $0.next() })
    return await perform(push, within: timeout).outcome
  }

  /// Sends a request, and waits for its outcome. `answer` belongs to an accepted request about channels.
  func perform(
    _ push: EncodedPush, within timeout: Duration?
  ) async -> (outcome: SendOutcome, answer: ChannelAnswer?) {
    let milliseconds = timeout.map(Self.milliseconds) ?? timeoutMilliseconds
    guard !isClosed.withLock({ $0 }) else {
      return (.unknown(UnknownCause(.clientClosed), retryMayDuplicate: false), nil)
    }
    // The push to cancel is known only inside the waiting closure, which runs immediately.
    let cancellation = Mutex<PendingSend?>(nil)
    let outcome = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let send = PendingSend(push: push, timeoutMilliseconds: milliseconds) {
          continuation.resume(returning: $0)
        }
        cancellation.withLock { $0 = send }
        submit(send)
      }
    } onCancel: {
      // Between the check of `Task.isCancelled` and the queue, this cancellation comes too early; the push is then
      // sent.
      if let send = cancellation.withLock({ $0 }) { _ = inbox.send(.cancel(send)) }
    }
    // With its outcome the loop has let go of it.
    return (outcome, cancellation.withLock { $0?.answer })
  }

  func submit(_ send: PendingSend) {
    guard !Task.isCancelled else {
      return send.finish(UnknownCause(.cancelled), retryMayDuplicate: false)
    }
    guard !inbox.send(.send(send)) else { return }
    let cause = UnknownCause(isClosed.withLock { $0 } ? .clientClosed : .queueFull)
    send.finish(cause, retryMayDuplicate: false)
  }

  private static func milliseconds(_ duration: Duration) -> UInt64 {
    let (seconds, attoseconds) = duration.components
    guard seconds >= 0, attoseconds >= 0 else { return 0 }
    return UInt64(min(seconds, 1 << 40)) * 1000 + UInt64(attoseconds / 1_000_000_000_000_000)
  }

  /// Sends all notifications of a sequence; outcomes arrive as they become known.
  ///
  /// ```swift
  /// for try await outcome in client.send(all: requests) { … }
  /// ```
  ///
  /// The client reads the sequence at most `capacity` pushes ahead (1 to 1,000,000), as fast as the service accepts
  /// them and the caller reads outcomes. A capacity above what the service takes at once over all connections brings no
  /// benefit. A push's timeout (`ClientConfiguration.sendTimeoutSeconds`) starts when it gets a stream, so any number
  /// can wait their turn.
  public func send<Requests: AsyncSequence & Sendable>(
    all requests: Requests, capacity: Int = 8192
  ) -> SendOutcomes<Requests> where Requests.Element == PushRequest {
    SendOutcomes(client: self, requests: requests, capacity: min(max(capacity, 1), 1_000_000))
  }

  /// The same for pushes that already exist, in an array for example.
  public func send<Pushes: Sequence & Sendable>(
    all requests: Pushes, capacity: Int = 8192
  ) -> SendOutcomes<ReadyPushes<Pushes>> where Pushes.Element == PushRequest {
    send(all: ReadyPushes(pushes: requests), capacity: capacity)
  }

  func bulkJob(capacity: Int, isEndless: Bool = false) -> BulkJob {
    BulkJob(
      capacity: capacity, timeoutMilliseconds: timeoutMilliseconds, isEndless: isEndless
    ) { [bulkInbox] in bulkInbox.send($0) }
  }

  /// Asks the loop for its metrics.
  func report(_ reader: @escaping @Sendable (ClientMetrics) -> Void) {
    if !control.send(.report(reader)) { reader(ClientMetrics()) }
  }

  // MARK: The end

  /// False if closing had already begun.
  private func beginClosing() -> Bool {
    isClosed.withLock { isClosed in
      defer { isClosed = true }
      return !isClosed
    }
  }

  /// Closes the client: accepts no more pushes, waits for pending outcomes, and closes the connections cleanly.
  public func close() async {
    guard beginClosing() else { return }
    await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
      if !control.send(.close { continuation.resume() }) { continuation.resume() }
    }
    end()
  }

  /// Closes the client immediately, even during ``close()``: each pending push gets the outcome that is known so far.
  public func closeImmediately() {
    guard beginClosing() else {
      _ = control.send(.abandon)
      return
    }
    end()
  }

  /// Stops the loop and everything on it.
  private func end() {
    _ = control.send(.abandon)
    loop.perform { [inbox, bulkInbox, control] in
      for case .report(let reader) in control.close() { reader(ClientMetrics()) }
      // Commands still in the inbox when the client closed.
      for case .send(let send) in inbox.close() {
        send.finish(UnknownCause(.clientClosed), retryMayDuplicate: false)
      }
      for job in bulkInbox.close() { job.abandon() }
    }
    loop.stop()
  }
}
