import ApusModel
import ApusWire

/// Makes the frame of a message that a vector describes.
struct CourierVectorEncoding {
  var facts: [String: String]
  var isToService: Bool
  var allowsExtensions: Bool

  /// Nil for a message that nobody encodes.
  func frame() -> [UInt8]? {
    var output: [UInt8] = []
    switch facts["message"] {
    case "connect":
      CourierConnect(
        token: token("token"), state: number("state", absent: 0), flags: number("flags", absent: 0),
        interface: number("interface"), protocolVersion: number("protocolVersion"),
        certificate: bytes("certificate"), nonce: bytes("nonce"), signature: bytes("signature")
      ).encode(to: &output)
    case "connectResponse":
      CourierConnectResponse(
        status: CourierConnectResponse.Status(rawValue: number("status", absent: 0xff)),
        token: token("token"), serverMilliseconds: number("serverMilliseconds", absent: 0),
        badNonceServerMilliseconds: number("badNonceServerMilliseconds"),
        maximumMessageBytes: number("maximumMessageBytes", absent: 0),
        largeMessageBytes: number("largeMessageBytes", absent: 0),
        protocolVersion: number("protocolVersion", absent: 0),
        capabilities: number("capabilities", absent: 0xff), explanation: facts["explanation"] ?? "",
        hint: facts["hint"] ?? ""
      ).encode(to: &output)
    case "filter":
      var filter = CourierFilter(token: token("token"))
      filter.enabled = topics("enabled")
      filter.ignored = topics("ignored")
      filter.opportunistic = topics("opportunistic")
      filter.paused = topics("paused")
      filter.nonWaking = topics("nonWaking")
      filter.encode(to: &output)
    case "acknowledgement":
      CourierAcknowledgement(
        token: token("token"), messageID: number("messageID", absent: 0),
        status: CourierAcknowledgement.Status(rawValue: number("status", absent: 0xff))
      ).encode(to: &output)
    case "notification" where facts["channel"] != nil: return broadcast()
    case "notification": return notification()
    case "channelRequest":
      CourierChannelRequest(
        index: number("index", absent: 0), token: token("token"),
        subscriptions: ChannelMeaning.subscriptions(facts)
      ).encode(to: &output)
    case "channelConfirmation":
      CourierChannelConfirmation(
        index: number("index", absent: 0), token: token("token"),
        status: CourierChannelConfirmation.Status(rawValue: number("status", absent: 0xff)),
        subscriptions: facts["subscribed"].map { _ in ChannelMeaning.subscriptions(facts) }
      ).encode(to: &output)
    case "enrolmentRequest", "renewalRequest", "enrolmentAnswer", "renewalAnswer", "renewalAdvice":
      encodeCertificates(&output)
    default: return encodeControl(&output) ? output : nil
    }
    return output
  }

  private func encodeCertificates(_ output: inout [UInt8]) {
    let issuance = CourierIssuance(
      status: CourierIssuance.Status(rawValue: number("status", absent: 0xff)),
      reason: number("reason").map { CourierIssuance.Reason(rawValue: $0) },
      text: Array((facts["text"] ?? "").utf8), certificates: list("certificates"),
      retrySeconds: number("retrySeconds"))
    switch facts["message"] {
    case "enrolmentRequest":
      CourierEnrolmentRequest(
        code: Array((facts["code"] ?? "").utf8), certificateRequest: bytes("certificateRequest"),
        name: Array((facts["name"] ?? "").utf8),
        tags: (facts["tags"] ?? "").split(separator: " ").map { Array($0.utf8) }
      ).encode(to: &output)
    case "renewalRequest":
      CourierRenewalRequest(certificateRequest: bytes("certificateRequest")).encode(to: &output)
    case "enrolmentAnswer": CourierEnrolmentAnswer(issuance).encode(to: &output)
    case "renewalAnswer": CourierRenewalAnswer(issuance).encode(to: &output)
    default:
      CourierRenewalAdvice(withinSeconds: number("withinSeconds", absent: 0)).encode(to: &output)
    }
  }

