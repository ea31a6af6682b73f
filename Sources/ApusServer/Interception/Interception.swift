import ApusCore
import ApusHTTP2
import ApusLoop
import ApusModel
import ApusTrust

/// A request from its arrival until its outcome is reported.
final class InterceptedRequest {
  let request: ProviderRequest
  let fault: PlannedFault?
  var notes: [String] = []
  var explanation: String?
  /// The notification's id in the ledger.
  var id: NotificationID?
  /// The HTTP/2 request while it is held: for a delay, for the interceptor's answer, or for good.
  var held: HTTP2Request?
  /// The frame, on the binary interface.
  var frame: InterceptedFrame?
  /// Since when its token counts as dead (Unix milliseconds); nil if no dead token is planned.
  var deadSinceMilliseconds: Int64?
  /// Whether its outcome was reported. Each outcome is reported once.
  var isReported = false

  init(_ request: ProviderRequest, _ fault: PlannedFault?) {
    self.request = request
    self.fault = fault
  }

  /// The effect of the planned fault, if the interface can express it.
  var effect: PlannedFault.Effect { fault?.effect ?? .none }

  func addExplanation(_ text: String) {
    if !notes.contains(text) { notes.append(text) }
  }
}

/// The interceptor's state for one connection. Confined to its worker.
final class Interception {
  /// How the connection ends, if a fault decides that.
  enum Ending {
    case none
    /// After all pending output.
    case closed
    /// In the middle of the last answer.
    case cut
    /// Without the last packet.
    case silent
  }

  let shared: SharedInterception
  let connection: InterceptedConnection
  private let context: WorkerContext
  private let shard: ShardDriver
  private let table: ConnectionTable
  private let entry: DeadlineWheel.Entry
  /// By stream id, or by the frame's sequence number.
  private(set) var requests: [UInt32: InterceptedRequest] = [:]
  private var timers: [UInt64: LoopTimer] = [:]
  private var timerCount: UInt64 = 0
  var ending = Ending.none
  /// Requests on later streams are not processed.
  var lastStreamID: Int32?
  /// Nothing is written before this time of the loop's clock.
  private(set) var heldUntilMilliseconds: UInt64 = 0
  /// When the last request arrived, in Unix milliseconds of the service's clock.
  private var activeMilliseconds: Int64
  /// What lenient mode forgave when the connection was opened.
  var connectionNote: String?
  /// The provider token read last, cached because providers repeat it.
  private var readToken = ReadToken()

  /// The claims of a provider token, unverified.
  struct ReadToken {
    var field: [UInt8] = []
    var credential: String?
    var issuedAtSeconds: Int64?
  }

  init(
    _ shared: SharedInterception, _ connection: Connection, _ shard: ShardDriver,
    _ interface: ProviderInterface, credential: String?
  ) {
    self.shared = shared
    context = connection.context
    self.shard = shard
    (table, entry) = (connection.table, connection.entry)
    activeMilliseconds = context.wallMilliseconds
    self.connection = InterceptedConnection(
      number: shared.nextConnection(), interface: interface,
      environment: connection.listener.environment, peer: connection.peer.description,
      credential: credential)
    shared.interceptor.connectionOpened(self.connection)
  }

  var isLenient: Bool { shared.interceptor.isLenient }

  /// Reads the provider token at `range` of an authorization field.
  func readToken(_ field: Span<UInt8>, _ range: Range<Int>) -> ReadToken {
    let known = readToken.field
    if !known.isEmpty, known.span.equals(field) { return readToken }
    readToken = ReadToken(field: field.copied())
    if let token = try? ProviderToken.parse(field.extracting(range)) {
      readToken.credential = "key \(token.keyID) of team \(token.teamID)"
      readToken.issuedAtSeconds = token.issuedAt
    }
    return readToken
  }

  // MARK: Requests

  /// Asks the interceptor for a fault, and keeps the request until its outcome is reported.
  func begin(_ request: ProviderRequest, _ key: UInt32?) -> InterceptedRequest {
    activeMilliseconds = request.receivedMilliseconds
    let planned = shared.interceptor.fault(for: request)
    let fault = planned.flatMap { $0.effect.strikes(connection.interface) ? $0 : nil }
    let intercepted = InterceptedRequest(request, fault)
    if let connectionNote { intercepted.addExplanation(connectionNote) }
    if let key { keep(intercepted, key) }
    return intercepted
  }

