import ApusLoop
import ApusModel
import ApusTrust
import Synchronization

/// Sends notifications to a gateway that speaks APNs' old binary interface: ports 2195 and 2295 of an Apus service, or
/// another gateway.
///
/// The outcomes are those of ``APNSClient``, but the protocol reveals less. It does not confirm success, and reports at
/// most one bad notification for each connection, which it then closes. Therefore:
///
/// - **accepted** means that the service named a later notification or the last good one, or (with
///   `expectsConfirmations`) confirmed this one; or that its system had the bytes for `silenceMilliseconds` and no
///   error packet came. The last case is an inference. If a packet still comes later, the client resends what the
///   packet proves unread, reports what cannot be repaired to `onCorrection`, and counts it.
/// - **rejected** is exact: an error packet named the notification. Its reason is the one that the HTTP/2 interface
///   would give, and `binaryStatus` is the status of the packet.
/// - **unknown** with `retryMayDuplicate` covers everything that the service may have read when the connection broke or
///   closed without a packet, or when the packet named nothing that was sent. With command 0 each bad notification ends
///   this way.
///
/// What an error packet proves unread, because it was sent after the bad notification, is resent on a new connection.
/// The topic of all pushes is that of the certificate. A collapse id, priority 1, and anything that the chosen command
/// has no field for are errors of the request (`PushRequestError.Code.notCarried`). A request's id is not sent; it only
/// identifies the push in its outcome.
public final class BinaryClient: Sendable {
  private let configuration: BinaryClientConfiguration
  private let loop: EventLoop
  private let intake: FrameIntake
  private let report: BinaryReport
  private let control: Inbox<BinaryCommandItem>
  private let isClosed = Mutex(false)

  /// Creates a client, which connects when there is something to send. Throws if the configuration is invalid.
  public init(_ configuration: BinaryClientConfiguration) throws(ClientConfigurationError) {
    try configuration.validate()
    let identity = try BinaryIdentity(
      endpoint: configuration.endpoint, serverName: configuration.serverName,
      trustRoots: configuration.trustRoots, credential: configuration.credential)
    self.configuration = configuration
    let loop = EventLoop(name: "apns-binary")
    let encoder = configuration.encoder(identity)
    let report = BinaryReport(onCorrection: configuration.onCorrection)
    // The wake-up starts a turn, which does the rest.
    let intake = FrameIntake(encoder: encoder) { loop.perform {} }
    let driver = BinaryDriver(
      loop: loop, configuration: configuration, format: encoder.format, identity: identity,
      intake: intake, report: report)
    control = Inbox(loop: loop, capacity: configuration.queueCapacity + 1000) { commands in
      driver.handle(commands)
    }
    (self.loop, self.intake, self.report) = (loop, intake, report)
    loop.start()
  }

  deinit { closeImmediately() }

  /// What the client has done so far.
  public var statistics: BinaryStatistics { report.statistics }

