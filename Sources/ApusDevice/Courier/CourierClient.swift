package import ApusModel
package import ApusWire

/// The device's side of the courier protocol: bytes in, bytes and events out, with time as an argument.
///
/// ```
/// offline --begin--> connect sent --0x08--> connected --filter--> filter sent
///    ^------------------------ disconnected -------------------------'
/// ```
///
/// One client serves all connections of a device. It remembers the base token, the topic lists, whether the device is
/// active, the unanswered token requests and the received notifications, and repeats them on the next connection. Times
/// are milliseconds of a monotonic clock.
package struct CourierClient: Sendable {
  package enum Phase: Sendable, Hashable {
    case offline
    case connectSent
    case connected
    case filterSent
    /// After a refusal or a fault: nothing is read or written until `disconnected()`.
    case over
  }

  package struct Configuration: Sendable, Hashable {
    package var dialect: CourierALPN
    /// Milliseconds for the answer to the connect message.
    package var responseMilliseconds: UInt64
    /// Milliseconds without a frame from the service after which a keep-alive is sent. Announced to the service in
    /// minutes, rounded up. 0: never.
    package var keepAliveMilliseconds: UInt64
    /// Milliseconds for the answer to a keep-alive.
    package var answerMilliseconds: UInt64
    /// Remembered notifications, for detecting duplicates.
    package var duplicateWindow: Int
    /// The request of a device without a certificate, sent instead of connecting; nil: it has one.
    package var enrolment: CourierEnrolmentRequest?

    package init(
      dialect: CourierALPN = .apus, responseMilliseconds: UInt64 = 10_000,
      keepAliveMilliseconds: UInt64 = 900_000, answerMilliseconds: UInt64 = 30_000,
      duplicateWindow: Int = 512, enrolment: CourierEnrolmentRequest? = nil
    ) {
      self.dialect = dialect
      self.responseMilliseconds = responseMilliseconds
      self.keepAliveMilliseconds = keepAliveMilliseconds
      self.answerMilliseconds = answerMilliseconds
      self.duplicateWindow = duplicateWindow
      self.enrolment = enrolment
    }
  }

  package private(set) var configuration: Configuration
  package private(set) var phase = Phase.offline
  /// Identifies the device to the courier. The device keeps it across restarts.
  package private(set) var baseToken: DeviceToken?
  /// Notifications that arrived again.
  package private(set) var duplicateCount: UInt64 = 0
  /// Skipped frames: unknown commands, or answers without a request.
  package private(set) var skippedCount: UInt64 = 0
  /// Topics whose token was requested but has not arrived.
  package private(set) var pendingTokens: [TopicHash] = []

  private var topics: CourierTopics?
  private var power: PowerState?
  private var channelRequests = ChannelRequests()
  private var window: DuplicateWindow
  private var framer = CourierFramer()
  /// When the connect message was sent, and then when the service last sent something.
  private var heardMilliseconds: UInt64 = 0
  /// When the unanswered keep-alive was sent.
  private var askedMilliseconds: UInt64?
  /// Milliseconds for the answer to it.
  private var askedAnswerMilliseconds: UInt64 = 0
  /// How long the service had been silent before the keep-alive that it answered last; nil once taken.
  private var answeredSilenceMilliseconds: UInt64?

  package init(configuration: Configuration, baseToken: DeviceToken? = nil) {
    self.configuration = configuration
    self.baseToken = baseToken
    window = DuplicateWindow(capacity: configuration.duplicateWindow)
  }

  /// Whether the service accepted the device.
  package var isConnected: Bool { phase == .connected || phase == .filterSent }

  // MARK: Beginning and end of a connection

  /// Writes the connect message, first on a new connection; without a certificate, requests one.
  ///
  /// - Parameter proof: With `CourierALPN.securityV3`; else nil, because TLS has the certificate.
  package mutating func begin(
    proof: CourierProof? = nil, nowMilliseconds: UInt64, to output: inout [UInt8]
  ) {
    precondition(
      (proof != nil) == (configuration.dialect == .securityV3), "only securityV3 has a proof")
    disconnected()
    phase = .connectSent
    heardMilliseconds = nowMilliseconds
    if let enrolment = configuration.enrolment { return enrolment.encode(to: &output) }
    CourierConnect(
      token: baseToken, certificate: proof?.certificateDER ?? [], nonce: proof?.nonce ?? [],
      signature: proof?.signature ?? []
    ).encode(to: &output)
  }

  /// The connection ended, from either side.
  package mutating func disconnected() {
    phase = .offline
    framer = CourierFramer()
    window.connectionEnded()
    askedMilliseconds = nil
    answeredSilenceMilliseconds = nil
  }

  // MARK: Output to the service

  /// Replaces the topics, now or on the next connection.
  package mutating func setTopics(_ topics: CourierTopics, to output: inout [UInt8]) {
    self.topics = topics
    if isConnected { sendFilter(to: &output) }
  }

  /// Like `setTopics(_:to:)`, list by list.
  package mutating func setTopics(
    enabled: [TopicHash], ignored: [TopicHash] = [], opportunistic: [TopicHash] = [],
    paused: [TopicHash] = [], nonWaking: [TopicHash] = [], to output: inout [UInt8]
  ) {
    setTopics(
      CourierTopics(
        enabled: enabled, ignored: ignored, opportunistic: opportunistic, paused: paused,
        nonWaking: nonWaking), to: &output)
  }

  private mutating func sendFilter(to output: inout [UInt8]) {
    guard let topics else { return }
    var filter = CourierFilter(token: baseToken)
    filter.enabled = topics.enabled
    filter.ignored = topics.ignored
    filter.opportunistic = topics.opportunistic
    filter.paused = topics.paused
    filter.nonWaking = topics.nonWaking
    filter.encode(to: &output)
    // The service knows the topics of channels from the filter.
    if phase == .connected { channelRequests.encode(token: baseToken, to: &output) }
    phase = .filterSent
  }

  /// Sets whether the device is in use. Active by default.
  package mutating func setPower(_ power: PowerState, to output: inout [UInt8]) {
    self.power = power
    if isConnected { CourierSetState(power).encode(to: &output) }
  }

  /// Requests the token of a topic; answered by `appToken` or `tokenRefused`, possibly on a later connection.
  ///
  /// - Returns: False if `Limits.courierFilterTopics` requests are pending.
  package mutating func requestToken(_ topic: TopicHash, to output: inout [UInt8]) -> Bool {
    if pendingTokens.contains(topic) { return true }
    guard pendingTokens.count < Limits.courierFilterTopics else { return false }
    pendingTokens.append(topic)
    if isConnected { CourierAppTokenRequest(token: baseToken, topic: topic).encode(to: &output) }
    return true
  }

  /// Requests a change of the device's subscriptions to channels; answered by `subscriptions`, possibly on a later
  /// connection. An empty change asks for them.
  ///
  /// - Returns: The index that the answer repeats; nil if `ChannelRequests.limit` requests are pending.
  package mutating func subscribe(
    _ change: CourierSubscriptions, to output: inout [UInt8]
  ) -> UInt32? {
    channelRequests.add(change, token: baseToken, isFiltered: phase == .filterSent, to: &output)
  }

  /// Requests the next certificate; answered by `renewal`, on this connection or never.
  ///
  /// - Returns: False without a connection, and in a dialect without this request.
  package mutating func requestRenewal(
    _ request: CourierRenewalRequest, to output: inout [UInt8]
  ) -> Bool {
    guard isConnected, configuration.dialect.allowsExtensions else { return false }
    request.encode(to: &output)
    return true
  }

  /// Acknowledges a notification. Without a connection the status is remembered, and sent when the notification arrives
  /// again.
  package mutating func acknowledge(
    _ messageID: UInt32, status: CourierAcknowledgement.Status = .taken,
    to output: inout [UInt8]
  ) {
    window.handle(messageID)
    var unanswered: UInt32? = messageID
    while isConnected, let id = unanswered {
      CourierAcknowledgement(token: baseToken, messageID: id, status: status).encode(to: &output)
      unanswered = window.takeCopy(of: messageID)
    }
  }

  /// The notification could not be accepted: it is reported again when it arrives on a later connection.
  package mutating func decline(_ messageID: UInt32) { window.forget(messageID) }

  // MARK: Input from the service

  /// The next event in `input` from `offset`, and moves `offset` past its frame; nil once the input is used up. Answers
  /// are appended to `output`.
  package mutating func next(
    _ input: Span<UInt8>, at offset: inout Int, nowMilliseconds: UInt64, to output: inout [UInt8]
  ) -> CourierClientEvent? {
    do throws(CourierFault) {
      while phase != .over, phase != .offline, let frame = try framer.next(input, at: &offset) {
        if frame.command == CourierCommand.keepAliveAnswer.rawValue {
          answeredSilenceMilliseconds = unansweredSilenceMilliseconds
        }
        heardMilliseconds = nowMilliseconds
        askedMilliseconds = nil
        if let event = try handle(frame, frame.fields(in: input), to: &output) { return event }
      }
      return nil
    } catch {
      return end(.malformed(error))
    }
  }

  private mutating func end(_ fault: CourierClientFault) -> CourierClientEvent {
    phase = .over
    return .fault(fault)
  }

  private mutating func handle(
    _ frame: CourierFrame, _ fields: Span<UInt8>, to output: inout [UInt8]
  ) throws(CourierFault) -> CourierClientEvent? {
    let command = CourierCommand(rawValue: frame.command)
    if phase == .connectSent {
      switch command {
      case .enrolmentAnswer where configuration.enrolment != nil:
        phase = .over
        return .issued(try CourierEnrolmentAnswer(decoding: fields).issuance)
      case .connectResponse where configuration.enrolment == nil:
        return try connectResponse(fields, to: &output)
      case .goodbye: break
      default: return end(.unexpected(command: frame.command))
      }
    }
    switch command {
    case .notification: return try notification(frame, fields, to: &output)
    case .appTokenAnswer: return try tokenAnswer(fields)
    case .channel:
      let confirmation = try CourierChannelConfirmation(decoding: fields)
      if channelRequests.take(confirmation) { return .subscriptions(confirmation) }
      skippedCount &+= 1
      return nil
    case .noStorage: return .noStorage
    case .keepAliveAnswer: return nil
    case .connectResponse: return end(.unexpected(command: frame.command))
    case .renewalAnswer where configuration.dialect.allowsExtensions:
      return .renewal(try CourierRenewalAnswer(decoding: fields).issuance)
    case .renewalAdvice where configuration.dialect.allowsExtensions:
      return .renewalAdvised(
        withinSeconds: try CourierRenewalAdvice(decoding: fields).withinSeconds)
    case .goodbye where configuration.dialect.allowsExtensions:
      let goodbye = try CourierGoodbye(decoding: fields)
      return .goodbye(
        reason: goodbye.reason, reconnectMilliseconds: goodbye.reconnectMilliseconds)
    default:
      skippedCount &+= 1
      return nil
    }
  }

  private mutating func connectResponse(
    _ fields: Span<UInt8>, to output: inout [UInt8]
  ) throws(CourierFault) -> CourierClientEvent {
    let response = try CourierConnectResponse(decoding: fields)
    guard response.status == .accepted else {
      phase = .over
      // A client that was refused with a token retries without it.
      baseToken = nil
      return .refused(
        CourierRefusal(
          status: response.status, serverMilliseconds: response.serverMilliseconds,
          badNonceServerMilliseconds: response.badNonceServerMilliseconds,
          explanation: response.explanation))
    }
    // A service may omit the token if it accepted the one that was presented.
    guard let token = response.token ?? baseToken else { return end(.noToken) }
    let isNew = token != baseToken
    baseToken = token
    phase = .connected
    sendFilter(to: &output)
    if let power { CourierSetState(power).encode(to: &output) }
    for topic in pendingTokens {
      CourierAppTokenRequest(token: token, topic: topic).encode(to: &output)
    }
    return .connected(
      token: token, serverMilliseconds: response.serverMilliseconds, isNewToken: isNew,
      hint: configuration.dialect.allowsExtensions ? response.hint : "")
  }

  private mutating func notification(
    _ frame: CourierFrame, _ fields: Span<UInt8>, to output: inout [UInt8]
  ) throws(CourierFault) -> CourierClientEvent? {
    let view = try CourierNotificationView(
      decoding: fields, extensions: configuration.dialect.allowsExtensions)
    let messageID = view.notification.messageID
    switch window.insert(view.notification) {
    case .new: return .notification(CourierArrival(view: view, frame: frame))
    case .handled: acknowledge(messageID, to: &output)
    case .open: break
    }
    duplicateCount &+= 1
    return nil
  }

  private mutating func tokenAnswer(
    _ fields: Span<UInt8>
  ) throws(CourierFault) -> CourierClientEvent? {
    let answer = try CourierAppTokenAnswer(decoding: fields)
    guard let index = pendingTokens.firstIndex(of: answer.topic) else {
      skippedCount &+= 1
      return nil
    }
    pendingTokens.remove(at: index)
    guard answer.status == 0, let token = answer.token else {
      return .tokenRefused(topic: answer.topic, status: answer.status)
    }
    return .appToken(topic: answer.topic, token: token)
  }

  // MARK: Time

  /// When to call `timePassed` next; nil: not before another event.
  package var deadlineMilliseconds: UInt64? {
    switch phase {
    case .offline, .over: return nil
    case .connectSent: return heardMilliseconds + configuration.responseMilliseconds
    case .connected, .filterSent:
      if let askedMilliseconds { return askedMilliseconds + askedAnswerMilliseconds }
      guard configuration.keepAliveMilliseconds > 0 else { return nil }
      return heardMilliseconds + configuration.keepAliveMilliseconds
    }
  }

  /// Does what is due: sends a keep-alive, or gives up on a silent service.
  package mutating func timePassed(
    nowMilliseconds: UInt64, to output: inout [UInt8]
  ) -> CourierClientEvent? {
    guard let deadlineMilliseconds, deadlineMilliseconds <= nowMilliseconds else { return nil }
    if phase == .connectSent { return end(.noResponse) }
    if askedMilliseconds != nil { return end(.noAnswer) }
    ask(
      answerMilliseconds: configuration.answerMilliseconds, nowMilliseconds: nowMilliseconds,
      to: &output)
    return nil
  }

  // MARK: Keep-alives

  /// Changes `Configuration.keepAliveMilliseconds`, from the next keep-alive on.
  package mutating func setKeepAlive(milliseconds: UInt64) {
    configuration.keepAliveMilliseconds = milliseconds
  }

  /// Sends a keep-alive now, whose answer is due within `answerMilliseconds`, unless one is open whose answer is due
  /// sooner.
  package mutating func probe(
    answerMilliseconds: UInt64, nowMilliseconds: UInt64, to output: inout [UInt8]
  ) {
    guard isConnected else { return }
    if let askedMilliseconds,
      askedMilliseconds + askedAnswerMilliseconds <= nowMilliseconds + answerMilliseconds
    {
      return
    }
    ask(
      answerMilliseconds: answerMilliseconds, nowMilliseconds: nowMilliseconds, to: &output)
  }

  private mutating func ask(
    answerMilliseconds: UInt64, nowMilliseconds: UInt64, to output: inout [UInt8]
  ) {
    let minutes = (configuration.keepAliveMilliseconds + 59_999) / 60_000
    CourierKeepAlive(intervalMinutes: UInt32(clamping: minutes)).encode(to: &output)
    askedMilliseconds = nowMilliseconds
    askedAnswerMilliseconds = answerMilliseconds
  }

  /// How long the service had been silent when the keep-alive was sent that it has not answered; nil if there is none.
  package var unansweredSilenceMilliseconds: UInt64? {
    askedMilliseconds.map { $0 - heardMilliseconds }
  }

  /// How long the service had been silent before a keep-alive that it has answered since the last call; nil if it has
  /// answered none.
  package mutating func takeAnsweredSilence() -> UInt64? {
    defer { answeredSilenceMilliseconds = nil }
    return answeredSilenceMilliseconds
  }
}
