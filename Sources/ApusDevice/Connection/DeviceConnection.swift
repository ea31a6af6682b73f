package import ApusLoop
package import ApusModel
package import ApusTLS
package import ApusTrust
package import ApusWire

/// A device that stays connected: socket, TLS and courier client, and back again when the connection ends.
///
/// ```
/// idle --start--> resolving --> connecting --> handshaking --> open --> waiting --> resolving ...
/// ```
///
/// Confined to its loop. Keeps no buffer while it is quiet. It lives while somebody holds it, and while its socket is
/// open.
package final class DeviceConnection: SocketHandler {
  package enum Endpoint: Sendable {
    /// To be tried in turn.
    case addresses([SocketAddress])
    /// Looked up anew for each connection.
    case host(String, port: UInt16)
  }

  package struct Configuration: Sendable {
    package var endpoint: Endpoint
    /// The address of this machine to connect from, port 0; nil: the system's choice.
    package var source: SocketAddress?
    /// Says whom the device trusts, who it is, and that it speaks `client.dialect`. May be shared by devices where
    /// the certificate rides in the connect message.
    package var context: TLSContext
    /// Who the device is, where `context` is shared by devices; nil: what that says. Not together with `renewal`.
    package var identity: TLSConnectionIdentity?
    package var client: CourierClient.Configuration
    package var backoff: Backoff.Configuration
    /// Under `CourierALPN.securityV3` only: what to prove the device with. RSA.
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

  /// A certificate that is sent inside the connect message, with its key.
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
    /// Our side is shut; what the service still sends is read and thrown away.
    case lingering
    /// Until it is time to connect again.
    case waiting
  }

  package internal(set) var configuration: Configuration
  /// For the delegate's own use.
  package let tag: Int
  package internal(set) var client: CourierClient
  package internal(set) var stage = Stage.idle
  /// Whether the last handshake resumed an earlier session.
  package internal(set) var isResumed = false
  /// Weak: it usually holds the connection, and a connection may outlive it by its socket.
  weak let delegate: (any DeviceConnectionDelegate)?
  let shared: DeviceLoop

  /// What the device wants, as against `stage`.
  var isWanted = false
  var isInTurn = false
  var isDeferred = false
  /// Frames to be sent with the end of the turn.
  var pending: [UInt8] = []
  var transport: Transport?
  /// Whether TLS has done all that it needs OpenSSL for: the session ticket came before the service's first word.
  var mayCompact = false
  /// Addresses of this attempt that were not tried yet, the next one last.
  var untried: [SocketAddress] = []
  /// Tells the answers of a look-up that was given up from those of the current one.
  var lookup = 0
  var session: TLSSession?
  private var sessionPatience = SessionPatience()
  /// The certificate's renewal; nil where there is none.
  var renewal: Renewal?
  /// Whether the connection was made with an identity that is not the device's any more: its session is not resumed.
  var hasOldIdentity = false
  /// Milliseconds that the next wait has at the least.
  var minimumWaitMilliseconds: UInt64 = 0
  var goodbye: String?
  /// After how long the service that is about to close wants the device back; nil where it did not say.
  var reconnectMilliseconds: UInt64?
  var connectedAtMilliseconds: UInt64?
  /// The service's clock less ours, where it complained.
  var clockOffsetMilliseconds: Int64 = 0
  /// When the stage has lasted too long, or the wait is over.
  var stageDeadline: UInt64?
  private var backoff: Backoff
  private var timer: LoopTimer?
  /// For when the timer is set. It is never moved back: one that fires early looks again.
  private var armedMilliseconds: UInt64?

  /// - Parameter seed: of the jitter. Different for each device.
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

  /// The socket's, for its options; nil while there is none. It stays the connection's.
  package var descriptor: Int32? { transport?.socket.descriptor }

  // MARK: Verbs

  /// Connects, and connects again whenever the connection ends.
  package func start() { shared.turn(self) { isWanted = true } }

  /// Ends the connection, behind everything that was said, and connects no more.
  package func stop() { shared.turn(self) { isWanted = false } }

  package func setTopics(_ topics: CourierTopics) {
    shared.turn(self) { client.setTopics(topics, to: &pending) }
  }

  package func setPower(_ power: PowerState) {
    shared.turn(self) { client.setPower(power, to: &pending) }
  }

  /// Asks for the token of a topic. False where too many such requests wait already.
  package func requestToken(_ topic: TopicHash) -> Bool {
    var isTaken = false
    shared.turn(self) { isTaken = client.requestToken(topic, to: &pending) }
    return isTaken
  }

  /// Says what became of a notification that was held.
  package func acknowledge(
    _ messageID: UInt32, status: CourierAcknowledgement.Status = .taken
  ) {
    shared.turn(self) { client.acknowledge(messageID, status: status, to: &pending) }
  }

  // MARK: Turns

  /// Lends the loop's memory, does `body`, and brings everything that came of it on its way.
  func takeTurn(_ body: () -> Void) {
    isInTurn = true
    let borrows = pending.isEmpty
    if borrows { swap(&pending, &shared.scratch) }
    body()
    followWish()
    sendPending()
    // A write that fails ends the connection, and the delegate that hears of it may wish for something else.
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
    if let armedMilliseconds, armedMilliseconds <= deadline { return }
    armedMilliseconds = deadline
    timer?.start(afterMilliseconds: deadline > now ? deadline - now : 0)
  }

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

  /// The connection, or the attempt at one, is over; the next one comes after a wait.
  func end(_ reason: DeviceDisconnection) {
    guard stage != .idle, stage != .waiting else { return }
    if stage == .lingering { return finishLeaving() }
    let wasGood = connectedAtMilliseconds.map { now - $0 }
    if wasGood != nil { sessionPatience.connected() }
    hangUp(keepsSession: wasGood != nil || sessionPatience.failed(reason))
    let wait = max(
      reconnectMilliseconds.map { backoff.announced(waitMilliseconds: $0) }
        ?? backoff.wait(afterConnectionOf: wasGood), minimumWaitMilliseconds)
    (minimumWaitMilliseconds, reconnectMilliseconds) = (0, nil)
    stage = .waiting
    stageDeadline = now + wait
    let said = goodbye.map { DeviceDisconnection.goodbye(reason: $0) }
    goodbye = nil
    delegate?.deviceConnection(
      self, disconnected: said ?? reason, retryMilliseconds: isWanted ? wait : nil)
  }

  /// Lets the socket go, and keeps what the next connection can use.
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

  /// The device wants no connection: ends the one it has, as far as that was not done yet.
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

  /// Milliseconds that the service has to close after us: what we said last may not have been read before.
  private static let lingerMilliseconds: UInt64 = 2000
}
