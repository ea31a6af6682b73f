import ApusModel
import ApusWire

/// Frames as the flat objects of the vectors, and back.
enum CourierMeaning {
  // MARK: Reading

  /// What the frame says that `bytes` are.
  static func of(
    _ bytes: [UInt8], toService: Bool, extensions: Bool
  ) throws -> [String: String] {
    var framer = CourierFramer()
    var offset = 0
    guard let frame = try framer.next(bytes.span, at: &offset), offset == bytes.count else {
      return ["message": "less or more than a frame"]
    }
    let body = frame.fields(in: bytes.span).copied()
    guard let command = CourierCommand(rawValue: frame.command) else {
      return ["message": "unknown", "command": "\(frame.command)"]
    }
    if command == .notification {
      return try notification(body, toService: toService, extensions: extensions)
    }
    if command == .channel { return try ChannelMeaning.of(body, toService: toService) }
    if let facts = try session(command, body) { return facts }
    if let facts = try certificates(command, body) { return facts }
    return try control(command, body)
  }

  private static func flat(_ message: String, _ facts: [String: String?]) -> [String: String] {
    var flat = facts.compactMapValues { $0 }
    flat["message"] = message
    return flat
  }

  private static func text<Value: CustomStringConvertible>(_ value: Value?) -> String? {
    value?.description
  }

  /// Nil for none.
  private static func digits(_ bytes: [UInt8]) -> String? {
    bytes.isEmpty ? nil : String(decoding: Hex.encode(bytes.span), as: UTF8.self)
  }

  private static func digits(_ topic: TopicHash) -> String {
    digits((0..<TopicHash.byteCount).map { topic[$0] }) ?? ""
  }

  /// Too many are counted.
  private static func digits(_ topics: [TopicHash]) -> String? {
    topics.isEmpty || topics.count > 8 ? nil : topics.map { digits($0) }.joined(separator: " ")
  }

  private static func session(
    _ command: CourierCommand, _ body: [UInt8]
  ) throws -> [String: String]? {
    switch command {
    case .connect:
      let message = try CourierConnect(decoding: body.span)
      return flat(
        "connect",
        [
          "token": message.token?.hex, "state": text(message.state), "flags": text(message.flags),
          "interface": text(message.interface), "protocolVersion": text(message.protocolVersion),
          "certificate": digits(message.certificate), "nonce": digits(message.nonce),
          "signature": digits(message.signature),
        ])
    case .connectResponse:
      let message = try CourierConnectResponse(decoding: body.span)
      return flat(
        "connectResponse",
        [
          "status": text(message.status.rawValue), "token": message.token?.hex,
          "maximumMessageBytes": text(message.maximumMessageBytes),
          "protocolVersion": text(message.protocolVersion),
          "capabilities": text(message.capabilities),
          "badNonceServerMilliseconds": text(message.badNonceServerMilliseconds),
          "largeMessageBytes": text(message.largeMessageBytes),
          "serverMilliseconds": text(message.serverMilliseconds),
          "explanation": message.explanation.isEmpty ? nil : message.explanation,
          "hint": message.hint.isEmpty ? nil : message.hint,
        ])
    case .filter:
      let message = try CourierFilter(decoding: body.span)
      let count = message.enabled.count
      return flat(
        "filter",
        [
          "token": message.token?.hex, "enabled": digits(message.enabled),
          "enabledCount": count > 8 ? "\(count)" : nil, "ignored": digits(message.ignored),
          "opportunistic": digits(message.opportunistic), "paused": digits(message.paused),
          "nonWaking": digits(message.nonWaking),
        ])
    case .acknowledgement:
      let message = try CourierAcknowledgement(decoding: body.span)
      return flat(
        "acknowledgement",
        [
          "token": message.token?.hex, "messageID": text(message.messageID),
          "status": text(message.status.rawValue),
        ])
    default: return nil
    }
  }

  private static func notification(
    _ body: [UInt8], toService: Bool, extensions: Bool
  ) throws -> [String: String] {
    let view = try CourierNotificationView(
      decoding: body.span, direction: toService ? .toServer : .toDevice, extensions: extensions)
    let message = view.notification
    let payload = Array(body[view.payload])
    let collapseID = String(decoding: body[view.collapseID], as: UTF8.self)
    let isLong = payload.count > 64
    return flat(
      "notification",
      [
        "token": message.token.hex, "topic": digits(message.topic),
        "payload": isLong ? nil : String(decoding: payload, as: UTF8.self),
        "payloadBytes": isLong ? "\(payload.count)" : nil, "messageID": text(message.messageID),
        "expirySeconds": text(message.expirySeconds),
        "sentNanoseconds": text(message.sentNanoseconds),
        "storageFlags": text(message.storage.rawValue),
        "priority": text(message.priority?.rawValue), "id": message.id?.text,
        "pushType": text(message.pushType?.rawValue),
        "collapseID": collapseID.isEmpty ? nil : collapseID,
        "channel": digits(Array(body[view.channelID])),
      ])
  }

