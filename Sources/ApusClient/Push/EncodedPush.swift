import ApusCore
import ApusHTTP2
import ApusModel
import ApusWire

/// A validated push with its header fields as bytes, identical for every attempt. Also a request about channels.
///
/// Reusable: the next push uses the memory of the previous one.
struct EncodedPush: Sendable {
  /// What it is for, which determines how its answer is read, and what may be sent again.
  enum Purpose: Sendable {
    case push
    /// Reads channels; doing so twice changes nothing.
    case readChannels
    /// Creates or deletes a channel.
    case changeChannels
  }

  private(set) var purpose = Purpose.push
  private(set) var id = NotificationID(high: 0, low: 0)
  private(set) var payload: [UInt8] = []
  private(set) var pushType = PushType.alert
  /// The fields of the request, path first.
  private(set) var fields = HTTP2FieldList()
  /// Bytes of the answer's body that are kept.
  private(set) var answerLimit = Limits.answerBytes

  private static let devicePath: StaticString = "/3/device/"
  private static let broadcastPath: StaticString = "/4/broadcasts/apps/"
  private static let channelsPath: StaticString = "/1/apps/"

  init() {}

  /// - Parameter id: Used if the request has no id.
  init(_ request: PushRequest, id: @autoclosure () -> NotificationID) throws(PushRequestError) {
    try encode(request, id: id())
  }

  /// Replaces the contents with `request`. After an error the contents are invalid.
  mutating func encode(
    _ request: PushRequest, id: @autoclosure () -> NotificationID
  ) throws(PushRequestError) {
    // Also set for an invalid push, because its outcome carries the id.
    self.id = request.id ?? id()
    fields.removeAll()
    pushType = request.pushType
    if let channel = request.channel {
      try addBroadcast(request, channel)
    } else {
      try addPush(request)
    }
    let limit = request.payloadLimitBytes
    guard (1...limit).contains(request.payload.count) else {
      throw PushRequestError(
        .invalidPayload,
        "the payload has \(request.payload.count) bytes: "
          + "a \(request.channel == nil ? "push" : "broadcast") of type \(request.pushType.name) "
          + "carries 1 to \(limit)"
      )
    }
    payload = request.payload
  }

  private mutating func addPush(_ request: borrowing PushRequest) throws(PushRequestError) {
    try addPath(request.token)
    fields.add(.apnsID, id)
    fields.add(.apnsPushType, pushType.name)
    try add(.apnsTopic, request.topic, limit: Limits.topicBytes, "topic", .invalidTopic)
    // Any other priority is an error (Pushing background updates to your App).
    addPriority(request.priority ?? (request.pushType == .background ? .powerSaving : nil))
    try addExpiration(request.expirationSeconds)
    try add(
      .apnsCollapseID, request.collapseID, limit: Limits.collapseIDBytes, "collapse id",
      .invalidCollapseID)
  }

  /// Source: Sending broadcast push notification requests to APNs.
  private mutating func addBroadcast(
    _ request: PushRequest, _ channel: BroadcastChannel.ID
  ) throws(PushRequestError) {
    try request.checkBroadcast()
    let bundleID = request.topic ?? ""
    try Self.checkBundleID(bundleID)
    fields.add(.path, Self.broadcastPath, bundleID.utf8.span)
    fields.add(.apnsRequestID, id)
    fields.add(.apnsChannelID, value: channel.text.utf8.span)
    fields.add(.apnsPushType, pushType.name)
    addPriority(request.priority ?? .immediate)
    try addExpiration(request.expirationSeconds)
  }

  /// A request about the channels of an app.
  init(_ request: ChannelRequest, app bundleID: String, id: NotificationID) throws(PushRequestError)
  {
    try Self.checkBundleID(bundleID)
    self.id = id
    purpose = request.changesChannels ? .changeChannels : .readChannels
    answerLimit = request.answerLimit
    payload = request.body
    if let method = request.method { fields.add(.method, method) }
    let pathRest = Array("\(bundleID)\(request.pathEnd)".utf8)
    fields.add(.path, Self.channelsPath, pathRest.span)
    fields.add(.apnsRequestID, id)
    if let channel = request.channel {
      fields.add(.apnsChannelID, value: channel.text.utf8.span)
    }
  }

