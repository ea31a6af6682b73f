import ApusCore
import ApusLoop
import ApusModel
import ApusTLS
import ApusTrust
import ApusWire

/// A device's connection on its way from the worker that accepted it to the one that owns the device.
///
/// It is given up by the one before the other has it, so no two threads ever hold it.
final class HandedOverDevice: @unchecked Sendable {
  let door: Door
  let descriptor: Int32
  let peer: SocketAddress
  let tls: TLSConnection
  let dialect: CourierALPN
  let identity: DeviceIdentity
  let presentedToken: DeviceToken?
  let framer: CourierFramer
  /// What came behind the connect message.
  let rest: [UInt8]

  init(
    door: Door, descriptor: Int32, peer: SocketAddress, tls: TLSConnection, dialect: CourierALPN,
    identity: DeviceIdentity, presentedToken: DeviceToken?, framer: CourierFramer, rest: [UInt8]
  ) {
    self.door = door
    self.descriptor = descriptor
    self.peer = peer
    self.tls = tls
    self.dialect = dialect
    self.identity = identity
    self.presentedToken = presentedToken
    self.framer = framer
    self.rest = rest
  }
}

/// A device on the courier: frames in, frames out.
///
/// ```
/// awaiting connect --connect--> awaiting filter --filter--> serving
/// ```
///
/// The first part runs on the worker that accepted the socket; the connect message tells whose device it is, and the
/// connection goes on at the worker that owns it.
final class CourierConnection {
  private enum Stage {
    case awaitingConnect
    case awaitingFilter
    case serving
    case over
  }

  private unowned let connection: Connection
  private unowned let worker: Worker
  private let dialect: CourierALPN
  private var stage = Stage.awaitingConnect
  private var framer = CourierFramer()
  private var device: Device?
  private var baseToken = DeviceToken(words: (0, 0, 0, 0))
  /// Frames that wait to be sent with the turn's end.
  private var output: [UInt8] = []
  /// Answers that wait for the device's record to be durable.
  private var tokenAnswers: [(version: UInt64, answer: CourierAppTokenAnswer)] = []
  private var idleSeconds = UInt64(Limits.courierIdleSeconds)
  private var lastFrameSeconds: UInt64
  private var keepAlives = RateLimit.Bucket()
  /// Frames that were skipped: of unknown commands, or with another connection's token.
  private(set) var skippedFrames = 0
  private var isStopping = false

  private static let drainSpreadSeconds: UInt64 = 5
  private static let stopReason = "the service stops"

  /// A keep-alive a second, and a burst of ten: clients send one each 5 seconds at the most.
  private static let keepAliveLimit = RateLimit(capacity: 10, refill: 1)

  // MARK: Beginning

  /// Takes up a connection after its handshake; nil where its protocol demands a certificate and none came.
  init?(_ connection: Connection) {
    self.connection = connection
    worker = connection.worker
    lastFrameSeconds = connection.worker.nowSeconds
    guard let name = connection.tls.negotiatedProtocol,
      let dialect = CourierALPN(Array(name.utf8).span)
    else { return nil }
    self.dialect = dialect
    if dialect != .securityV3, connection.tls.peerCertificateDER == nil {
      connection.worker.log(
        .notice, "device without certificate", .text("peer", connection.peer.description))
      return nil
    }
  }

  /// Goes on with a connection that another worker accepted.
  init(_ connection: Connection, resuming handed: HandedOverDevice) {
    self.connection = connection
    worker = connection.worker
    lastFrameSeconds = connection.worker.nowSeconds
    dialect = handed.dialect
    framer = handed.framer
    begin(handed.identity, presentedToken: handed.presentedToken)
    connection.deadlineSeconds = lastFrameSeconds + UInt64(Limits.courierFilterSeconds)
    unsafe handed.rest.withUnsafeBytes { unsafe receive($0) }
  }

  // MARK: Frames in

  func receive(_ bytes: UnsafeRawBufferPointer) {
    guard stage != .over, unsafe !bytes.isEmpty else { return }
    let input = unsafe Span<UInt8>(_unsafeBytes: bytes)
    lastFrameSeconds = worker.nowSeconds
    var offset = 0
    do throws(CourierFault) {
      while stage != .over, let frame = try framer.next(input, at: &offset) {
        let fields = frame.fields(in: input)
        guard stage != .awaitingConnect else {
          return try connect(frame.command, fields, rest: input.extracting(offset...))
        }
        try handle(frame.command, fields)
      }
    } catch {
      fail(error)
    }
  }

