import ApusAdmin
import ApusCore
import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusTLS
import ApusTrust
import ApusWire

/// A device on the courier: frames in, frames out.
///
/// ```
/// awaiting connect --connect--> awaiting filter --filter--> serving
/// ```
///
/// The first part runs where the socket was accepted; the connect message tells whose device it is, and the
/// connection goes on at the worker that owns it.
final class CourierConnection: ConnectionDriver {
  enum Stage {
    case awaitingConnect
    /// A device without a certificate has asked for one; see `issuing`.
    case enrolling
    /// The device is known; the connection moves to its owner when the turn ends.
    case handingOver
    case awaitingFilter
    case serving
    case over
  }

  enum StopReason: String {
    case serviceStops = "the service is shutting down"
    case renewed = "the device has a newer certificate"
  }

  let shard: ShardDriver
  let dialect: CourierALPN
  var stage = Stage.awaitingConnect
  var framer = CourierFramer()
  var device: Device?
  /// By what the device's certificate is judged again.
  var certificate: CertificateStanding?
  /// The certificate of the handshake; nil where there was none.
  var presented: PresentedCertificate?
  var baseToken = DeviceToken(words: (0, 0, 0, 0))
  /// Frames that wait to be sent with the turn's end.
  var output: [UInt8] = []
  /// Answers that wait for the device's record to be durable.
  var tokenAnswers: [(version: UInt64, answer: CourierAppTokenAnswer)] = []
  var idleSeconds = UInt64(Limits.courierIdleSeconds)
  var lastFrameSeconds: UInt64
  /// Since when something has waited for its acknowledgement.
  var waitingSinceSeconds: UInt64?
  var keepAlives = RateLimit.Bucket()
  /// Frames that were skipped: of unknown commands, or with another connection's token.
  var skippedFrames = 0
  /// What is known between the connect message and the hand-over.
  var arrival: HandedOverDevice?
  /// Why the connection ends soon; nil while it does not.
  var stopReason: StopReason?
  var isStopping: Bool { stopReason != nil }
  /// Which generation of devices' authorities its certificate was last held against.
  var authorityGeneration: UInt32 = 0
  /// The request for a certificate; nil before there is one.
  var issuing: CertificateIssuing?
  /// Broadcasts that wait for their acknowledgement.
  var sentBroadcasts: [Subscriptions.Sent] = []
  /// Whether a broadcast may be due.
  var looksForBroadcasts = true
  /// Whether something was heard of the device, or is sent to it, in this turn.
  var radioIsInUse = false
  /// Changes of subscriptions that wait for the store.
  var openChanges = 0
  /// Nil unless another node has served the connection.
  var earlyAnswers: EarlyAnswers?

  /// A keep-alive a second, and a burst of ten: clients send one each 5 seconds at the most.
  static let keepAliveLimit = RateLimit(capacity: 10, refill: 1)

  // MARK: Beginning

  /// Takes up a connection after its handshake; nil where its protocol demands a certificate and none came. In our own
  /// dialect a device without one may ask for it.
  init?(_ connection: Connection, _ shard: ShardDriver) {
    self.shard = shard
    lastFrameSeconds = connection.context.nowSeconds
    guard let dialect = connection.courierDialect else { return nil }
    self.dialect = dialect
    if dialect == .securityV2, connection.tls.peerCertificateDER == nil {
      connection.logLimited(.notice, .deviceWithoutCertificate) {
        [.text("peer", connection.peer.description)]
      }
      return nil
    }
    super.init(connection)
    connection.schedule.deadlineSeconds = lastFrameSeconds + UInt64(Limits.courierConnectSeconds)
  }

  /// Goes on with a connection that another worker accepted.
  init(_ connection: Connection, _ shard: ShardDriver, resuming handed: HandedOverDevice) {
    self.shard = shard
    lastFrameSeconds = connection.context.nowSeconds
    dialect = handed.dialect
    framer = handed.framer
    super.init(connection)
    begin(handed.identity, presentedToken: handed.presentedToken)
    connection.schedule.deadlineSeconds = lastFrameSeconds + UInt64(Limits.courierFilterSeconds)
  }

  /// Goes on with a connection that another node served.
  init?(_ connection: Connection, _ shard: ShardDriver, resuming resumed: ResumedDevice) {
    self.shard = shard
    lastFrameSeconds = connection.context.nowSeconds
    guard let dialect = connection.courierDialect else { return nil }
    self.dialect = dialect
    super.init(connection)
    resume(resumed)
  }

  /// Goes on with a connection that was dormant.
  init(
    _ connection: Connection, _ shard: ShardDriver, waking row: borrowing DormantRow,
    device: Device
  ) {
    self.shard = shard
    self.device = device
    stage = .serving
    dialect = row.dialect
    certificate = row.certificate
    presented = row.presented
    baseToken = row.baseToken
    idleSeconds = UInt64(row.idleSeconds)
    lastFrameSeconds = UInt64(row.lastFrameSeconds)
    skippedFrames = Int(row.skippedFrames)
    authorityGeneration = row.authorityGeneration
    issuing = row.rest?.issuing
    super.init(connection)
  }

