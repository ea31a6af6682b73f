import ApusLoop
import ApusModel
import ApusTrust
import Synchronization

/// Sends notifications to a gateway that speaks APNs' old binary interface: ports 2195 and 2295 of an Apus service, or
/// that of somebody else.
///
/// The outcomes are those of ``APNSClient``, but the protocol knows less. It is silent about success, and names at most
/// one bad notification for each connection, which it then ends. Hence:
///
/// - **accepted** means that the service named a later notification, or the last good one, or (with
///   `expectsConfirmations`) confirmed this one; or that its system had the bytes for `silenceMilliseconds` and it said
///   nothing. This last kind is an inference. If a packet comes later all the same, what it proves unread is sent
///   again, and what cannot be repaired is told to `onBelied` and counted.
/// - **rejected** is exact: an error packet named the notification. Its reason is what the HTTP/2 interface would have
///   said, and `binaryStatus` what was said.
/// - **unknown** with `retryMayDuplicate` is everything that the service may have read when the connection broke or
///   ended without a packet, or a packet named nothing that was sent. With command 0 that is how each bad notification
///   ends.
///
/// What an error packet proves unread, because it was sent behind the bad notification, goes out again on a new
/// connection by itself. The topic of all pushes is that of the certificate. A collapse id, priority 1, and what the
/// chosen command has no field for are errors of the request (`PushRequestError.Code.notCarried`); a request's id is
/// not sent, and names the push in its outcome alone.
public final class BinaryClient: Sendable {
  private let configuration: BinaryClientConfiguration
  private let loop: EventLoop
  private let intake: FrameIntake
  private let report: BinaryReport
  private let control: Inbox<BinaryCommandItem>
  private let isClosed = Mutex(false)

  /// Makes a client, which connects when there is something to send. Throws what is wrong with the configuration.
  public init(_ configuration: BinaryClientConfiguration) throws(ClientConfigurationError) {
    try configuration.validate()
    let identity = try BinaryIdentity(
      endpoint: configuration.endpoint, serverName: configuration.serverName,
      trustRoots: configuration.trustRoots, credential: configuration.credential)
    self.configuration = configuration
    let loop = EventLoop(name: "apns-binary")
    let encoder = configuration.encoder(identity)
    let report = BinaryReport(onBelied: configuration.onBelied)
    // The turn that the wake-up begins is all that is needed.
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

  /// What was done so far.
  public var statistics: BinaryStatistics { report.statistics }

  /// Sends one notification and waits for what becomes of it. Without confirmations that takes `silenceMilliseconds`
  /// at least: whoever has many sends them at once, from many tasks or with ``send(all:)``.
  ///
  /// Cancelling the task ends the wait. Throws only for a push that cannot be sent here, before anything is sent.
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
    guard let ticket = report.desk.open(.single(continuation)) else {
      return continuation.resume(
        returning: .unknown(UnknownCause(.queueFull), retryMayDuplicate: false))
    }
    func refuse(_ code: UnknownCause.Code) {
      report.desk.deliver(ticket, .unknown(UnknownCause(code), retryMayDuplicate: false))
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

  /// Sends all notifications of a sequence; the outcomes come as they become known.
  ///
  /// ```swift
  /// for try await outcome in client.send(all: requests) { … }
  /// ```
  ///
  /// Pushes are taken from the sequence as there is room for them, so that memory does not grow with its length. The
  /// time that a push has (`BinaryClientConfiguration.sendTimeoutSeconds`) runs from when it is taken.
  public func send<Requests: AsyncSequence & Sendable>(
    all requests: Requests
  ) -> BinarySendOutcomes<Requests> where Requests.Element == PushRequest {
    BinarySendOutcomes(client: self, requests: requests)
  }

  /// The same for pushes that are all there: an array, say.
  public func send<Pushes: Sequence & Sendable>(
    all requests: Pushes
  ) -> BinarySendOutcomes<ReadyPushes<Pushes>> where Pushes.Element == PushRequest {
    send(all: ReadyPushes(pushes: requests))
  }

  /// Starts to send what a sequence has.
  func begin<Requests: AsyncSequence & Sendable>(
    _ requests: Requests
  ) -> BulkSend where Requests.Element == PushRequest {
    // The windows of all connections, and as much as may wait in front of them and behind.
    let bulk = BulkSend(
      limit: configuration.connections * configuration.windowCapacity + 2 * bulkLimit)
    guard let first = report.desk.open(.bulk(bulk)) else {
      bulk.finish(nil)
      return bulk
    }
    let desk = report.desk
    bulk.start { desk.closeBulk(first) }
    let feed = BulkFeed(
      bulk, firstTicket: first, intake: intake, desk: desk, limit: bulkLimit,
      timeoutMilliseconds: timeoutMilliseconds)
    Task { [self] in
      var feed = feed
      await feed.run(requests)
      // Until here the client is not let go of.
      withExtendedLifetime(self) {}
    }
    return bulk
  }

  /// Pushes of bulks that wait for the loop: single ones find room beside them.
  private var bulkLimit: Int { max(1, min(8192, configuration.queueCapacity / 2)) }

  // MARK: The end

  /// Ends the client: takes no more pushes, waits for the outcome of those that it has, and leaves the service in
  /// order.
  ///
  /// Rather than wait for the end of the silence, it asks: behind the last notification goes one that no service takes,
  /// without token and payload, whose error packet says that all before it were processed. Where no such packet comes,
  /// and with command 0, the silence decides.
  public func close() async {
    guard takesNoMore() else { return }
    await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
      if !control.send(.close { continuation.resume() }) { continuation.resume() }
    }
    end()
  }

  /// Ends the client at once, also while it closes. What the service has not been given is `unknown` and certainly not
  /// sent, what it may have read is `unknown` and may be.
  public func closeImmediately() {
    guard takesNoMore() else {
      _ = control.send(.abandon)
      return
    }
    end()
  }

  /// False when that had been said.
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

/// The ticket of a push for whoever cancels it: both may come first.
private final class PendingTicket: Sendable {
  private struct State {
    var ticket: UInt64?
    var isCancelled = false
    var error: PushRequestError?
  }
  private let state = Mutex(State())

  /// True when the push was cancelled before.
  func set(_ ticket: UInt64) -> Bool {
    state.withLock { state in
      state.ticket = ticket
      return state.isCancelled
    }
  }

  /// The ticket, if there is one to cancel.
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
