import ApusLoop
import ApusTrust
import Synchronization

/// Sends notifications to a push service: Apple's, or any that speaks its HTTP/2 provider API.
///
/// A client has a thread of its own and connects when there is something to send. Any number of tasks may send at once;
/// the requests share one connection, as many at a time as the service allows. Close a client that is no longer
/// needed.
public final class APNSClient: Sendable {
  private let loop: EventLoop
  private let inbox: Inbox<ClientCommand>
  /// For what ends the client: it always has room.
  private let control: Inbox<ClientControl>
  private let state = Mutex(State())

  private struct State {
    var lastNumber: UInt64 = 0
    var isClosed = false

    /// Nil when the client is closed.
    mutating func nextNumber() -> UInt64? {
      guard !isClosed else { return nil }
      lastNumber += 1
      return lastNumber
    }

    /// False when that had been done.
    mutating func close() -> Bool {
      guard !isClosed else { return false }
      isClosed = true
      return true
    }
  }

  /// Makes a client, which does nothing until its first push. Throws what is wrong with the configuration.
  public init(_ configuration: ClientConfiguration) throws(ClientConfigurationError) {
    try configuration.validate()
    let context = try configuration.tlsContext()
    let tokens = try configuration.tokenSource()
    loop = EventLoop(name: "apns-client")
    let driver = ClientDriver(
      loop: loop, configuration: configuration, context: context, tokens: tokens)
    // Room for a whole queue, and a cancellation for each of its pushes.
    inbox = Inbox(loop: loop, capacity: 2 * configuration.queueCapacity) { commands in
      driver.handle(commands)
    }
    control = Inbox(loop: loop, capacity: 2) { commands in driver.handle(commands) }
    loop.start()
  }

  deinit { if state.withLock({ $0.close() }) { end() } }

  /// Sends one notification and waits for what becomes of it, `ClientConfiguration.sendTimeoutSeconds` at most.
  ///
  /// What the service refused unread is sent again by itself, with the same id; everything else is told, and sending
  /// again is the caller's to decide. Cancelling the task ends the wait. Throws only for a push that no service would
  /// take, before anything is sent.
  public func send(_ request: PushRequest) async throws(PushRequestError) -> SendOutcome {
    let push = try EncodedPush(request, id: request.id ?? randomID())
    guard let number = state.withLock({ $0.nextNumber() }) else {
      return .unknown(UnknownCause(.clientClosed), retryMayDuplicate: false)
    }
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        submit(Submission(number: number, push: push) { continuation.resume(returning: $0) })
      }
    } onCancel: {
      // In the short time between the look at `Task.isCancelled` and the queue this comes too early; the push then goes
      // its way.
      _ = inbox.send(.cancel(number))
    }
  }

  private func submit(_ submission: Submission) {
    guard !Task.isCancelled else {
      return submission.completion(
        .unknown(UnknownCause(.cancelled), retryMayDuplicate: false))
    }
    guard !inbox.send(.send(submission)) else { return }
    let cause = UnknownCause(state.withLock(\.isClosed) ? .clientClosed : .queueFull)
    submission.completion(.unknown(cause, retryMayDuplicate: false))
  }

  /// Ends the client: takes no more pushes, waits for the outcome of those under way, and leaves the service in order.
  public func close() async {
    guard state.withLock({ $0.close() }) else { return }
    await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
      if !control.send(.close { continuation.resume() }) { continuation.resume() }
    }
    end()
  }

  /// Takes the loop down, with everything on it.
  private func end() {
    _ = control.send(.abandon)
    loop.perform { [inbox, control] in
      control.close()
      // A push that was on its way when the client was closed.
      for case .send(let submission) in inbox.close() {
        submission.completion(
          .unknown(UnknownCause(.clientClosed), retryMayDuplicate: false))
      }
    }
    loop.stop()
  }
}
