package import ApusModel
import ApusWire

/// Decides whether a request of the HTTP/2 provider API becomes a notification.
///
/// The order of the checks is part of the API: of two faults the provider is told the earlier. The checks are split
/// where the driver has to act:
///
/// 1. ``messageID(of:)`` and ``examineHead(_:headerListTooLarge:)``: steps 1 to 4, once the head is complete
/// 2. ``ProviderConnection/authenticate(_:directory:nowSeconds:)``: step 5
/// 3. ``examine(_:connection:directory:bodyByteCount:body:)``: steps 6 to 9, once the body is complete
/// 4. the driver unseals the device token
/// 5. ``admit(_:claims:grant:connection:directory:)``: the end of step 9, to step 11
/// 6. the driver looks the token up: 410 and 429, steps 12 and 13
/// 7. ``fill(_:from:claims:fields:payload:nowMilliseconds:)``
///
/// Sources: "Sending notification requests to APNs", "Handling notification responses from APNs". Apple documents no
/// order; where captures show one (authentication before everything but the head, the key's environment before the
/// device token), this follows it.
package enum Admission {
  // MARK: Steps 1 to 4

  /// Step 1: the id for the response.
  package static func messageID(of fields: borrowing RequestFields) -> MessageIDField {
    guard fields.contains(.apnsID) else { return .absent }
    return NotificationID(text: fields.value(.apnsID)).map { .given($0) } ?? .malformed
  }

  /// Steps 2 to 4: path, method, repeated fields.
  ///
  /// A header list beyond the limit is rejected first: not all fields of such a request are known.
  package static func examineHead(
    _ fields: borrowing RequestFields, headerListTooLarge: Bool
  ) throws(Refusal) {
    if headerListTooLarge { throw Refusal(.headerListTooLarge) }
    guard isDevicePath(fields.value(.path)) else { throw Refusal(.pathUnknown) }
    guard fields.value(.method).equals("POST") else { throw Refusal(.methodNotPost) }
    if fields.hasRepeatedField { try refuseDuplicates(fields) }
  }

  private static func refuseDuplicates(_ fields: borrowing RequestFields) throws(Refusal) {
    for index in singleFields.indices where fields.occurrences(of: singleFields[index]) > 1 {
      throw Refusal(.duplicate(singleFields[index]))
    }
  }

  /// DuplicateHeaders concerns the fields of "Sending notification requests to APNs". Fields that APNs ignores may be
  /// repeated.
  private static let singleFields: InlineArray<12, HeaderName> = [
    .method, .path, .scheme, .authority, .host, .authorization, .apnsID, .apnsPushType,
    .apnsExpiration, .apnsPriority, .apnsTopic, .apnsCollapseID,
  ]

  private static let devicePath: StaticString = "/3/device/"
  static let devicePathByteCount = 10

  /// Whether the path is `/3/device/` and one more segment. The segment may be empty, and the last `/` missing: that
  /// is a missing token, which step 9 reports.
  private static func isDevicePath(_ path: Span<UInt8>) -> Bool {
    let length = devicePathByteCount
    guard path.count >= length else { return path.equals("/3/device") }
    guard path.extracting(0..<length).equals(devicePath) else { return false }
    // A further segment, a query or a fragment makes it another path: the least difference from their first bytes is
    // zero. Without an early exit the loop is vectorised.
    var least: UInt8 = .max
    for index in length..<path.count {
      let byte = path[index]
      least = min(least, byte ^ 0x2f, min(byte ^ 0x3f, byte ^ 0x23))
    }
    return least != 0
  }

  // MARK: Steps 6 to 9

  /// Steps 6 to 9: checks of the fields and the body, independent of each other. `bodyByteCount` is the size of the
  /// body as received; `body` may end early once that is beyond `Limits.voipPayloadBytes`, the largest payload of any
  /// type.
  package static func examine(
    _ fields: borrowing RequestFields, connection: borrowing ProviderConnection,
    directory: Directory, bodyByteCount: Int, body: Span<UInt8>
  ) throws(Refusal) -> AdmittedHead {
    try examined(
      fields, connection: connection, directory: directory, bodyByteCount: bodyByteCount,
      body: body, substitute: nil)
  }

  /// The same with another device token in place of the path's, for the development service, which accepts any.
  package static func examine(
    _ fields: borrowing RequestFields, connection: borrowing ProviderConnection,
    directory: Directory, bodyByteCount: Int, body: Span<UInt8>, substitute: DeviceToken
  ) throws(Refusal) -> AdmittedHead {
    try examined(
      fields, connection: connection, directory: directory, bodyByteCount: bodyByteCount,
      body: body, substitute: substitute)
  }

  @inline(__always)
  private static func examined(
    _ fields: borrowing RequestFields, connection: borrowing ProviderConnection,
    directory: Directory, bodyByteCount: Int, body: Span<UInt8>, substitute: DeviceToken?
  ) throws(Refusal) -> AdmittedHead {
    // Step 6.
    let messageID = try requestedID(fields)
    let expiration = try expirationSeconds(fields)
    let explicitPriority = try priority(fields)
    let pushType =
      fields.contains(.apnsPushType)
      ? PushType(headerValue: fields.value(.apnsPushType)) : nil
    // "Sending notification requests to APNs": priority 10 is an error for a background push.
    if pushType == .background && explicitPriority == .immediate {
      throw Refusal(.backgroundAtOnce)
    }
    let collapseByteCount = fields.value(.apnsCollapseID).count
    if collapseByteCount > Limits.collapseIDBytes {
      throw Refusal(.collapseIDTooLong(byteCount: collapseByteCount))
    }
    if pushType == nil && fields.contains(.apnsPushType) {
      throw Refusal(.malformed(.apnsPushType))
    }
    // Step 7.
    let topic = try topic(fields, pushType, connection, directory)
    // Step 8.
    let limit = topic.isVoIP ? Limits.voipPayloadBytes : Limits.payloadBytes
    let isForFileProvider =
      pushType == .fileprovider || topic.resolved?.key.suffix == .fileProvider
    let scan = try scan(
      body, byteCount: bodyByteCount, limit: limit, needsAPS: !isForFileProvider)
    // Step 9, as far as possible without the sealing key.
    let token = if let substitute { substitute } else { try deviceToken(fields.value(.path)) }
    return AdmittedHead(
      messageID: messageID, expirationSeconds: expiration,
      priority: effectivePriority(explicitPriority, pushType, scan), pushType: pushType,
      isBackground: pushType == .background || pushType == nil && scan.onlyContentAvailable,
      topic: topic.resolved, topicSuitsPushType: topic.suitsPushType, token: token)
  }

  // MARK: Steps 9 to 11

  /// The end of step 9 to step 11: whether the device token and the credential allow the push.
  ///
  /// `claims` is nil for a token that this service did not issue. A device's base token names no topic: it is used for
  /// the requested one, with generation 0, and whether the device has that topic is checked where the device is known.
  package static func admit(
    _ head: borrowing AdmittedHead, claims: TokenClaims?, grant: Grant,
    connection: borrowing ProviderConnection, directory: Directory
  ) throws(Refusal) -> TokenClaims {
    // The credential is valid: requests without one were rejected before.
    if claims == nil, head.token.isZero { throw Refusal(.deviceTokenOfProbe) }
    let claims = try authentic(claims, environment: connection.environment)
    let topic = try permittedTopic(
      head, grant: grant, connection: connection, directory: directory)
    var addressed = claims
    if claims.topic.app == .base { addressed.topic = topic }
    guard addressed.topic == topic else {
      throw Refusal(.deviceTokenOfOtherTopic(token: claims.topic, request: topic))
    }
    return addressed
  }

  /// Steps 10 and 11: the request's topic, if the credential allows pushes to it.
  @inline(__always)
  static func permittedTopic(
    _ head: borrowing AdmittedHead, grant: Grant, connection: borrowing ProviderConnection,
    directory: Directory
  ) throws(Refusal) -> TopicKey {
    guard let topic = head.topic else { throw Refusal(.topicUnknown) }
    guard topic.team == grant.team else {
      throw Refusal(.topicOfOtherTeam(topic: topic.key, owner: topic.team, team: grant.team))
    }
    switch grant.scope {
    case .team: break
    case .key(let key):
      guard directory.covers(topic.key.app, key: key) else {
        throw Refusal(.topicNotOfKey(topic: topic.key, key: key))
      }
    case .certificate:
      guard connection.certificateTopics.contains(topic.key) else {
        throw Refusal(.topicNotOfCertificate(topic.key))
      }
    }
    // No reason is documented for a topic that belongs to another push type.
    if let type = head.pushType, !head.topicSuitsPushType {
      throw Refusal(.topicForOtherPushType(type))
    }
    return topic.key
  }

  /// BadDeviceToken also covers a token of the other environment.
  static func authentic(
    _ claims: TokenClaims?, environment: Environment
  ) throws(Refusal) -> TokenClaims {
    guard let claims else { throw Refusal(.deviceTokenForeign) }
    guard claims.environment == environment else {
      throw Refusal(.deviceTokenEnvironment(issued: claims.environment))
    }
    return claims
  }

  // MARK: Accepted

  /// Fills a notification from a request. The driver sets the service's own parts: `uniqueID`, `order`, and `id` if
  /// the provider sent none. `collapseID` is empty if there is none.
  package static func fill(
    _ notification: Notification, from head: borrowing AdmittedHead, claims: TokenClaims,
    interface: ProviderInterface, collapseID: Span<UInt8>, payload: Span<UInt8>,
    nowMilliseconds: Int64
  ) {
    if let id = head.messageID { notification.id = id }
    notification.interface = interface
    notification.claims = claims
    notification.token = head.token
    notification.expirationSeconds = storedUntil(
      head.expirationSeconds, nowSeconds: nowMilliseconds / 1000)
    notification.acceptedMilliseconds = nowMilliseconds
    notification.priority = head.priority
    notification.pushType = head.pushType
    notification.isBackground = head.isBackground
    notification.isFromStorage = false
    notification.mayBeRepeated = false
    notification.collapseID.set(collapseID)
    notification.payload.set(payload)
  }

  /// Unix seconds until which a notification is kept, 0 for not at all.
  ///
  /// Absent: the maximum ("Viewing the status of push notifications": 30 days). 0: one attempt, no storage. A past
  /// date also means one attempt and no storage. A later date is cut to 30 days.
  package static func storedUntil(_ expirationSeconds: Int64?, nowSeconds: Int64) -> Int64 {
    let latest = nowSeconds + Limits.storageSeconds
    guard let expirationSeconds else { return latest }
    return expirationSeconds <= nowSeconds ? 0 : min(expirationSeconds, latest)
  }
}