  /// What a row keeps of a connection that falls dormant.
  var quiet: QuietConnection {
    QuietConnection(
      tls: connection.tls, peer: connection.peer,
      acceptedMilliseconds: connection.acceptedMilliseconds,
      watchedSeconds: connection.schedule.watchedSeconds, dialect: dialect,
      lastFrameSeconds: lastFrameSeconds, idleSeconds: idleSeconds, skippedFrames: skippedFrames,
      authorityGeneration: authorityGeneration, baseToken: baseToken, certificate: certificate,
      presented: presented, issuing: issuing)
  }

  /// Whether everything the device has asked for is answered.
  var isSettled: Bool {
    stage == .serving && tokenAnswers.isEmpty && openChanges == 0 && issuing?.isAsked != true
  }

  /// Whether nothing is pending in the protocol.
  func isQuiet(atMilliseconds now: Int64) -> Bool {
    isSettled && !isStopping && arrival == nil && framer.partialBytes == 0 && output.isEmpty
      && keepAlives.isFull(atMilliseconds: now) && issuing?.held == nil && sentBroadcasts.isEmpty
  }

  // MARK: Frames in

  override func receive(_ bytes: UnsafeRawBufferPointer) {
    guard stage != .over, unsafe !bytes.isEmpty else { return }
    let input = unsafe Span<UInt8>(_unsafeBytes: bytes)
    lastFrameSeconds = context.nowSeconds
    guard stage != .enrolling else { return }
    // The rest of what arrived with the connect message is the owner's to read.
    guard stage != .handingOver else {
      arrival?.unread.append(input)
      return
    }
    var offset = 0
    do throws(CourierFault) {
      while stage != .over, let frame = try framer.next(input, at: &offset) {
        let fields = frame.fields(in: input)
        guard stage != .awaitingConnect else {
          try connect(frame.command, fields)
          if stage == .handingOver { arrival?.unread.append(input.extracting(offset...)) }
          return
        }
        try handle(frame.command, fields)
      }
    } catch {
      fail(error)
    }
  }

  func fail(_ fault: CourierFault) {
    context.ended.count(.brokenProtocol)
    connection.logLimited(.notice, .deviceBrokeProtocol) {
      [.text("peer", connection.peer.description)] + context.fields(of: device?.key.id)
        + [.text("fault", fault.description)]
    }
    end(reason: fault.description)
  }

  func handle(_ command: UInt8, _ fields: Span<UInt8>) throws(CourierFault) {
    guard let device, let command = CourierCommand(rawValue: command) else {
      skippedFrames += 1
      return
    }
    switch command {
    case .connect: refuseSecondConnect()
    case .filter:
      if filter(try CourierFilter(decoding: fields), device) {
        connection.linked?.keep(.filter, fields)
      }
    case .acknowledgement:
      let acknowledgement = try CourierAcknowledgement(decoding: fields)
      if acknowledgeBroadcast(acknowledgement) || isEarly(acknowledgement, device) { break }
      shard.acknowledge(
        device, messageID: acknowledgement.messageID, status: acknowledgement.status.rawValue)
    case .keepAlive: try keepAlive(CourierKeepAlive(decoding: fields), device)
    case .appTokenRequest: try appToken(CourierAppTokenRequest(decoding: fields), device)
    case .setState:
      shard.setPower(try CourierSetState(decoding: fields).state, device)
      looksForBroadcasts = true
      keepSession()
    case .channel: subscribe(try CourierChannelRequest(decoding: fields), device)
    case .setActiveInterval: _ = try CourierSetActiveInterval(decoding: fields)
    case .flush: try CourierFlush(decoding: fields).encodeAnswer(to: &output)
    case .notification: try message(fields)
    case .renewalRequest where dialect.allowsExtensions:
      renew(try CourierRenewalRequest(decoding: fields), device)
    case .connectResponse, .keepAliveAnswer, .noStorage, .flushAnswer, .appTokenAnswer,
      .goodbye, .enrolmentRequest, .enrolmentAnswer, .renewalRequest, .renewalAnswer,
      .renewalAdvice:
      skippedFrames += 1
    }
    if authorityGeneration != context.authorityGeneration { adviseRenewal() }
    endIfDrained()
    connection.markDirty()
  }

  // MARK: Frames out

