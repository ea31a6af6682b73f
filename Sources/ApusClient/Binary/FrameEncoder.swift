import ApusModel
import ApusWire

/// Turns pushes into frames and validates them before anything is queued, so that a bad one does not affect others.
struct FrameEncoder: Sendable {
  let format: FrameFormat
  /// The topics of the certificate; empty if unknown.
  let topics: [String]
  /// Most bytes of a payload.
  let payloadBytes: Int
  /// A buffer for a token, and the length of the last one.
  private var tokenBytes = [UInt8](repeating: 0, count: Limits.deviceTokenBytes)
  private var tokenCount = 0

  /// The expiration sent for a notification without one, if the command requires the field or its absence means a
  /// single attempt: the last second that every reader takes for the future (19 January 2038).
  static let latestExpiration: UInt32 = 0x7fff_ffff

  init(command: BinaryCommand, topics: [String]) {
    format = FrameFormat(command: command)
    self.topics = topics
    let voip = TopicSuffix.voip.text.description
    payloadBytes =
      topics.contains { $0.hasSuffix(voip) }
      ? Limits.binaryVoIPPayloadBytes : Limits.binaryPayloadBytes
  }

  /// Appends the frame of a push, with identifier 0.
  mutating func append(
    _ request: borrowing PushRequest, to frames: inout [UInt8]
  ) throws(PushRequestError) {
    guard request.channel == nil else { throw Self.notCarried("a broadcast") }
    try readToken(request.token)
    try check(request)
    let expiration = try expiration(request.expirationSeconds)
    let token = tokenBytes.span.extracting(first: tokenCount)
    switch format.command {
    case .simple: frames.append(simple: token, payload: request.payload.span)
    case .enhanced:
      frames.append(
        enhanced: token, payload: request.payload.span, identifier: 0, expiration: expiration)
    case .framed:
      // Any other priority is an error (Pushing background updates to your App).
      let priority =
        request.priority ?? (request.pushType == .background ? .powerSaving : .immediate)
      frames.append(
        framed: token, payload: request.payload.span, identifier: 0, expiration: expiration,
        priority: priority.rawValue)
    }
  }

  // MARK: Checking

  private mutating func readToken(_ text: String) throws(PushRequestError) {
    let digits = text.utf8.span
    let count = digits.count / 2
    var output = tokenBytes.mutableSpan
    guard (1...Limits.deviceTokenBytes).contains(count), readHexadecimal(digits, into: &output)
    else {
      throw PushRequestError(
        .invalidToken,
        "the device token has \(digits.count) characters: it must have 2 to "
          + "\(2 * Limits.deviceTokenBytes) hexadecimal digits, an even number")
    }
    tokenCount = count
  }

  private func check(_ request: borrowing PushRequest) throws(PushRequestError) {
    guard (1...payloadBytes).contains(request.payload.count) else {
      throw PushRequestError(
        .invalidPayload,
        "the payload has \(request.payload.count) bytes: the binary interface carries 1 to "
          + "\(payloadBytes)")
    }
    guard request.collapseID == nil else { throw Self.notCarried("a collapse id") }
    switch request.priority {
    case .whenActive: throw Self.notCarried("priority 1")
    case .powerSaving where format.command != .framed: throw notCarried("priority 5")
    default: break
    }
    if format.command == .simple, request.expirationSeconds != nil {
      throw notCarried("an expiration")
    }
    try checkTopic(request)
  }

  /// A connection serves exactly one topic, that of the certificate.
  private func checkTopic(_ request: borrowing PushRequest) throws(PushRequestError) {
    guard let first = topics.first else { return }
    if let topic = request.topic, !topics.contains(topic) {
      throw PushRequestError(
        .invalidTopic,
        "the topic is \"\(topic)\": the binary interface sends to that of the certificate, \(first)"
      )
    }
    let suffix = request.pushType.topicSuffix.text.description
    guard suffix.isEmpty || topics.contains(where: { $0.hasSuffix(suffix) }) else {
      throw PushRequestError(
        .notCarried,
        "the push type is \(request.pushType.name): the binary interface takes it from the "
          + "certificate, whose topic is \(first), without \(suffix)")
    }
  }

  private func expiration(_ seconds: Int64?) throws(PushRequestError) -> UInt32 {
    guard let seconds else { return Self.latestExpiration }
    guard seconds >= 0 else {
      throw PushRequestError(
        .invalidExpiration, "the expiration is \(seconds): Unix seconds are not negative")
    }
    return UInt32(clamping: seconds)
  }

  private static func notCarried(_ what: String) -> PushRequestError {
    PushRequestError(.notCarried, "\(what) has no field on the binary interface")
  }

  private func notCarried(_ what: String) -> PushRequestError {
    PushRequestError(
      .notCarried, "\(what) has no field in command \(format.command.rawValue)")
  }
}
