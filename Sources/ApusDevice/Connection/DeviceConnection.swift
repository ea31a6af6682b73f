import ApusLoop
package import ApusModel
import ApusTLS
import ApusTrust
package import ApusWire
import Glibc

/// A device that stays connected: socket, TLS and courier client, reconnecting whenever the connection ends.
///
/// ```
/// idle --start--> resolving --> connecting --> handshaking --> open --> waiting --> resolving ...
/// ```
///
/// Confined to its loop. Holds no buffer while it is idle. It lives as long as it is referenced or its socket is open.
package final class DeviceConnection: SocketHandler {
  package enum Stage: Sendable, Hashable {
    case idle
    case resolving
    case connecting
    case handshaking
    case open
    /// Our side is shut down; further data from the service is read and discarded.
    case lingering
    /// Waits until it is time to reconnect; after a final reason, until it is started or stopped.
    case waiting
  }

  package internal(set) var configuration: Configuration
  /// For the delegate's use.
  package let tag: Int
  package internal(set) var client: CourierClient
  package internal(set) var stage = Stage.idle
  /// Whether the last handshake resumed an earlier session.
  package internal(set) var isResumed = false
  /// Weak, since the delegate usually holds the connection; an open socket can keep the connection alive after it.
  weak let delegate: (any DeviceConnectionDelegate)?
  let shared: DeviceLoop

  /// Whether the device should be connected; `stage` is the current state.
  var isWanted = false
  var isInTurn = false
  /// Whether the open keep-alive asks if the connection survived something: without an answer there is no wait.
  var isVerifying = false
  var isDeferred = false
  /// Frames to send at the end of the turn.
  var pending: [UInt8] = []
  var transport: Transport?
  /// Whether TLS no longer needs OpenSSL: the session ticket came before the service's first message.
  var mayCompact = false
  /// The untried addresses of this attempt, the next one last.
  var untried: [SocketAddress] = []
  /// Distinguishes the answers of abandoned look-ups from the current one.
  var lookup = 0
  private var rotation: AddressRotation
  /// Whether the end that is being reported is followed at once by another attempt, because addresses are left.
  package private(set) var connectsAtOnce = false
  /// The address that the service named last as the better one; nil if it named none.
  private var hint: Alternative?
  private var hintText: String?
  /// A session of the address at `sessionIndex`.
  var session: TLSSession?
  /// As `addressIndex`; nil for that of the hint.
  private var sessionIndex: Int? = 0
  private var sessionPatience = SessionPatience()
  /// The renewal of the certificate; nil without one.
  var renewal: Renewal?
  /// Whether the connection uses an outdated identity: its session is not resumed.
  var hasOldIdentity = false
  /// Lower bound of the next wait in milliseconds.
  var minimumWaitMilliseconds: UInt64 = 0
  var goodbye: String?
  /// Milliseconds after which the closing service wants the device back; nil if it did not say.
  var reconnectMilliseconds: UInt64?
  var connectedAtMilliseconds: UInt64?
  /// How long the service had been silent when the keep-alive was sent for which the last connection ended; nil if that
  /// ended for another reason.
  package private(set) var lostAfterMilliseconds: UInt64?
  /// The service's clock minus ours, if the service reported a difference.
  var clockOffsetMilliseconds: Int64 = 0
  /// When the stage times out, or the wait ends.
  var stageDeadline: UInt64?
  private var backoff: Backoff
  private var timer: LoopTimer?
  /// When the timer fires. It is seldom postponed: a timer that fires early checks again.
  private var armedMilliseconds: UInt64?

  /// - Parameter seed: For the jitter. Different for each device.
  package init(
    shared: DeviceLoop, configuration: Configuration, baseToken: DeviceToken? = nil, tag: Int = 0,
    seed: UInt64, delegate: any DeviceConnectionDelegate
  ) {
    self.shared = shared
    self.configuration = configuration
    self.tag = tag
    self.delegate = delegate
    client = CourierClient(configuration: configuration.client, baseToken: baseToken)
    renewal = configuration.renewal.map { Renewal($0, seed: seed) }
    backoff = Backoff(configuration: configuration.backoff, seed: seed)
    rotation = AddressRotation(count: 1 + configuration.alternatives.count)
    timer = LoopTimer(loop: shared.loop) { [unowned self] in timerFired() }
  }

  var now: UInt64 { shared.loop.nowMilliseconds }

  /// The place of the address that is connected or tried next: 0 for `endpoint`, then the alternatives. With the hint
  /// of one of them, the place of that one.
  package var addressIndex: Int { rotation.current }

  /// The address, as HOST:PORT, if it is the one that the service named; nil at a configured one.
  package var hintedAddress: String? { rotation.isAtHint ? hintText : nil }

  var endpoint: Endpoint { alternative?.endpoint ?? configuration.endpoint }

  /// The alternative at the current address; nil at `configuration.endpoint`.
  var alternative: Alternative? {
    if rotation.isAtHint { return hint }
    return addressIndex == 0 ? nil : configuration.alternatives[addressIndex - 1]
  }

  private var currentIndex: Int? { rotation.isAtHint ? nil : addressIndex }

  /// The session to resume at the current address.
  var offeredSession: TLSSession? { sessionIndex == currentIndex ? session : nil }

  /// The service has accepted the device, and named a better address, as HOST:PORT; empty for none.
  ///
  /// Its certificate must contain the name that counts here: the service is the same.
  func follow(_ place: String) {
    if let address = DeviceAddress(place) {
      hint = Alternative(
        endpoint: .host(address.host, port: address.port), serverName: alternative?.serverName)
      hintText = place
      rotation.hinted()
    } else if !rotation.isAtHint {
      hint = nil
      rotation.forgetHint()
    }
  }

  /// The service accepted or refused the device, or answered its request for a certificate.
  func addressAnswered() { rotation.answered() }

  /// The socket's descriptor, for its options; nil without a socket. The connection keeps ownership.
  package var descriptor: Int32? { transport?.socket.descriptor }

  // MARK: Operations

  /// Connects, and reconnects whenever the connection ends, until `stop()` or a final reason such as the device's
  /// retirement; then it can be started again.
  package func start() {
    shared.turn(self) {
      isWanted = true
      if stage == .waiting, stageDeadline == nil { attempt() }
    }
  }

  /// Ends the connection after all pending output, and does not reconnect.
  package func stop() { shared.turn(self) { isWanted = false } }

  package func setTopics(_ topics: CourierTopics) {
    shared.turn(self) { client.setTopics(topics, to: &pending) }
  }

  package func setPower(_ power: PowerState) {
    shared.turn(self) { client.setPower(power, to: &pending) }
  }

  /// Requests the token of a topic. False if too many requests are pending.
  package func requestToken(_ topic: TopicHash) -> Bool {
    var isTaken = false
    shared.turn(self) { isTaken = client.requestToken(topic, to: &pending) }
    return isTaken
  }

  /// Requests a change of the device's subscriptions to channels. Nil if too many requests are pending, else the index
  /// of the confirmation.
  package func subscribe(_ change: CourierSubscriptions) -> UInt32? {
    var index: UInt32?
    shared.turn(self) { index = client.subscribe(change, to: &pending) }
    return index
  }

  /// Acknowledges a notification that was held.
  package func acknowledge(
    _ messageID: UInt32, status: CourierAcknowledgement.Status = .taken
  ) {
    shared.turn(self) { client.acknowledge(messageID, status: status, to: &pending) }
  }

  // MARK: Turns

  /// Lends the loop's memory, runs `body`, and sends the resulting output.
  func takeTurn(_ body: () -> Void) {
    isInTurn = true
    let borrows = pending.isEmpty
    if borrows { swap(&pending, &shared.scratch) }
    body()
    followWish()
    sendPending()
    // A failed write ends the connection, and the delegate may then start or stop it.
    followWish()
    if borrows { swap(&pending, &shared.scratch) } else { pending = [] }
    isInTurn = false
    arm()
  }

  private func followWish() {
    if !isWanted { leave() }
    if isWanted, stage == .idle { attempt() }
  }

  private func arm() {
    guard let deadline = deadlineMilliseconds else { return }
    if let armedMilliseconds, armedMilliseconds <= deadline,
      deadline < armedMilliseconds + Self.needlessWakeMilliseconds
    {
      return
    }
    armedMilliseconds = deadline
    timer?.start(afterMilliseconds: deadline > now ? deadline - now : 0)
  }

  /// Milliseconds by which a timer would have to fire too early to be postponed.
  private static let needlessWakeMilliseconds: UInt64 = 5000

  private var deadlineMilliseconds: UInt64? {
    guard stage == .open else { return stageDeadline }
    let deadlines = [
      transport?.stallDeadline, client.deadlineMilliseconds,
      client.isConnected ? renewal?.schedule.dueMilliseconds : nil,
    ]
    return deadlines.compactMap(\.self).min()
  }

  private func timerFired() {
    armedMilliseconds = nil
    shared.turn(self) { timePassed() }
  }

  private func timePassed() {
    guard let deadline = deadlineMilliseconds, deadline <= now else { return }
    switch stage {
    case .idle, .resolving: break
    case .connecting: addressFailed(.timedOut)
    case .handshaking: end(.timedOut)
    case .open:
      if let stall = transport?.stallDeadline, stall <= now { return end(.timedOut) }
      if let event = client.timePassed(nowMilliseconds: now, to: &pending) { handle(event) }
      renewIfDue()
    case .lingering: finishLeaving()
    case .waiting: attempt()
    }
  }

  // MARK: The end of a connection

  /// The connection or attempt has ended; the next one follows after a wait, unless waiting does not help.
  func end(_ reason: DeviceDisconnection) {
    guard stage != .idle, stage != .waiting else { return }
    if stage == .lingering { return finishLeaving() }
    let isFinal = reason.isFinal(afterHandshake: stage == .open)
    let wasGood = connectedAtMilliseconds.map { now - $0 }
    lostAfterMilliseconds = client.unansweredSilenceMilliseconds
    if wasGood != nil { sessionPatience.connected() }
    hangUp(keepsSession: wasGood != nil || sessionPatience.failed(reason))
    let isExpected = isVerifying && wasGood != nil
    let step = nextStep(after: reason, connectedMilliseconds: wasGood, isFinal: isFinal)
    let longWait = step == .wait ? nextWait(connectedMilliseconds: wasGood) : 0
    let wait: UInt64? = isFinal ? nil : isExpected ? 0 : longWait
    (minimumWaitMilliseconds, reconnectMilliseconds) = (0, nil)
    isVerifying = false
    stage = .waiting
    stageDeadline = wait.map { now + $0 }
    let said = goodbye.map { DeviceDisconnection.goodbye(reason: $0) }
    goodbye = nil
    connectsAtOnce = step == .connect
    delegate?.deviceConnection(
      self, disconnected: said ?? reason, retryMilliseconds: isWanted ? wait : nil)
    connectsAtOnce = false
  }

  /// The address of the next attempt, and whether it is tried at once.
  private func nextStep(
    after reason: DeviceDisconnection, connectedMilliseconds: UInt64?, isFinal: Bool
  ) -> AddressRotation.Step {
    // A goodbye and the answer to an enrolment say when to come back.
    let isAwaited = goodbye != nil || minimumWaitMilliseconds > 0
    guard reason.concernsAddress, !isFinal, !isAwaited, !isVerifying else {
      rotation.restart()
      return .wait
    }
    let isSteady = backoff.isSteady(connectedMilliseconds)
    if isSteady { backoff.reset() }
    return isSteady && lostAfterMilliseconds != nil
      ? rotation.fellSilent() : rotation.failed(wasSteady: isSteady)
  }

  private func nextWait(connectedMilliseconds: UInt64?) -> UInt64 {
    let announced = reconnectMilliseconds.map { backoff.announced(waitMilliseconds: $0) }
    return max(
      announced ?? backoff.wait(afterConnectionOf: connectedMilliseconds), minimumWaitMilliseconds)
  }

  /// Ends the connection or the attempt, and the wait after it, and connects; not after a final reason.
  func connectAnew() {
    if stage == .waiting, stageDeadline == nil { return }
    // What failed before was another network: the next waits are short again.
    backoff.reset()
    isVerifying = true
    if stage == .waiting {
      stageDeadline = nil
      rotation.restart()
    } else {
      end(.transport(ENETRESET))
    }
    isVerifying = false
    guard isWanted, stage == .waiting else { return }
    attempt()
  }

  /// Releases the socket, and keeps what the next connection can use.
  private func hangUp(keepsSession: Bool) {
    if let transport {
      keepSession(of: transport, isUsable: keepsSession)
      transport.close(shared.tlsBuffers)
    }
    transport = nil
    mayCompact = false
    connectedAtMilliseconds = nil
    stageDeadline = nil
    hasOldIdentity = false
    renewal?.schedule.disconnected()
    untried = []
    pending.removeAll(keepingCapacity: true)
    client.disconnected()
  }

  private func keepSession(of transport: Transport, isUsable: Bool) {
    if hasOldIdentity {
      session = nil
    } else if isUsable, let new = transport.tls.session {
      (session, sessionIndex) = (new, currentIndex)
    } else if !isUsable, sessionIndex == currentIndex {
      session = nil
    }
  }

  /// The device wants no connection: ends the existing one, unless that is already in progress.
  private func leave() {
    switch stage {
    case .idle, .lingering: return
    case .resolving, .connecting, .handshaking: hangUp(keepsSession: true)
    case .waiting: stageDeadline = nil
    case .open:
      sendPending()
      guard stage == .open, let transport else { return }
      keepSession(of: transport, isUsable: true)
      stage = .lingering
      stageDeadline = now + Self.lingerMilliseconds
      transport.shut(shared.tlsBuffers)
      return
    }
    finishLeaving()
  }

  private func finishLeaving() {
    hangUp(keepsSession: true)
    lookup += 1
    rotation.restart()
    stage = .idle
    (goodbye, reconnectMilliseconds) = (nil, nil)
    delegate?.deviceConnection(self, disconnected: .stopped, retryMilliseconds: nil)
  }

  /// Milliseconds for the service to close after us, since it may not have read our last output before.
  private static let lingerMilliseconds: UInt64 = 2000
}
