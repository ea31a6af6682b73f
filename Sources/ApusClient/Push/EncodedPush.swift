import ApusHTTP2
import ApusModel
import ApusWire

/// A validated push with its header fields as bytes, identical for every attempt.
///
/// Reusable: the next push uses the memory of the previous one.
struct EncodedPush: Sendable {
  private(set) var id = NotificationID(high: 0, low: 0)
  private(set) var payload: [UInt8] = []
  private(set) var pushType = PushType.alert
  /// The fields of the request, path first.
  private(set) var fields = HTTP2FieldList()

  private static let devicePath: StaticString = "/3/device/"

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
    try addPath(request.token)
    fields.add(.apnsID, self.id)
    pushType = request.pushType
    fields.add(.apnsPushType, pushType.name)
    try add(.apnsTopic, request.topic, limit: Limits.topicBytes, "topic", .invalidTopic)
    // Any other priority is an error (Pushing background updates to your App).
    addPriority(request.priority ?? (request.pushType == .background ? .powerSaving : nil))
    try addExpiration(request.expirationSeconds)
    try add(
      .apnsCollapseID, request.collapseID, limit: Limits.collapseIDBytes, "collapse id",
      .invalidCollapseID)
    let limit = request.pushType == .voip ? Limits.voipPayloadBytes : Limits.payloadBytes
    guard (1...limit).contains(request.payload.count) else {
      throw PushRequestError(
        .invalidPayload,
        "the payload has \(request.payload.count) bytes: a push of type \(request.pushType.name) "
          + "carries 1 to \(limit)")
    }
    payload = request.payload
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
    if seconds == 0 { return fields.add(.apnsExpiration, "0") }
    var digits: [UInt8] = []
    digits.append(decimal: seconds)
    fields.add(.apnsExpiration, value: digits.span)
  }
}
