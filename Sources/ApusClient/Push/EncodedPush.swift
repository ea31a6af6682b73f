import ApusModel
import ApusWire

/// A push that was found good, with its header fields as bytes: the same on every attempt.
struct EncodedPush: Sendable {
  let id: NotificationID
  let payload: [UInt8]
  private let path: [UInt8]
  private let idText: [UInt8]
  private let topic: [UInt8]?
  private let pushType: PushType
  private let priority: Priority?
  private let expiration: [UInt8]?
  private let collapseID: [UInt8]?

  private static let devicePath: StaticString = "/3/device/"

  /// - Parameter id: Used where the request has none of its own.
  init(_ request: PushRequest, id: NotificationID) throws(PushRequestError) {
    self.id = request.id ?? id
    idText = Self.text(of: self.id)
    path = try Self.path(request.token)
    topic = try Self.field(request.topic, limit: Limits.topicBytes, "topic", .invalidTopic)
    collapseID = try Self.field(
      request.collapseID, limit: Limits.collapseIDBytes, "collapse id", .invalidCollapseID)
    pushType = request.pushType
    // "Pushing background updates to your App": any other priority is an error.
    priority = request.priority ?? (request.pushType == .background ? .powerSaving : nil)
    expiration = try Self.expiration(request.expirationSeconds)
    let limit = request.pushType == .voip ? Limits.voipPayloadBytes : Limits.payloadBytes
    guard (1...limit).contains(request.payload.count) else {
      throw PushRequestError(
        .invalidPayload,
        "the payload has \(request.payload.count) bytes: a push of type \(request.pushType.name) "
          + "carries 1 to \(limit)")
    }
    payload = request.payload
  }

  /// Puts the fields of the request into `fields`. `authorization` is empty where a certificate speaks.
  func write(
    to fields: inout RequestFields, authority: Span<UInt8>, authorization: Span<UInt8>
  ) {
    fields.removeAll()
    var fits = add(.method, "POST", to: &fields)
    fits = add(.scheme, "https", to: &fields) && fits
    fits = fields.add(.path, value: path.span) && fits
    fits = fields.add(.authority, value: authority) && fits
    if !authorization.isEmpty {
      fits = fields.add(.authorization, value: authorization) && fits
    }
    fits = fields.add(.apnsID, value: idText.span) && fits
    fits = add(.apnsPushType, pushType.name, to: &fields) && fits
    if let topic { fits = fields.add(.apnsTopic, value: topic.span) && fits }
    if let priority {
      var digits: [UInt8] = []
      digits.append(decimal: Int64(priority.rawValue))
      fits = fields.add(.apnsPriority, value: digits.span) && fits
    }
    if let expiration { fits = fields.add(.apnsExpiration, value: expiration.span) && fits }
    if let collapseID { fits = fields.add(.apnsCollapseID, value: collapseID.span) && fits }
    // Each value is limited, and the limits together are far below the room.
    precondition(fits, "the fields of a push fit into a header list")
  }

  private func add(
    _ name: HeaderName, _ value: StaticString, to fields: inout RequestFields
  ) -> Bool {
    let bytes = value.bytes
    return fields.add(name, value: bytes.span)
  }

  // MARK: Checking

  /// "Sending notification requests to APNs": lower-case letters. `NotificationID` writes the capitals of answers.
  private static func text(of id: NotificationID) -> [UInt8] {
    var text = [UInt8](repeating: 0, count: NotificationID.textLength)
    var output = text.mutableSpan
    id.write(to: &output, at: 0)
    // Digits and the hyphen have this bit already.
    for index in text.indices { text[index] |= 0x20 }
    return text
  }

  private static func path(_ token: String) throws(PushRequestError) -> [UInt8] {
    let digits = Array(token.utf8)
    guard digits.count.isMultiple(of: 2), (1...Limits.deviceTokenBytes).contains(digits.count / 2),
      digits.allSatisfy({ hexValue($0) != nil })
    else {
      throw PushRequestError(
        .invalidToken,
        "the device token has \(digits.count) characters: it must have 2 to "
          + "\(2 * Limits.deviceTokenBytes) hexadecimal digits, an even number")
    }
    return devicePath.bytes + digits
  }

  /// A field's value. RFC 9113, section 8.2.1: no control characters, and no space at either end.
  private static func field(
    _ text: String?, limit: Int, _ name: StaticString, _ code: PushRequestError.Code
  ) throws(PushRequestError) -> [UInt8]? {
    guard let text else { return nil }
    let bytes = Array(text.utf8)
    guard (1...limit).contains(bytes.count) else {
      throw PushRequestError(
        code, "the \(name) has \(bytes.count) bytes: 1 to \(limit) are allowed")
    }
    let isClean = bytes.allSatisfy { $0 >= 0x20 && $0 != 0x7f }
    guard isClean, bytes.first != 0x20, bytes.last != 0x20 else {
      throw PushRequestError(
        code, "the \(name) has a control character in it, or a space at one end")
    }
    return bytes
  }

  private static func expiration(_ seconds: Int64?) throws(PushRequestError) -> [UInt8]? {
    guard let seconds else { return nil }
    guard seconds >= 0 else {
      throw PushRequestError(
        .invalidExpiration, "the expiration is \(seconds): Unix seconds are not negative")
    }
    var digits: [UInt8] = []
    digits.append(decimal: seconds)
    return digits
  }
}