  /// A push of another provider. A relay has checked it by the rules of the API.
  ///
  /// - Parameter bundleID: That of the app at the service.
  init(relaying notification: RelayedNotification, to bundleID: [UInt8]) {
    encode(relaying: notification, to: bundleID)
  }

  /// Replaces the contents with such a push.
  mutating func encode(relaying notification: RelayedNotification, to bundleID: [UInt8]) {
    id = notification.id
    payload = notification.payload
    fields.removeAll()
    fields.add(.path, Self.devicePath, hexadecimal: notification.token.span)
    fields.add(.apnsID, id)
    pushType = notification.pushType ?? .alert
    if let type = notification.pushType { fields.add(.apnsPushType, type.name) }
    fields.add(.apnsTopic, value: bundleID.span, notification.topic.suffix.text)
    addPriority(notification.priority)
    if let seconds = notification.expirationSeconds { add(expiration: seconds) }
    if !notification.collapseID.isEmpty {
      fields.add(.apnsCollapseID, value: notification.collapseID.span)
    }
  }

  /// Releases the payload.
  mutating func clear() { payload = [] }

  // MARK: Checking

  private mutating func addPath(_ token: String) throws(PushRequestError) {
    let digits = token.utf8.span
    guard digits.count.isMultiple(of: 2), (1...Limits.deviceTokenBytes).contains(digits.count / 2),
      areHexadecimal(digits)
    else {
      throw PushRequestError(
        .invalidToken,
        "the device token has \(digits.count) characters: it must have 2 to "
          + "\(2 * Limits.deviceTokenBytes) hexadecimal digits, an even number")
    }
    fields.add(.path, Self.devicePath, digits)
  }

  /// A bundle id in a path: letters, digits, hyphens and full stops (CFBundleIdentifier), and underscores for services
  /// of others.
  private static func checkBundleID(_ text: String) throws(PushRequestError) {
    let isName = text.utf8.allSatisfy {
      switch $0 {
      case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, 0x2d, 0x2e, 0x5f: true
      default: false
      }
    }
    guard isName, (1...Limits.topicBytes).contains(text.utf8.count) else {
      throw PushRequestError(
        .invalidTopic,
        "the bundle id \"\(text)\" must have 1 to \(Limits.topicBytes) letters, digits, hyphens and full stops"
      )
    }
    guard TopicSuffix(of: text.utf8.span) != .liveActivity else {
      throw PushRequestError(
        .invalidTopic,
        "channels belong to the bundle id: leave out \(TopicSuffix.liveActivity.text) of \"\(text)\""
      )
    }
  }

  private mutating func addPriority(_ priority: Priority?) {
    switch priority {
    case .immediate: fields.add(.apnsPriority, "10")
    case .powerSaving: fields.add(.apnsPriority, "5")
    case .whenActive: fields.add(.apnsPriority, "1")
    case nil: break
    }
  }

  /// Adds a field. RFC 9113, section 8.2.1: no control characters, and no space at either end.
  private mutating func add(
    _ field: HeaderName, _ value: String?, limit: Int, _ name: StaticString,
    _ code: PushRequestError.Code
  ) throws(PushRequestError) {
    guard let value else { return }
    let bytes = value.utf8.span
    guard (1...limit).contains(bytes.count) else {
      throw PushRequestError(
        code, "the \(name) has \(bytes.count) bytes: 1 to \(limit) are allowed")
    }
    guard Self.isClean(bytes), bytes[0] != 0x20, bytes[bytes.count - 1] != 0x20 else {
      throw PushRequestError(
        code, "the \(name) contains a control character, or starts or ends with a space")
    }
    fields.add(field, value: bytes)
  }

  private static func isClean(_ bytes: Span<UInt8>) -> Bool {
    for index in bytes.indices where bytes[index] < 0x20 || bytes[index] == 0x7f { return false }
    return true
  }

  private mutating func addExpiration(_ seconds: Int64?) throws(PushRequestError) {
    guard let seconds else { return }
    guard seconds >= 0 else {
      throw PushRequestError(
        .invalidExpiration, "the expiration is \(seconds): Unix seconds are not negative")
    }
    add(expiration: seconds)
  }

  private mutating func add(expiration seconds: Int64) {
    fields.add(.apnsExpiration, number: UInt64(seconds))
  }
}