  func keep(_ request: InterceptedRequest, _ key: UInt32) { requests[key] = request }

  func take(_ key: UInt32) -> InterceptedRequest? { requests.removeValue(forKey: key) }

  /// Reports a request's outcome to the interceptor.
  func report(
    _ request: InterceptedRequest, status: Int,
    _ change: (inout ProviderExchange) -> Void = { _ in }
  ) {
    guard !request.isReported else { return }
    request.isReported = true
    var exchange = ProviderExchange(
      request: request.request, status: status, answeredMilliseconds: context.wallMilliseconds)
    exchange.explanation = request.explanation
    exchange.fault = request.fault?.rule
    exchange.notes = request.notes
    change(&exchange)
    shared.interceptor.answered(exchange)
  }

  /// Asks the interceptor which device is meant, and passes the answer to the connection.
  func adopt(_ request: ProviderRequest, _ key: UInt32) {
    let tell = teller
    shared.interceptor.adopt(
      request.token, topic: request.topic ?? "", environment: connection.environment
    ) { token in
      tell { $0.adopted(token, key) }
    }
  }

  /// Asks the interceptor for an app that the service does not have.
  func adopt(app bundle: String, _ key: UInt32) {
    let tell = teller
    shared.interceptor.adopt(app: bundle) { isAdded in tell { $0.adoptedApp(isAdded, key) } }
  }

  /// Lets the interceptor prepare what a fault requires, and tells the connection when it is done.
  func prepare(_ request: ProviderRequest, _ key: UInt32) {
    let tell = teller
    shared.interceptor.prepare(request) { tell { $0.prepared(key) } }
  }

  /// Runs a closure on the connection's worker, from any thread. Does nothing if the connection has ended by then.
  private var teller: @Sendable (@escaping @Sendable (Connection) -> Void) -> Void {
    { [loop = context.loop, table, entry] tell in
      loop.perform {
        if let connection = table.connection(entry) { tell(connection) }
      }
    }
  }

  /// If the request's token is to be dead, adds it to the feedback list as it was sent, and returns since when (Unix
  /// milliseconds).
  ///
  /// - Parameter adopted: The issued token that it stands for, if this service did not issue the one sent.
  /// - Returns: Nil if no dead token is planned, or the token belongs to no device.
  func listDead(_ request: InterceptedRequest, adopted: DeviceToken?) -> Int64? {
    guard let since = request.deadSinceMilliseconds else { return nil }
    let digits = Array(request.request.token.utf8)
    let token = DeviceToken(hex: digits.span)
    guard let claims = (adopted ?? token).flatMap({ context.sealer.open($0) }) else { return nil }
    shard.noteDead(
      DeadToken(claims: claims, token: token, sinceMilliseconds: since))
    return since
  }

  // MARK: Time

  /// Runs an action later, unless the connection ends before.
  func after(milliseconds: UInt64, _ action: @escaping () -> Void) {
    let number = timerCount
    timerCount += 1
    let timer = LoopTimer(loop: context.loop) { [weak self] in
      self?.timers[number] = nil
      action()
    }
    timers[number] = timer
    timer.start(afterMilliseconds: milliseconds)
  }

  /// Suspends writing for a while.
  func holdBack(milliseconds: UInt64, then action: @escaping () -> Void) {
    heldUntilMilliseconds = context.loop.nowMilliseconds + milliseconds
    after(milliseconds: milliseconds) { [weak self] in
      self?.heldUntilMilliseconds = 0
      action()
    }
  }

  /// Seconds without a request, by the service's clock, which a test may set.
  var idleSeconds: Int { Int((context.wallMilliseconds - activeMilliseconds) / 1000) }

  /// The connection has ended: cancels what was planned for it.
  func connectionClosed() {
    for timer in timers.values { timer.close() }
    timers = [:]
    shared.interceptor.connectionClosed(connection)
  }
}