  private func fail(_ fault: CourierFault) {
    worker.log(
      .notice, "device broke the protocol", .text("peer", connection.peer.description),
      .text("device", device?.key.id.text ?? "unknown"), .text("fault", fault.description))
    end(reason: fault.description)
  }

  private func handle(_ command: UInt8, _ fields: Span<UInt8>) throws(CourierFault) {
    guard let device, let command = CourierCommand(rawValue: command) else {
      skippedFrames += 1
      return
    }
    switch command {
    case .connect: refuseSecondConnect()
    case .filter: try filter(CourierFilter(decoding: fields), device)
    case .acknowledgement:
      let acknowledgement = try CourierAcknowledgement(decoding: fields)
      worker.shard.acknowledge(
        device, messageID: acknowledgement.messageID, status: acknowledgement.status.rawValue)
    case .keepAlive: try keepAlive(CourierKeepAlive(decoding: fields), device)
    case .appTokenRequest: try appToken(CourierAppTokenRequest(decoding: fields), device)
    case .setState: worker.shard.setActive(try CourierSetState(decoding: fields).isActive, device)
    case .setActiveInterval: _ = try CourierSetActiveInterval(decoding: fields)
    case .flush: try CourierFlush(decoding: fields).encodeAnswer(to: &output)
    case .notification: try message(fields)
    case .connectResponse, .keepAliveAnswer, .noStorage, .flushAnswer, .appTokenAnswer, .channel,
      .goodbye:
      skippedFrames += 1
    }
    worker.markDirty(connection)
  }

  // MARK: Connect

  /// The first frame; anything but a connect message ends the connection.
  private func connect(
    _ command: UInt8, _ fields: Span<UInt8>, rest: Span<UInt8>
  ) throws(CourierFault) {
    guard command == CourierCommand.connect.rawValue else {
      return end(reason: "the first frame is not a connect message")
    }
    let connect = try CourierConnect(decoding: fields)
    let identity: DeviceIdentity
    do throws(DeviceRefusal) {
      identity = try DeviceIdentity(
        connect, dialect: dialect, tlsCertificateDER: connection.tls.peerCertificateDER,
        authority: worker.trust.deviceAuthority, replays: worker.replays,
        nowMilliseconds: worker.wallMilliseconds,
        allowsInBand: worker.configuration.allowsInBandCertificates)
    } catch {
      return refuse(error)
    }
    stage = .over
    let owner = worker.ownerIndex(of: identity.device)
    let handed = HandedOverDevice(
      door: connection.door, descriptor: connection.release(), peer: connection.peer,
      tls: connection.tls, dialect: dialect, identity: identity, presentedToken: connect.token,
      framer: framer, rest: rest.copied())
    worker.send(.adopt(handed), to: owner)
  }

  /// "Status 2 only for authentication failure. On refusal: send, flush, close."
  private func refuse(_ refusal: DeviceRefusal) {
    worker.log(
      .notice, "device refused", .text("peer", connection.peer.description),
      .text("reason", refusal.description))
    CourierConnectResponse(
      status: .refused, token: nil, serverMilliseconds: UInt64(max(0, worker.wallMilliseconds)),
      badNonceServerMilliseconds: refusal.isAboutTime
        ? UInt64(max(0, worker.wallMilliseconds)) : nil
    ).encode(to: &output)
    stage = .over
    worker.markDirty(connection)
    connection.close()
  }

  /// One connect message a connection: several users on one are not supported.
  private func refuseSecondConnect() {
    worker.log(.notice, "second connect", .text("device", device?.key.id.text ?? "unknown"))
    CourierConnectResponse(
      status: .refused, token: nil, serverMilliseconds: UInt64(max(0, worker.wallMilliseconds))
    ).encode(to: &output)
    end(reason: "a connection takes one connect message")
  }