  private static func certificates(
    _ command: CourierCommand, _ body: [UInt8]
  ) throws -> [String: String]? {
    switch command {
    case .enrolmentRequest:
      let message = try CourierEnrolmentRequest(decoding: body.span)
      let code = String(decoding: message.code, as: UTF8.self)
      let name = String(decoding: message.name, as: UTF8.self)
      return flat(
        "enrolmentRequest",
        [
          "code": code.isEmpty ? nil : code, "name": name.isEmpty ? nil : name,
          "certificateRequest": digits(message.certificateRequest),
          "tags": message.tags.isEmpty
            ? nil : message.tags.map { String(decoding: $0, as: UTF8.self) }.joined(separator: " "),
        ])
    case .renewalRequest:
      let message = try CourierRenewalRequest(decoding: body.span)
      return flat("renewalRequest", ["certificateRequest": digits(message.certificateRequest)])
    case .enrolmentAnswer:
      let message = try CourierEnrolmentAnswer(decoding: body.span)
      return issuance("enrolmentAnswer", message.issuance)
    case .renewalAnswer:
      let message = try CourierRenewalAnswer(decoding: body.span)
      return issuance("renewalAnswer", message.issuance)
    case .renewalAdvice:
      let message = try CourierRenewalAdvice(decoding: body.span)
      return flat("renewalAdvice", ["withinSeconds": text(message.withinSeconds)])
    default: return nil
    }
  }

  private static func issuance(
    _ message: String, _ issuance: CourierIssuance
  ) -> [String: String] {
    let certificates = issuance.certificates.compactMap { digits($0) }.joined(separator: " ")
    let words = String(decoding: issuance.text, as: UTF8.self)
    return flat(
      message,
      [
        "status": text(issuance.status.rawValue), "reason": text(issuance.reason?.rawValue),
        "text": words.isEmpty ? nil : words,
        "certificates": certificates.isEmpty ? nil : certificates,
        "retrySeconds": text(issuance.retrySeconds),
      ])
  }

  private static func control(
    _ command: CourierCommand, _ body: [UInt8]
  ) throws -> [String: String] {
    switch command {
    case .keepAlive:
      let message = try CourierKeepAlive(decoding: body.span)
      return flat("keepAlive", ["intervalMinutes": text(message.intervalMinutes)])
    case .keepAliveAnswer: return flat("keepAliveAnswer", [:])
    case .noStorage:
      return flat("noStorage", ["token": try CourierNoStorage(decoding: body.span).token?.hex])
    case .flush:
      let message = try CourierFlush(decoding: body.span)
      return flat(
        "flush",
        [
          "answerPaddingBytes": text(message.answerPaddingBytes),
          "paddingBytes": text(message.paddingBytes),
        ])
    case .flushAnswer:
      // Nobody reads it: a device that sends a flush looks at its size alone.
      return flat("flushAnswer", ["paddingBytes": text(body.count - 3)])
    case .appTokenRequest:
      let message = try CourierAppTokenRequest(decoding: body.span)
      return flat(
        "appTokenRequest",
        [
          "token": message.token?.hex, "topic": digits(message.topic),
          "appID": text(message.appID),
        ])
    case .appTokenAnswer:
      let message = try CourierAppTokenAnswer(decoding: body.span)
      return flat(
        "appTokenAnswer",
        [
          "status": text(message.status), "token": message.token?.hex,
          "topic": digits(message.topic), "appID": text(message.appID),
        ])
    case .setActiveInterval:
      let message = try CourierSetActiveInterval(decoding: body.span)
      return flat("setActiveInterval", ["interval": text(message.interval)])
    case .setState:
      let message = try CourierSetState(decoding: body.span)
      return flat(
        "setState",
        ["state": text(message.state.rawValue), "interval": text(message.interval)])
    case .goodbye:
      let message = try CourierGoodbye(decoding: body.span)
      return flat(
        "goodbye",
        ["reason": message.reason, "reconnectMilliseconds": text(message.reconnectMilliseconds)])
    default: return flat("unknown", ["command": text(command.rawValue)])
    }
  }
}
