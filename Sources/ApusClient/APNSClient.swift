import ApusLoop
import ApusModel
import ApusTrust
import Synchronization

/// Sends notifications to a push service: Apple's, or any that speaks its HTTP/2 provider API.
///
/// A client has a thread of its own and connects when there is something to send. Any number of tasks may send at once;
/// the requests share a few connections, as many at a time as the service allows. Close a client that is no longer
/// needed.
public final class APNSClient: Sendable {
  private let loop: EventLoop
  private let inbox: Inbox<ClientCommand>
  /// Bulk sends that have pushes: each is in it at most twice.
  private let bulkInbox: Inbox<BulkJob>
  /// For what ends the client, which it always has room for; and questions.
  private let control: Inbox<ClientControl>
  private let isClosed = Mutex(false)
  private let timeoutMilliseconds: UInt64

  let maximumConnections: Int

  private static let bulkSends = 10_000
  private static let reports = 1000

  /// Makes a client, which does nothing until its first push. Throws what is wrong with the configuration.
  public init(_ configuration: ClientConfiguration) throws(ClientConfigurationError) {
    try configuration.validate()
    let credentials = try ClientCredentials(configuration)
    loop = EventLoop(name: "apns-client")
    timeoutMilliseconds = UInt64(configuration.sendTimeoutSeconds) * 1000
    maximumConnections = configuration.maximumConnections
    let driver = ClientDriver(
      loop: loop, configuration: configuration, credentials: credentials)
    // Room for a whole queue, and a cancellation for each of its pushes.
    inbox = Inbox(loop: loop, capacity: 2 * configuration.queueCapacity) { commands in
      driver.handle(commands)
    }
    bulkInbox = Inbox(loop: loop, capacity: 2 * Self.bulkSends) { jobs in driver.handle(jobs) }
    control = Inbox(loop: loop, capacity: Self.reports) { commands in driver.handle(commands) }
    loop.start()
  }

  deinit { if beginClosing() { end() } }

  /// Sends one notification and waits for what becomes of it, for `timeout` or
  /// `ClientConfiguration.sendTimeoutSeconds` at most.
  ///
  /// What the service has certainly not acted on is sent again by itself, with the same id, as long as there is time:
  /// requests that it refused unread, that did not leave this machine whole, and those that a busy service asks to
  /// bring again (429, 500 and 503; see ``ClientConfiguration/retriesRefusals``). Everything else is told, and sending
  /// again is the caller's to decide. Cancelling the task ends the wait. Throws only for a push that no service would
  /// take, before anything is sent.
  public func send(
    _ request: PushRequest, within timeout: Duration? = nil
  ) async throws(PushRequestError) -> SendOutcome {
    let push = try EncodedPush(request, id: randomID())
    let milliseconds = timeout.map(Self.milliseconds) ?? timeoutMilliseconds
    guard !isClosed.withLock({ $0 }) else {
      return .unknown(UnknownCause(.clientClosed), retryMayDuplicate: false)
    }
    // What is to be cancelled is known only inside the closure that waits, and that one runs at once.
    let cancellation = Mutex<PendingSend?>(nil)
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let send = PendingSend(push: push, timeoutMilliseconds: milliseconds) {
          continuation.resume(returning: $0)
        }
        cancellation.withLock { $0 = send }
        submit(send)
      }
    } onCancel: {
      // In the short time between the look at `Task.isCancelled` and the queue this comes too early; the push then goes
      // its way.
      if let send = cancellation.withLock({ $0 }) { _ = inbox.send(.cancel(send)) }
    }
  }

  private func submit(_ send: PendingSend) {
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

  /// Sends all notifications of a sequence; the outcomes come as they become known.
  ///
  /// ```swift
  /// for try await outcome in client.send(all: requests) { … }
  /// ```
  ///
  /// The sequence is read no further ahead than `capacity` pushes (1 to 1,000,000): as fast as the service takes them,
  /// and as fast as the outcomes are read. More than the service takes at a time on all connections together brings
  /// nothing. The time that a push has (`ClientConfiguration.sendTimeoutSeconds`) runs from when it gets a stream, so
  /// that any number can wait their turn.
  public func send<Requests: AsyncSequence & Sendable>(
    all requests: Requests, capacity: Int = 8192
  ) -> SendOutcomes<Requests> where Requests.Element == PushRequest {
    SendOutcomes(client: self, requests: requests, capacity: min(max(capacity, 1), 1_000_000))
  }

  /// The same for pushes that are all there: an array, say.
  public func send<Pushes: Sequence & Sendable>(
    all requests: Pushes, capacity: Int = 8192
  ) -> SendOutcomes<ReadyPushes<Pushes>> where Pushes.Element == PushRequest {
    send(all: ReadyPushes(pushes: requests), capacity: capacity)
  }

  func bulkJob(capacity: Int) -> BulkJob {
    BulkJob(capacity: capacity, timeoutMilliseconds: timeoutMilliseconds) {
      [bulkInbox] in bulkInbox.send($0)
    }
  }

  /// Asks the loop what it is doing.
  func report(_ reader: @escaping @Sendable (ClientMetrics) -> Void) {
    if !control.send(.report(reader)) { reader(ClientMetrics()) }
  }

  // MARK: The end

  /// False when that had been done.
  private func beginClosing() -> Bool {
    isClosed.withLock { isClosed in
      defer { isClosed = true }
      return !isClosed
    }
  }

  /// Ends the client: takes no more pushes, waits for the outcome of those under way, and leaves the service in order.
  public func close() async {
    guard beginClosing() else { return }
    await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
      if !control.send(.close { continuation.resume() }) { continuation.resume() }
    }
    end()
  }

  /// Ends the client at once, also while it closes: what has no outcome yet gets one, as far as it can be known.
  public func closeImmediately() {
    guard beginClosing() else {
      _ = control.send(.abandon)
      return
    }
    end()
  }

  /// Takes the loop down, with everything on it.
  private func end() {
    _ = control.send(.abandon)
    loop.perform { [inbox, bulkInbox, control] in
      for case .report(let reader) in control.close() { reader(ClientMetrics()) }
      // What was on its way when the client was closed.
      for case .send(let send) in inbox.close() {
        send.finish(UnknownCause(.clientClosed), retryMayDuplicate: false)
      }
      for job in bulkInbox.close() { job.abandon() }
    }
    loop.stop()
  }
}
