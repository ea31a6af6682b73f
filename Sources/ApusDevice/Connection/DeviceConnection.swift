package import ApusLoop
package import ApusModel
package import ApusTLS
package import ApusTrust
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
  package enum Endpoint: Sendable {
    /// Tried in order.
    case addresses([SocketAddress])
    /// Resolved for each connection.
    case host(String, port: UInt16)
  }

  package struct Configuration: Sendable {
    package var endpoint: Endpoint
    /// The local address to connect from, with port 0; nil: the system chooses.
    package var source: SocketAddress?
    /// The trusted authorities, the identity, and the ALPN of `client.dialect`. Devices may share it if their
    /// certificate is sent in the connect message.
    package var context: TLSContext
    /// The device's identity, if devices share `context`; nil: that of `context`. Not together with `renewal`.
    package var identity: TLSConnectionIdentity?
    package var client: CourierClient.Configuration
    package var backoff: Backoff.Configuration
    /// Only with `CourierALPN.securityV3`: the identity for the connect message. RSA.
    package var inBandIdentity: InBandIdentity?
    /// Nil: the device's certificate is not renewed.
    package var renewal: RenewalPlan?

    package init(
      endpoint: Endpoint, source: SocketAddress? = nil, context: TLSContext,
      identity: TLSConnectionIdentity? = nil,
      client: CourierClient.Configuration = CourierClient.Configuration(),
      backoff: Backoff.Configuration = Backoff.Configuration(),
      inBandIdentity: InBandIdentity? = nil, renewal: RenewalPlan? = nil
    ) {
      self.endpoint = endpoint
      self.source = source
      self.context = context
      self.identity = identity
      self.client = client
      self.backoff = backoff
      self.inBandIdentity = inBandIdentity
      self.renewal = renewal
    }
  }

  /// A certificate with its key, sent in the connect message.
  package struct InBandIdentity: Sendable {
    package var certificateDER: [UInt8]
    package var key: PrivateKey

    package init(certificateDER: [UInt8], key: PrivateKey) {
      self.certificateDER = certificateDER
      self.key = key
    }
  }

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
  var session: TLSSession?
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
    timer = LoopTimer(loop: shared.loop) { [unowned self] in timerFired() }
  }

  var now: UInt64 { shared.loop.nowMilliseconds }

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
    let announced = reconnectMilliseconds.map { backoff.announced(waitMilliseconds: $0) }
    let longWait = max(
      announced ?? backoff.wait(afterConnectionOf: wasGood), minimumWaitMilliseconds)
    (minimumWaitMilliseconds, reconnectMilliseconds) = (0, nil)
    let isExpected = isVerifying && wasGood != nil
    isVerifying = false
    let wait: UInt64? = isFinal ? nil : isExpected ? 0 : longWait
    stage = .waiting
    stageDeadline = wait.map { now + $0 }
    let said = goodbye.map { DeviceDisconnection.goodbye(reason: $0) }
    goodbye = nil
    delegate?.deviceConnection(
      self, disconnected: said ?? reason, retryMilliseconds: isWanted ? wait : nil)
  }

  /// Ends the connection or the attempt, and the wait after it, and connects; not after a final reason.
  func connectAnew() {
    if stage == .waiting, stageDeadline == nil { return }
    // What failed before was another network: the next waits are short again.
    _ = backoff.announced(waitMilliseconds: 0)
    isVerifying = true
    if stage == .waiting { stageDeadline = nil } else { end(.transport(ENETRESET)) }
    isVerifying = false
    guard isWanted, stage == .waiting else { return }
    attempt()
  }

  /// Releases the socket, and keeps what the next connection can use.
  private func hangUp(keepsSession: Bool) {
    if let transport {
      session = keepsSession && !hasOldIdentity ? transport.tls.session ?? session : nil
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

  /// The device wants no connection: ends the existing one, unless that is already in progress.
  private func leave() {
    switch stage {
    case .idle, .lingering: return
    case .resolving, .connecting, .handshaking: hangUp(keepsSession: true)
    case .waiting: stageDeadline = nil
    case .open:
      sendPending()
      guard stage == .open, let transport else { return }
      session = hasOldIdentity ? nil : transport.tls.session ?? session
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
    stage = .idle
    (goodbye, reconnectMilliseconds) = (nil, nil)
    delegate?.deviceConnection(self, disconnected: .stopped, retryMilliseconds: nil)
  }

  /// Milliseconds for the service to close after us, since it may not have read our last output before.
  private static let lingerMilliseconds: UInt64 = 2000
}
