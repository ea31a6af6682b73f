import ApusCore
import ApusModel

// How a connection ends when the service shuts down.

extension Connection {
  /// The service shuts down: the protocol ends the connection in its own way.
  func drain() {
    if let driver { driver.drain() } else { drainHandshake() }
    markDirty()
  }

  /// Reads what has arrived.
  func readBeforeDrain() {
    if isOpen, linked == nil { socketReadable() }
  }

  /// A provider finishes its handshake, and its protocol then ends the connection without losing a request. A device
  /// tries again by itself.
  private func drainHandshake() {
    guard stage == .handshaking, listener.kind != .courier else {
      if stage == .handshaking || isOpen { abort() }
      return
    }
    schedule.deadlineSeconds = min(
      schedule.deadlineSeconds, context.nowSeconds + Limits.drainHandshakeSeconds)
    watch()
  }
}
