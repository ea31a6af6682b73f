package import ApusModel

/// The content of a well-formed request, from its fields and body.
package struct AdmittedHead: Sendable, Hashable {
  /// The provider's `apns-id`; nil if the service assigns one.
  package var messageID: NotificationID?
  /// Unix seconds as sent, 0 or later; nil if the field is absent.
  package var expirationSeconds: Int64?
  /// The sent or the default priority.
  package var priority: Priority
  package var pushType: PushType?
  /// Whether it only wakes its app.
  package var isBackground: Bool
  /// Nil if no registered app has the topic: rejected at step 10, after the device token.
  package var topic: ResolvedTopic?
  /// Whether the topic matches the push type, if the request has one.
  package var topicSuitsPushType: Bool
  package var token: DeviceToken
}

/// The content of a request's `apns-id` field: read first, so that every response has an id.
package enum MessageIDField: Sendable, Hashable {
  case absent
  /// Echo the field's bytes as received: one library waits for ever for its own spelling.
  case given(NotificationID)
  /// Rejected as BadMessageId at step 6; the response has an id assigned by the service.
  case malformed
}
