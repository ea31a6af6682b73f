package import ApusModel
package import ApusWire

// Requests and frames whose device token another service issued. The rules are those of every other, except that the
// token of a request may have any length that the HTTP/2 API allows; whether it is alive is for upstream to say.

extension Admission {
  /// The device token in the request's path, of whatever service; nil if it cannot be one of any service.
  package static func tokenOfAnyService(_ fields: borrowing RequestFields) -> [UInt8]? {
    let path = fields.value(.path)
    guard path.count > devicePathByteCount,
      path.count - devicePathByteCount <= 2 * Limits.deviceTokenBytes
    else { return nil }
    return Hex.decode(path.extracting(devicePathByteCount..<path.count))
  }

  /// Steps 10 and 11, and what goes upstream.
  ///
  /// - Parameter id: Used if the request has none.
  package static func relayed(
    _ head: borrowing AdmittedHead, _ fields: borrowing RequestFields, token: [UInt8],
    grant: Grant, connection: borrowing ProviderConnection, directory: Directory,
    body: Span<UInt8>, id: @autoclosure () -> NotificationID
  ) throws(Refusal) -> RelayedNotification {
    let topic = try permittedTopic(
      head, grant: grant, connection: connection, directory: directory)
    return RelayedNotification(
      id: head.messageID ?? id(), topic: topic, environment: connection.environment,
      token: token, pushType: head.pushType, priority: try priority(fields),
      expirationSeconds: head.expirationSeconds,
      collapseID: fields.value(.apnsCollapseID).copied(), payload: body.copied())
  }

  /// What goes upstream for a well-formed frame. Its payload is at `payload` of the input of `payloads`, and is also
  /// given as bytes.
  package static func relayed(
    _ frame: BinaryFrame, payload: Range<Int>, of payloads: inout PayloadSeries,
    bytes: Span<UInt8>, token: DeviceToken, sender: borrowing BinarySender, id: NotificationID
  ) throws(Refusal) -> RelayedNotification {
    let topic = try sender.requiredTopic()
    let (head, scan) = try head(
      frame, payload: payload, of: &payloads, token: token, topic: topic, sender: sender)
    return RelayedNotification(
      id: id, topic: topic.key, environment: sender.environment, token: token.bytes,
      pushType: pushType(scan, topic.key.suffix), priority: head.priority,
      expirationSeconds: head.expirationSeconds, payload: bytes.copied())
  }

  /// The push type of a notification from the binary interface, which has none: that of the topic's suffix, else what
  /// the payload is for ("Sending notification requests to APNs").
  private static func pushType(_ scan: PayloadScan?, _ suffix: TopicSuffix) -> PushType {
    if suffix != .none, let type = PushType.allCases.first(where: { $0.topicSuffix == suffix }) {
      return type
    }
    guard let scan else { return .alert }
    if scan.hasMDM, !scan.hasAPS { return .mdm }
    return scan.onlyContentAvailable ? .background : .alert
  }
}
