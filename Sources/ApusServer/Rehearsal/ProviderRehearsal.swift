import ApusCore
import ApusHTTP2
import ApusLoop
import ApusModel
import ApusTrust

/// A request between its arrival and the word on what became of it.
final class RehearsedRequest {
  let request: ProviderRequest
  let fault: PlannedFault?
  var notes: [String] = []
  var explanation: String?
  /// Under which the ledger has it.
  var id: NotificationID?
  /// Of HTTP/2: one that waits for a time, for somebody's word, or for ever.
  var held: HTTP2Request?
  /// Of the binary interface.
  var frame: RehearsedFrame?
  /// Since when its token is to be dead; nil where nobody planned that.
  var deadSinceMilliseconds: Int64?
  /// Whether there was a word on it: there is one only.
  var isReported = false

  init(_ request: ProviderRequest, _ fault: PlannedFault?) {
    self.request = request
    self.fault = fault
  }

  /// What the fault does; one that the interface has no word for does nothing.
  var effect: PlannedFault.Effect { fault?.effect ?? .none }

  func note(_ text: String) {
    if !notes.contains(text) { notes.append(text) }
  }
}

/// What a rehearsal knows of one connection. Confined to its worker.
final class ProviderRehearsal {
  /// How the connection ends, where a fault decides that.
  enum Ending {
    case none
    /// Once everything that is to be said was said.
    case closed
    /// In the middle of the last answer.
    case cut
    /// Without the last packet.
    case silent
  }

  let desk: RehearsalDesk
  let connection: RehearsedConnection
  private let worker: Worker
  private let slot: Int32
  private let generation: UInt32
  /// By stream, or by the number of the frame.
  private(set) var requests: [UInt32: RehearsedRequest] = [:]
  private var timers: [UInt64: LoopTimer] = [:]
  private var timerCount: UInt64 = 0
  var ending = Ending.none
  /// Above it nothing is processed any more.
  var lastStreamID: Int32?
  /// Nothing is written before that time of the loop's clock.
  private(set) var heldUntilMilliseconds: UInt64 = 0
  /// Unix milliseconds of the service's clock at which a request last came.
  private var activeMilliseconds: Int64
  /// What lenient mode let pass when the connection was opened.
  var connectionNote: String?
  /// The provider token read last: providers send one many times over.
  private var readToken = ReadToken()

  /// What a provider token says of itself.
  struct ReadToken {
    var field: [UInt8] = []
    var credential: String?
    var issuedAtSeconds: Int64?
  }

  init(
    _ desk: RehearsalDesk, _ connection: Connection, _ interface: ProviderInterface,
    credential: String?
  ) {
    self.desk = desk
    worker = connection.worker
    (slot, generation) = (connection.slot, connection.generation)
    activeMilliseconds = worker.wallMilliseconds
    self.connection = RehearsedConnection(
      number: desk.nextConnection(), interface: interface,
      environment: connection.door.environment, peer: connection.peer.description,
      credential: credential)
    desk.rehearsal.connectionOpened(self.connection)
  }

  var isLenient: Bool { desk.rehearsal.isLenient }

  /// Reads the provider token that stands at `range` of an authorization field.
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

  /// Asks what is to go wrong with a request, and keeps it until there is a word on it.
  func begin(_ request: ProviderRequest, _ key: UInt32?) -> RehearsedRequest {
    activeMilliseconds = request.receivedMilliseconds
    let planned = desk.rehearsal.fault(for: request)
    let fault = planned.flatMap { $0.effect.strikes(connection.interface) ? $0 : nil }
    let rehearsed = RehearsedRequest(request, fault)
    if let connectionNote { rehearsed.note(connectionNote) }
    if let key { keep(rehearsed, key) }
    return rehearsed
  }

  func keep(_ request: RehearsedRequest, _ key: UInt32) { requests[key] = request }

  func take(_ key: UInt32) -> RehearsedRequest? { requests.removeValue(forKey: key) }

  /// Passes on what became of a request.
  func report(
    _ request: RehearsedRequest, status: Int, _ change: (inout ProviderExchange) -> Void = { _ in }
  ) {
    guard !request.isReported else { return }
    request.isReported = true
    var exchange = ProviderExchange(
      request: request.request, status: status, answeredMilliseconds: worker.wallMilliseconds)
    exchange.explanation = request.explanation
    exchange.fault = request.fault?.rule
    exchange.notes = request.notes
    change(&exchange)
    desk.rehearsal.answered(exchange)
  }

  /// Asks whose device is meant; the connection is told.
  func adopt(_ request: ProviderRequest, _ key: UInt32) {
    let tell = teller
    desk.rehearsal.adopt(
      request.token, topic: request.topic ?? "", environment: connection.environment
    ) { token in
      tell { $0.adopted(token, key) }
    }
  }

  /// Lets happen what a fault wants first; the connection is told.
  func prepare(_ request: ProviderRequest, _ key: UInt32) {
    let tell = teller
    desk.rehearsal.prepare(request) { tell { $0.prepared(key) } }
  }

  /// Tells the connection something, from any thread, unless it is gone by then.
  private var teller: @Sendable (@escaping @Sendable (Connection) -> Void) -> Void {
    { [worker, slot, generation] tell in
      worker.loop.perform {
        if let connection = worker.connection(slot: slot, generation: generation) {
          tell(connection)
        }
      }
    }
  }

  /// Puts a request's token into the feedback list where it is to be dead, as it was sent, and says since when.
  ///
  /// - Parameter adopted: What it stands for, where the service did not make it.
  /// - Returns: Nil where that was not planned, or the token is nobody's.
  func listDead(_ request: RehearsedRequest, adopted: DeviceToken?) -> Int64? {
    guard let since = request.deadSinceMilliseconds else { return nil }
    let digits = Array(request.request.token.utf8)
    let token = DeviceToken(hex: digits.span)
    guard let claims = (adopted ?? token).flatMap({ worker.sealer.open($0) }) else { return nil }
    worker.shard.shard.deadTokens.append(
      DeadToken(claims: claims, token: token, sinceMilliseconds: since))
    return since
  }

  // MARK: Time

  /// Does something later, unless the connection ends before.
  func after(milliseconds: UInt64, _ action: @escaping () -> Void) {
    let number = timerCount
    timerCount += 1
    let timer = LoopTimer(loop: worker.loop) { [weak self] in
      self?.timers[number] = nil
      action()
    }
    timers[number] = timer
    timer.start(afterMilliseconds: milliseconds)
  }

  /// Writes nothing for a while.
  func holdBack(milliseconds: UInt64, then action: @escaping () -> Void) {
    heldUntilMilliseconds = worker.loop.nowMilliseconds + milliseconds
    after(milliseconds: milliseconds) { [weak self] in
      self?.heldUntilMilliseconds = 0
      action()
    }
  }

  /// Seconds without a request, by the clock that a test may set.
  var idleSeconds: Int { Int((worker.wallMilliseconds - activeMilliseconds) / 1000) }

  /// The connection is gone: what was to happen on it does not.
  func connectionClosed() {
    for timer in timers.values { timer.close() }
    timers = [:]
    desk.rehearsal.connectionClosed(connection)
  }
}