  private func begin(_ identity: DeviceIdentity, presentedToken: DeviceToken?) {
    let key = DeviceKey(id: identity.device, environment: connection.door.environment)
    do {
      let previous = try worker.shard.device(key)
      if previous.session != nil, !takeOver(from: previous) { return }
      let device = try worker.shard.connect(
        key, fingerprint: identity.keyFingerprint, slot: connection.slot)
      self.device = device
      // The token is a function of the device, so the right one is the only one: a client that presented another
      // learns that it changed.
      baseToken = worker.sealer.seal(
        TokenClaims(
          device: key.id, topic: TopicKey(app: .base), environment: key.environment,
          generation: 0))
      CourierConnectResponse(
        status: .accepted, token: baseToken,
        serverMilliseconds: UInt64(max(0, worker.wallMilliseconds))
      ).encode(to: &output)
      stage = .awaitingFilter
      worker.log(
        .info, "device connected", .text("device", key.id.text),
        .text("peer", connection.peer.description), .text("protocol", dialect.name.description),
        .truth("resumed", connection.tls.isResumed),
        .truth("token_changed", presentedToken != nil && presentedToken != baseToken))
    } catch {
      worker.log(
        .error, "device record unreadable", .text("device", key.id.text),
        .text("reason", "\(error)"))
      end(reason: "the service cannot read its store")
    }
  }

  /// "The new one wins", but two holders of one identity must not fight for ever.
  private func takeOver(from device: Device) -> Bool {
    guard
      Device.takeoverLimit.take(
        from: &device.takeovers, atMilliseconds: Int64(worker.loop.nowMilliseconds))
    else {
      worker.log(.warning, "too many takeovers", .text("device", device.key.id.text))
      end(reason: "this device connects from several places")
      return false
    }
    worker.log(.info, "device took over", .text("device", device.key.id.text))
    if let old = worker.connection(at: device.connectionSlot) { old.displace() }
    return true
  }

  // MARK: Filter and tokens

  private func filter(_ filter: CourierFilter, _ device: Device) {
    // "Filter's token must be the connection's, else ignore and count."
    guard filter.token == nil || filter.token == baseToken else {
      skippedFrames += 1
      return
    }
    var lists: [TopicKey: TopicState] = [:]
    for list in CourierTopicList.allCases {
      for hash in filter[list] {
        // A topic of no app of this service: nothing can ever be sent under it.
        guard let topic = worker.trust.directory.topic(hash) else { continue }
        // "Duplicate hash in several lists: most restrictive wins."
        lists[topic] = max(lists[topic] ?? .enabled, list.state)
      }
    }
    worker.shard.filter(device, lists: lists)
    stage = .serving
  }

  private func appToken(_ request: CourierAppTokenRequest, _ device: Device) {
    guard tokenAnswers.count < Limits.courierFilterTopics else {
      return end(reason: "too many token requests at once")
    }
    var answer = CourierAppTokenAnswer(
      status: Self.tokenRefused, token: nil, topic: request.topic, appID: request.appID)
    // "Only for the connection's own base token."
    if request.token == nil || request.token == baseToken,
      let topic = worker.trust.directory.topic(request.topic)
    {
      let generation = worker.shard.generationForToken(of: topic, on: device)
      answer.status = 0
      answer.token = worker.sealer.seal(
        TokenClaims(
          device: device.key.id, topic: topic, environment: device.key.environment,
          generation: generation))
    }
    tokenAnswers.append((device.recordVersion, answer))
  }

  private static let tokenRefused: UInt8 = 1

  // MARK: Smaller frames

  private func keepAlive(_ keepAlive: CourierKeepAlive, _ device: Device) {
    let now = Int64(worker.loop.nowMilliseconds)
    guard Self.keepAliveLimit.take(from: &keepAlives, atMilliseconds: now) else {
      return end(reason: "more than one keep-alive a second")
    }
    if let minutes = keepAlive.intervalMinutes, minutes > 0 {
      // Twice the announced interval and a minute, and no longer than a day.
      idleSeconds = min(UInt64(minutes) * 120 + 60, 86_400)
    }
    CourierKeepAlive.encodeAnswer(to: &output)
    worker.shard.keepAlive(device)
  }

  /// Messages from a device to the service are not for us; each is acknowledged, so that its sender does not repeat it.
  private func message(_ fields: Span<UInt8>) throws(CourierFault) {
    let view = try CourierNotificationView(
      decoding: fields, direction: .toServer, extensions: dialect.allowsExtensions)
    CourierAcknowledgement(
      token: baseToken, messageID: view.notification.messageID,
      status: stage == .awaitingFilter ? .tooEarly : .taken
    ).encode(to: &output)
  }

