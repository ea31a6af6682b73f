package import ApusModel
package import ApusTLS
package import ApusWire

/// Hears of what happens on device connections. Called on the loop, during the connection's turn: verbs of any
/// connection may be called from inside, and take effect when the turn ends.
package protocol DeviceConnectionDelegate: AnyObject {
  func deviceConnection(
    _ connection: DeviceConnection, connectedAs token: DeviceToken, isNewToken: Bool,
    serverMilliseconds: UInt64)

  /// - Parameter retryMilliseconds: After which it connects again; nil: not before `start()`.
  func deviceConnection(
    _ connection: DeviceConnection, disconnected reason: DeviceDisconnection,
    retryMilliseconds: UInt64?)

  /// A notification that was not had before. Payload and collapse id are lent for the time of the call.
  func deviceConnection(
    _ connection: DeviceConnection, received notification: CourierNotification,
    payload: Span<UInt8>, collapseID: Span<UInt8>
  ) -> DeviceVerdict

  /// The answer to `requestToken`. Nil: the service has no token for the topic.
  func deviceConnection(
    _ connection: DeviceConnection, appToken token: DeviceToken?, for topic: TopicHash)

  /// What became of the request for a first certificate, where the client was made to ask for one.
  ///
  /// - Returns: Milliseconds to wait at the least before the connection asks again, which it does unless it is stopped.
  func deviceConnection(
    _ connection: DeviceConnection, issued issuance: CourierIssuance
  ) -> UInt64

  /// The device has a certificate to follow its own.
  ///
  /// - Returns: The context with it, for the connections to come; nil where it could not be kept, and the old one goes
  ///   on.
  func deviceConnection(
    _ connection: DeviceConnection, renewed identity: DeviceIdentity
  ) -> TLSContext?

  /// The certificate was not renewed. The reason is for people; the device asks again.
  func deviceConnection(_ connection: DeviceConnection, notRenewed reason: String)

  /// Nothing waited for the device.
  func deviceConnectionFoundNothingStored(_ connection: DeviceConnection)
}

/// What becomes of a notification that was just received.
package enum DeviceVerdict: Sendable, Hashable {
  /// Acknowledged with the end of the turn: it does not come again.
  case acknowledge
  /// Acknowledged later, by `DeviceConnection.acknowledge`. Until then the service sends it again on each connection,
  /// and it is not reported again.
  case hold
  /// There is no room for it: not acknowledged, and reported again when it comes again on a later connection.
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

  package func deviceConnectionFoundNothingStored(_ connection: DeviceConnection) {}
}
