package import ApusModel

/// What a request asks for, read from its fields and body once they are found well-formed.
package struct AdmittedHead: Sendable, Hashable {
  /// The provider's `apns-id`; nil when the service makes one.
  package var messageID: NotificationID?
  /// Unix seconds as sent, 0 or later; nil where the field is absent.
  package var expirationSeconds: Int64?
  /// With the default filled in.
  package var priority: Priority
  package var pushType: PushType?
  /// Whether it only wakes its app.
  package var isBackground: Bool
  /// Nil when no registered app is behind the topic: refused at step 10, after the device token.
  package var topic: ResolvedTopic?
  /// Whether the topic is one for the push type, where the request names one.
  package var topicSuitsPushType: Bool
  package var token: DeviceToken
}

/// What a request's `apns-id` field holds: looked at first, so that every answer can carry an id.
package enum MessageIDField: Sendable, Hashable {
  case absent
  /// Echo the field's bytes as they came: "one library waits for ever" for its own spelling.
  case given(NotificationID)
  /// Refused as BadMessageId at step 6; the answer carries an id of the service's own.
  case malformed
}
