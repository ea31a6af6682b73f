import ApusHTTP2
import ApusModel
import ApusWire

/// A push that was found good, with its header fields as bytes: the same on every attempt.
///
/// Made to be filled again and again: the memory of one push serves the next.
struct EncodedPush: Sendable {
  private(set) var id = NotificationID(high: 0, low: 0)
  private(set) var payload: [UInt8] = []
  private(set) var pushType = PushType.alert
  private var priority: Priority?
  /// The values of the fields, one behind the other: id, path, topic, collapse id, expiration.
  private var text: [UInt8] = []
  private var pathEnd = 0
  private var topicEnd = 0
  private var collapseEnd = 0

  private static let devicePath: StaticString = "/3/device/"

  init() {}

  /// - Parameter id: Used where the request has none of its own.
  init(_ request: PushRequest, id: @autoclosure () -> NotificationID) throws(PushRequestError) {
    try encode(request, id: id())
  }

  /// Puts `request` in place of what was here. After an error this is no push.
  mutating func encode(
    _ request: PushRequest, id: @autoclosure () -> NotificationID
  ) throws(PushRequestError) {
    text.removeAll(keepingCapacity: true)
    setID(request.id ?? id())
    try addPath(request.token)
    pathEnd = text.count
    try add(request.topic, limit: Limits.topicBytes, "topic", .invalidTopic)
    topicEnd = text.count
    try add(request.collapseID, limit: Limits.collapseIDBytes, "collapse id", .invalidCollapseID)
    collapseEnd = text.count
    pushType = request.pushType
    // "Pushing background updates to your App": any other priority is an error.
    priority = request.priority ?? (request.pushType == .background ? .powerSaving : nil)
    try addExpiration(request.expirationSeconds)
    let limit = request.pushType == .voip ? Limits.voipPayloadBytes : Limits.payloadBytes
    guard (1...limit).contains(request.payload.count) else {
      throw PushRequestError(
        .invalidPayload,
        "the payload has \(request.payload.count) bytes: a push of type \(request.pushType.name) "
          + "carries 1 to \(limit)")
    }
    payload = request.payload
  }

  /// Lets go of the payload.
  mutating func clear() { payload = [] }

  /// Adds the fields of the request to `head`.
  @inline(__always)
  func write(to head: HTTP2RequestHead) {
    let text = text.span
    head.begin(path: text.extracting(NotificationID.textLength..<pathEnd))
    head.add(.apnsID, value: text.extracting(0..<NotificationID.textLength))
    head.add(.apnsPushType, pushType.name)
    if topicEnd > pathEnd { head.add(.apnsTopic, value: text.extracting(pathEnd..<topicEnd)) }
    switch priority {
    case .immediate: head.add(.apnsPriority, "10")
    case .powerSaving: head.add(.apnsPriority, "5")
    case .whenActive: head.add(.apnsPriority, "1")
    case nil: break
    }
    if text.count > collapseEnd {
      head.add(.apnsExpiration, value: text.extracting(collapseEnd..<text.count))
    }
    if collapseEnd > topicEnd {
      head.add(.apnsCollapseID, value: text.extracting(topicEnd..<collapseEnd))
    }
  }

  // MARK: Checking

  /// "Sending notification requests to APNs": lower-case letters. `NotificationID` writes the capitals of answers.
  private mutating func setID(_ id: NotificationID) {
    self.id = id
    text.append(contentsOf: repeatElement(0, count: NotificationID.textLength))
    var output = text.mutableSpan
    id.write(to: &output, at: 0)
    // Digits and the hyphen have this bit already.
    for index in 0..<NotificationID.textLength { output[index] |= 0x20 }
  }

  private mutating func addPath(_ token: String) throws(PushRequestError) {
    text.append(Self.devicePath)
    let digits = token.utf8.span
    guard digits.count.isMultiple(of: 2), (1...Limits.deviceTokenBytes).contains(digits.count / 2),
      Self.areHexadecimal(digits)
    else {
      throw PushRequestError(
        .invalidToken,
        "the device token has \(digits.count) characters: it must have 2 to "
          + "\(2 * Limits.deviceTokenBytes) hexadecimal digits, an even number")
    }
    text.append(digits)
  }

  private static func areHexadecimal(_ digits: Span<UInt8>) -> Bool {
    for index in digits.indices where hexValue(digits[index]) == nil { return false }
    return true
  }

  /// A field's value. RFC 9113, section 8.2.1: no control characters, and no space at either end.
  private mutating func add(
    _ value: String?, limit: Int, _ name: StaticString, _ code: PushRequestError.Code
  ) throws(PushRequestError) {
    guard let value else { return }
    let bytes = value.utf8.span
    guard (1...limit).contains(bytes.count) else {
      throw PushRequestError(
        code, "the \(name) has \(bytes.count) bytes: 1 to \(limit) are allowed")
    }
    guard Self.isClean(bytes), bytes[0] != 0x20, bytes[bytes.count - 1] != 0x20 else {
      throw PushRequestError(
        code, "the \(name) has a control character in it, or a space at one end")
    }
    text.append(bytes)
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
    if seconds == 0 { text.append(0x30) } else { text.append(decimal: seconds) }
  }
}