  /// Tells a device that nothing waits for it.
  func nothingStored() {
    CourierNoStorage(token: baseToken).encode(to: &output)
    worker.markDirty(connection)
  }

  // MARK: Frames out

  /// Sends what the session lets go, as far as the socket takes it.
  func flush() {
    answerTokenRequests()
    while connection.mayWrite, let delivery = device?.session?.nextToSend() {
      encode(delivery)
      if output.count >= TLSBuffers.recordBytes { sendOutput() }
    }
    sendOutput()
    if let device { worker.shard.continueDrain(device) }
    setDeadline()
  }

  private func sendOutput() {
    guard !output.isEmpty else { return }
    connection.encrypt(output, count: output.count)
    // A quiet device holds no buffer.
    output.removeAll(keepingCapacity: false)
  }

  private func answerTokenRequests() {
    guard let device, !tokenAnswers.isEmpty else { return }
    while let first = tokenAnswers.first, first.version <= device.durableRecordVersion {
      first.answer.encode(to: &output)
      tokenAnswers.removeFirst()
    }
  }

  private func encode(_ delivery: Delivery) {
    let notification = delivery.notification
    guard let topic = worker.trust.directory.topicHash(of: notification.claims.topic) else {
      // The app was taken out of the directory. What waits for it ends here, as if the device had answered.
      if let device {
        worker.shard.acknowledge(device, messageID: notification.messageID, status: 2)
      }
      return
    }
    var flags: CourierNotification.StorageFlags = []
    if notification.isFromStorage { flags.insert(.fromStorage) }
    if delivery.isLastFromStorage { flags.insert(.lastFromStorage) }
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
    worker.shard.count(.sent)
  }

  // MARK: Time and the end

  private func setDeadline() {
    guard let device, stage == .serving, !isStopping else { return }
    let isWaiting = (device.session?.inFlightCount ?? 0) > 0
    // "After 60 s with un-acked frames and no other traffic, close."
    let wait = isWaiting ? UInt64(Limits.courierAcknowledgeSeconds) : idleSeconds
    let deadline = lastFrameSeconds + wait
    let isEarlier = deadline < connection.deadlineSeconds
    connection.deadlineSeconds = deadline
    if isEarlier { worker.watch(connection) }
  }

  func deadlineReached() {
    switch stage {
    case .awaitingConnect:
      end(reason: isStopping ? Self.stopReason : "no connect message came in time")
    case .awaitingFilter: end(reason: isStopping ? Self.stopReason : "no filter came in time")
    case .serving:
      if isStopping { return end(reason: Self.stopReason) }
      setDeadline()
      if connection.deadlineSeconds <= worker.nowSeconds {
        end(reason: "nothing was heard for too long")
      }
    case .over: connection.close()
    }
  }

  /// Says goodbye, where the dialect has a word for it, and closes.
  private func end(reason: String) {
    guard stage != .over else { return }
    worker.log(
      .info, "device connection ends", .text("peer", connection.peer.description),
      .text("device", device?.key.id.text ?? "unknown"), .text("reason", reason))
    if dialect.allowsExtensions { CourierGoodbye(reason: reason).encode(to: &output) }
    leaveShard()
    stage = .over
    connection.close()
  }

  /// The service stops: connections end over some seconds, so that their devices do not all come back at once.
  func drain() {
    guard stage != .over else { return }
    let spread = UInt64(connection.slot) % Self.drainSpreadSeconds
    connection.deadlineSeconds = worker.nowSeconds + spread
    isStopping = true
    if spread == 0 { end(reason: Self.stopReason) } else { worker.watch(connection) }
  }

  /// A newer connection of the device took its place; its shard has moved on already or is about to.
  func displace() { end(reason: "the device connected anew") }

  func connectionClosed() {
    leaveShard()
    stage = .over
  }

  private func leaveShard() {
    if let device { worker.shard.disconnect(device) }
    device = nil
  }
}

extension CourierTopicList {
  /// The list as the mailbox rules know it.
  var state: TopicState {
    switch self {
    case .enabled: .enabled
    case .ignored: .ignored
    case .opportunistic: .opportunistic
    case .paused: .paused
    case .nonWaking: .nonWaking
    }
  }
}