  /// False for a message that nobody encodes.
  private func encodeControl(_ output: inout [UInt8]) -> Bool {
    switch facts["message"] {
    case "keepAlive":
      CourierKeepAlive(intervalMinutes: number("intervalMinutes")).encode(to: &output)
    case "keepAliveAnswer": CourierKeepAlive.encodeAnswer(to: &output)
    case "noStorage": CourierNoStorage(token: token("token")).encode(to: &output)
    case "flush":
      CourierFlush(
        answerPaddingBytes: number("answerPaddingBytes", absent: 0),
        paddingBytes: number("paddingBytes", absent: 0)
      ).encode(to: &output)
    case "flushAnswer":
      CourierFlush(answerPaddingBytes: number("paddingBytes", absent: 0)).encodeAnswer(to: &output)
    case "appTokenRequest":
      guard let topic = topics("topic").first else { return false }
      CourierAppTokenRequest(token: token("token"), topic: topic, appID: number("appID"))
        .encode(to: &output)
    case "appTokenAnswer":
      guard let topic = topics("topic").first else { return false }
      CourierAppTokenAnswer(
        status: number("status", absent: 0xff), token: token("token"), topic: topic,
        appID: number("appID")
      ).encode(to: &output)
    case "setActiveInterval":
      CourierSetActiveInterval(interval: number("interval", absent: 0)).encode(to: &output)
    case "setState":
      guard let state = PowerState(rawValue: number("state", absent: 0xff)) else { return false }
      CourierSetState(state, interval: number("interval")).encode(to: &output)
    case "goodbye":
      CourierGoodbye(
        reason: facts["reason"] ?? "", reconnectMilliseconds: number("reconnectMilliseconds")
      ).encode(to: &output)
    default: return false
    }
    return true
  }

  private var id: NotificationID? {
    let characters = Array((facts["id"] ?? "").utf8)
    return NotificationID(text: characters.span)
  }

  /// All broadcasts of the vectors are of the channel's newest time.
  private func broadcast() -> [UInt8]? {
    guard let token = token("token"), let topic = topics("topic").first else { return nil }
    let sent: UInt64 = number("sentNanoseconds", absent: 0)
    let payload = Array((facts["payload"] ?? "").utf8)
    var output: [UInt8] = []
    CourierBroadcastTail(
      topic: topic, messageID: number("messageID", absent: 0),
      expirySeconds: number("expirySeconds"), sentNanoseconds: sent, priority: .immediate,
      id: id ?? NotificationID(high: 0, low: 0),
      channel: CourierChannelMark(id: bytes("channel"), newestNanoseconds: sent),
      payload: payload.span
    ).append(
      to: &output, token: token,
      storage: CourierNotification.StorageFlags(rawValue: number("storageFlags", absent: 0xff)),
      extensions: allowsExtensions)
    return output
  }

  private func notification() -> [UInt8]? {
    guard let token = token("token"), let topic = topics("topic").first else { return nil }
    let priority: UInt8? = number("priority")
    let pushType: UInt8? = number("pushType")
    let payload = Array((facts["payload"] ?? "").utf8)
    let collapseID = Array((facts["collapseID"] ?? "").utf8)
    var output: [UInt8] = []
    CourierNotification(
      token: token, topic: topic, messageID: number("messageID", absent: 0),
      expirySeconds: number("expirySeconds"), sentNanoseconds: number("sentNanoseconds"),
      storage: CourierNotification.StorageFlags(rawValue: number("storageFlags", absent: 0xff)),
      priority: priority.flatMap { Priority(rawValue: $0) }, id: id,
      pushType: pushType.flatMap { PushType(rawValue: $0) }
    ).encode(
      payload: payload.span, collapseID: collapseID.span,
      direction: isToService ? .toServer : .toDevice, extensions: allowsExtensions, to: &output)
    return output
  }

  // MARK: Facts

  private func number<Number: FixedWidthInteger>(_ key: String) -> Number? {
    facts[key].flatMap { Number($0) }
  }

  private func number<Number: FixedWidthInteger>(_ key: String, absent: Number) -> Number {
    number(key) ?? absent
  }

  private func bytes(_ key: String) -> [UInt8] { hex(facts[key] ?? "") }

  private func list(_ key: String) -> [[UInt8]] {
    (facts[key] ?? "").split(separator: " ").map { hex(String($0)) }
  }

  private func token(_ key: String) -> DeviceToken? {
    let value = bytes(key)
    return DeviceToken(bytes: value.span)
  }

  private func topics(_ key: String) -> [TopicHash] {
    list(key).compactMap { TopicHash($0.span) }
  }
}
