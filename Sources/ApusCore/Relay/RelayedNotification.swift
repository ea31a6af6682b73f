package import ApusModel

/// A notification for a device token that this service did not issue, on its way upstream.
///
/// Everything is as its provider sent it: upstream judges it. Only the bundle id may have another name there.
package struct RelayedNotification: Sendable, Hashable {
  /// The provider's `apns-id`, or one that was assigned. The same in every attempt.
  package var id: NotificationID
  package var topic: TopicKey
  /// That of the listener.
  package var environment: Environment
  /// 1 to `Limits.deviceTokenBytes` bytes.
  package var token: [UInt8]
  /// Nil if the provider named none; so with the next two.
  package var pushType: PushType?
  package var priority: Priority?
  /// Unix seconds, 0 or later.
  package var expirationSeconds: Int64?
  /// At most `Limits.collapseIDBytes`; empty if there is none.
  package var collapseID: [UInt8]
  package var payload: [UInt8]

  package init(
    id: NotificationID, topic: TopicKey, environment: Environment, token: [UInt8],
    pushType: PushType? = nil, priority: Priority? = nil, expirationSeconds: Int64? = nil,
    collapseID: [UInt8] = [], payload: [UInt8]
  ) {
    self.id = id
    self.topic = topic
    self.environment = environment
    self.token = token
    self.pushType = pushType
    self.priority = priority
    self.expirationSeconds = expirationSeconds
    self.collapseID = collapseID
    self.payload = payload
  }

  /// What ledger and counters record. No device of this service is meant: its id is 0.
  ///
  /// - Parameter order: Of acceptance.
  package func facts(_ order: UInt64, _ interface: ProviderInterface) -> NotificationFacts {
    NotificationFacts(
      order: order, id: id, uniqueID: NotificationID(high: 0, low: 0), device: .none, topic: topic,
      environment: environment, tokenPrefix: NotificationFacts.tokenPrefix(of: token.span),
      pushType: pushType,
      priority: priority ?? .immediate, interface: interface)
  }
}
