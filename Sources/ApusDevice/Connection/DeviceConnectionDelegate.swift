package import ApusModel
package import ApusTLS
package import ApusWire

/// Receives the events of device connections. Called on the loop, during the connection's turn: methods of any
/// connection may be called from inside, and take effect at the end of the turn.
package protocol DeviceConnectionDelegate: AnyObject {
  func deviceConnection(
    _ connection: DeviceConnection, connectedAs token: DeviceToken, isNewToken: Bool,
    serverMilliseconds: UInt64)

  /// - Parameter retryMilliseconds: When it reconnects; nil: not before `start()`.
  func deviceConnection(
    _ connection: DeviceConnection, disconnected reason: DeviceDisconnection,
    retryMilliseconds: UInt64?)

  /// A new notification. Payload, collapse id and the id of its channel, empty for none, are borrowed for the duration
  /// of the call.
  func deviceConnection(
    _ connection: DeviceConnection, received notification: CourierNotification,
    payload: Span<UInt8>, collapseID: Span<UInt8>, channelID: Span<UInt8>
  ) -> DeviceVerdict

  /// The answer to `requestToken`. Nil: the service has no token for the topic.
  func deviceConnection(
    _ connection: DeviceConnection, appToken token: DeviceToken?, for topic: TopicHash)

  /// The answer to the request for a first certificate, from a client configured to ask for one.
  ///
  /// - Returns: The minimum wait in milliseconds until the connection asks again, which it does unless it is stopped.
  func deviceConnection(
    _ connection: DeviceConnection, issued issuance: CourierIssuance
  ) -> UInt64

  /// The device has a new certificate.
  ///
  /// - Returns: The context for future connections; nil if the identity could not be stored, and the old one stays in
  ///   use.
  func deviceConnection(
    _ connection: DeviceConnection, renewed identity: DeviceIdentity
  ) -> TLSContext?

  /// The certificate could not be renewed, with a readable reason; the device asks again.
  func deviceConnection(_ connection: DeviceConnection, notRenewed reason: String)

  /// The answer to `subscribe`.
  func deviceConnection(
    _ connection: DeviceConnection, confirmed confirmation: CourierChannelConfirmation)

  /// No stored notifications for the device.
  func deviceConnectionFoundNothingStored(_ connection: DeviceConnection)

  /// The service answered a keep-alive that was sent after this long a silence from it.
  func deviceConnection(_ connection: DeviceConnection, answeredAfterMilliseconds: UInt64)
}

/// What to do with a notification that was just received.
package enum DeviceVerdict: Sendable, Hashable {
  /// Acknowledge it at the end of the turn: the service does not send it again.
  case acknowledge
  /// Acknowledge it later with `DeviceConnection.acknowledge`. Until then the service sends it again on each
  /// connection, without a new report.
  case hold
  /// There is no room for it: it is not acknowledged, and reported again when it arrives on a later connection.
  case decline
}

extension DeviceConnectionDelegate {
  package func deviceConnection(
    _ connection: DeviceConnection, appToken token: DeviceToken?, for topic: TopicHash
  ) {}

  package func deviceConnection(
    _ connection: DeviceConnection, issued issuance: CourierIssuance
  ) -> UInt64 { 0 }

  package func deviceConnection(
    _ connection: DeviceConnection, renewed identity: DeviceIdentity
  ) -> TLSContext? { nil }

  package func deviceConnection(_ connection: DeviceConnection, notRenewed reason: String) {}

  package func deviceConnection(
    _ connection: DeviceConnection, confirmed confirmation: CourierChannelConfirmation
  ) {}

  package func deviceConnectionFoundNothingStored(_ connection: DeviceConnection) {}

  package func deviceConnection(
    _ connection: DeviceConnection, answeredAfterMilliseconds: UInt64
  ) {}
}