  /// Sends one notification and waits for its outcome. Without confirmations that takes at least `silenceMilliseconds`:
  /// to send many, use many tasks or ``send(all:)``.
  ///
  /// Cancelling the task ends the wait. Throws only if the push cannot be sent by this client, before anything is sent.
  public func send(_ request: PushRequest) async throws(PushRequestError) -> SendOutcome {
    let id = request.id ?? randomID()
    let pending = PendingTicket()
    let result = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        submit(request, id, pending, continuation)
      }
    } onCancel: {
      if let ticket = pending.cancel() { _ = control.send(.cancel(ticket)) }
    }
    if let error = pending.error { throw error }
    return result
  }

  private func submit(
    _ request: PushRequest, _ id: NotificationID, _ pending: PendingTicket,
    _ continuation: CheckedContinuation<SendOutcome, Never>
  ) {
    guard let ticket = report.pending.open(.single(continuation)) else {
      return continuation.resume(
        returning: .unknown(UnknownCause(.queueFull), retryMayDuplicate: false))
    }
    func refuse(_ code: UnknownCause.Code) {
      report.pending.deliver(ticket, .unknown(UnknownCause(code), retryMayDuplicate: false))
    }
    do throws(PushRequestError) {
      guard !Task.isCancelled else { return refuse(.cancelled) }
      switch try intake.put(
        request, ticket: ticket, id: id, deadlineMilliseconds: deadline,
        limit: configuration.queueCapacity)
      {
      case .taken: if pending.set(ticket) { _ = control.send(.cancel(ticket)) }
      case .full: refuse(.queueFull)
      case .closed: refuse(.clientClosed)
      }
    } catch {
      pending.error = error
      refuse(.cancelled)
    }
  }

  private var deadline: UInt64 {
    roughMonotonicMilliseconds() + timeoutMilliseconds
  }

  private var timeoutMilliseconds: UInt64 { UInt64(configuration.sendTimeoutSeconds) * 1000 }

  // MARK: Many

  /// Sends all notifications of a sequence; outcomes arrive as they become known.
  ///
  /// ```swift
  /// for try await outcome in client.send(all: requests) { … }
  /// ```
  ///
  /// The client takes pushes from the sequence as there is room, so memory does not grow with its length. A push's
  /// timeout (`BinaryClientConfiguration.sendTimeoutSeconds`) starts when it is taken.
  public func send<Requests: AsyncSequence & Sendable>(
    all requests: Requests
  ) -> BinarySendOutcomes<Requests> where Requests.Element == PushRequest {
    BinarySendOutcomes(client: self, requests: requests)
  }

  /// The same for pushes that already exist, in an array for example.
  public func send<Pushes: Sequence & Sendable>(
    all requests: Pushes
  ) -> BinarySendOutcomes<ReadyPushes<Pushes>> where Pushes.Element == PushRequest {
    send(all: ReadyPushes(pushes: requests))
  }

  /// Starts to send a sequence.
  func begin<Requests: AsyncSequence & Sendable>(
    _ requests: Requests
  ) -> BulkSend where Requests.Element == PushRequest {
    // The windows of all connections, plus the pushes that may wait before and after them.
    let bulk = BulkSend(
      limit: configuration.connections * configuration.windowCapacity + 2 * bulkLimit)
    guard let first = report.pending.open(.bulk(bulk)) else {
      bulk.finish(nil)
      return bulk
    }
    let pending = report.pending
    bulk.start { pending.closeBulk(first) }
    let feed = BulkFeed(
      bulk, firstTicket: first, intake: intake, pending: pending, limit: bulkLimit,
      timeoutMilliseconds: timeoutMilliseconds)
    Task { [self] in
      var feed = feed
      await feed.run(requests)
      // Keeps the client alive until here.
      withExtendedLifetime(self) {}
    }
    return bulk
  }

  /// Most bulk pushes that may wait for the loop; leaves room for single ones.
  private var bulkLimit: Int { max(1, min(8192, configuration.queueCapacity / 2)) }

  // MARK: The end

  /// Closes the client: accepts no more pushes, waits for the outcomes of existing ones, and closes the connections
  /// cleanly.
  ///
  /// To avoid waiting for the whole silence, it sends a final notification without token and payload, which no service
  /// accepts. Its error packet proves that all earlier ones were processed. If no such packet comes, and with command
  /// 0, the silence decides.
  public func close() async {
    guard takesNoMore() else { return }
    await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
      if !control.send(.close { continuation.resume() }) { continuation.resume() }
    }
    end()
  }

  /// Closes the client immediately, even during ``close()``. Pushes that were not passed to the service end as
  /// `unknown`, certainly not sent; those it may have read end as `unknown`, possibly sent.
  public func closeImmediately() {
    guard takesNoMore() else {
      _ = control.send(.abandon)
      return
    }
    end()
  }

  /// False if that had already been requested.
  private func takesNoMore() -> Bool {
    let isFirst = isClosed.withLock { isClosed in
      defer { isClosed = true }
      return !isClosed
    }
    if isFirst { intake.close() }
    return isFirst
  }

  private func end() {
    _ = control.send(.abandon)
    loop.perform { [control] in control.close() }
    loop.stop()
  }
}

/// The ticket of a push and its cancellation, which can happen in either order.
private final class PendingTicket: Sendable {
  private struct State {
    var ticket: UInt64?
    var isCancelled = false
    var error: PushRequestError?
  }
  private let state = Mutex(State())

  /// True if the push was already cancelled.
  func set(_ ticket: UInt64) -> Bool {
    state.withLock { state in
      state.ticket = ticket
      return state.isCancelled
    }
  }

  /// The ticket to cancel, if it is known.
  func cancel() -> UInt64? {
    state.withLock { state in
      state.isCancelled = true
      return state.ticket
    }
  }

  var error: PushRequestError? {
    get { state.withLock { $0.error } }
    set { state.withLock { $0.error = newValue } }
  }
}