  /// Sends what the session lets go, as far as the socket takes it.
  override func flush() -> Connection.Ending {
    // A quiet device holds no buffer: frames are put together in the worker's, unless some wait already.
    let borrows = output.isEmpty
    if borrows { swap(&output, &context.frameScratch) }
    answerTokenRequests()
    if let device { applyEarlyAnswers(device) }
    while connection.mayWrite, !shard.isGathering, stopReason != .serviceStops, let device,
      let delivery = shard.nextToSend(device)
    {
      encode(delivery)
      (radioIsInUse, looksForBroadcasts) = (true, true)
      if output.count >= TLSBuffers.recordBytes { sendOutput() }
    }
    if looksForBroadcasts, stopReason != .serviceStops, let device { sendBroadcasts(device) }
    radioIsInUse = false
    sendOutput()
    if borrows { swap(&output, &context.frameScratch) } else { output = [] }
    if let device { shard.continueDrain(device) }
    if let linked = connection.linked, isSettled {
      linked.handled(exceptLast: framer.partialBytes)
    }
    setDeadline()
    return .none
  }

  func sendOutput() {
    guard !output.isEmpty else { return }
    connection.encrypt(output, count: output.count)
    output.removeAll(keepingCapacity: true)
  }

  func answerTokenRequests() {
    guard let device, !tokenAnswers.isEmpty else { return }
    while let first = tokenAnswers.first, first.version <= device.durableRecordVersion {
      first.answer.encode(to: &output)
      tokenAnswers.removeFirst()
    }
    // An empty array would keep its memory.
    if tokenAnswers.isEmpty { tokenAnswers = [] }
  }

  func encode(_ delivery: Delivery) {
    let notification = delivery.notification
    if let answer = earlyAnswers?.take(notification.messageID), let device {
      return shard.acknowledge(
        device, messageID: notification.messageID, status: answer.rawValue)
    }
    guard let topic = context.trust.directory.topicHash(of: notification.claims.topic) else {
      // The app was taken out of the directory. What waits for it ends here, as if the device had answered.
      if let device {
        shard.acknowledge(device, messageID: notification.messageID, status: 2)
      }
      return
    }
    let flags = CourierNotification.StorageFlags(
      isFromStorage: notification.isFromStorage, isLast: delivery.isLastFromStorage,
      mayBeRepeated: notification.mayBeRepeated)
    let expiry = notification.expirationSeconds
    let payload = notification.payload
    let collapseID = notification.collapseID
    CourierNotification(
      token: notification.token, topic: topic, messageID: notification.messageID,
      expirySeconds: expiry > 0 ? UInt32(clamping: min(expiry, Int64(UInt32.max) - 1)) : nil,
      sentNanoseconds: UInt64(max(0, notification.acceptedMilliseconds)) * 1_000_000,
      storage: flags, priority: notification.priority, id: notification.id,
      pushType: notification.pushType
    ).encode(
      payload: payload.span, collapseID: collapseID.span, extensions: dialect.allowsExtensions,
      to: &output)
    shard.noteSent(notification)
  }

  // MARK: Time and the end

  override func deadlineReached() {
    switch stage {
    case .awaitingConnect:
      if !isStopping { context.ended.count(.untrustedTime) }
      end(reason: stopReason?.rawValue ?? "no connect message in time")
    case .enrolling: enrolmentDeadlineReached()
    case .awaitingFilter: end(reason: stopReason?.rawValue ?? "no filter in time")
    case .serving:
      if let stopReason { return endStopped(stopReason) }
      if let certificate, context.certificateSeconds > certificate.notAfter {
        return end(because: .expired)
      }
      if let device { shard.deadlineReached(device) }
      setDeadline()
      if silenceSeconds <= context.nowSeconds {
        end(reason: "the device was silent for too long")
      }
    case .handingOver: return
    case .over: connection.close()
    }
  }

  /// The service stops: nothing more is sent, and the device has a moment to acknowledge what it was sent. What it has
  /// shown would else be sent again by the next service.
  override func drain() {
    guard stage != .over else { return }
    stopReason = .serviceStops
    endIfDrained()
    guard stage != .over else { return }
    connection.schedule.deadlineSeconds = context.nowSeconds + Limits.drainAcknowledgeSeconds
    connection.watch()
  }

  /// What connections are judged by was replaced, or the clock jumped: a certificate that was good at the handshake may
  /// be so no longer.
  override func trustChanged(hasLostAuthority: Bool) {
    guard stage != .over, let certificate else { return }
    if let fault = certificate.fault(
      context.trust, hasLostAuthority: hasLostAuthority, nowSeconds: context.certificateSeconds)
    {
      return end(because: fault)
    }
    setDeadline()
  }

  override func connectionClosed(_ end: Connection.End) {
    leaveShard()
    stage = .over
  }

  /// Gives the device up to the worker that owns it.
  override func leave() -> any HandedOverState {
    guard let arrival else {
      preconditionFailure("a connection was handed over before its device was known")
    }
    stage = .over
    arrival.framer = framer
    return arrival
  }
}
