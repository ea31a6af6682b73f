import ApusLoop

// How a device that sleeps, or moves between networks, keeps its connection.

extension DeviceConnection {
  /// Milliseconds of silence after which the service is sent a keep-alive; 0: never.
  package var keepAliveMilliseconds: UInt64 {
    get { client.configuration.keepAliveMilliseconds }
    set {
      guard newValue != client.configuration.keepAliveMilliseconds else { return }
      shared.turn(self) {
        client.setKeepAlive(milliseconds: newValue)
        if let transport, stage == .open { setSocketKeepAlive(transport.socket) }
      }
    }
  }

  /// Something may have happened to the connection, such as a suspend or a change of the network: a connected device
  /// asks the service for a sign of life, and one that waits, or is just connecting, connects at once.
  ///
  /// - Parameter answerMilliseconds: The time for the answer; after it the device connects again at once.
  package func verify(answerMilliseconds: UInt64) {
    shared.turn(self) {
      shared.loop.updateNow()
      switch stage {
      case .idle, .lingering: break
      case .open where client.isConnected:
        isVerifying = true
        client.probe(
          answerMilliseconds: answerMilliseconds, nowMilliseconds: shared.loop.nowMilliseconds,
          to: &pending)
      case .resolving, .connecting, .handshaking, .open, .waiting: connectAnew()
      }
    }
  }
}
