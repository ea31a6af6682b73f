import ApusCore
import ApusLoop

// A device's connection that falls dormant or wakes.

extension Connection {
  /// Whether nothing is pending on the connection itself.
  var isQuiet: Bool {
    stage == .open && ending == .none && !isPeerFinished && !isReadingPaused && !isDirty
      && unsentByteCount == 0
  }

  /// Leaves the socket to the loop and retires this object. The peer does not notice.
  func becomeDormant() -> Int32 {
    driver = nil
    stage = .closed
    return socket.becomeDormant(tag: slot)
  }

  /// Resumes with the protocol of a device that was dormant.
  func wake(_ driver: ConnectionDriver, deadlineSeconds: UInt64, watchedSeconds: UInt64) {
    remainTrusted(as: .device)
    self.driver = driver
    self.deadlineSeconds = deadlineSeconds
    self.watchedSeconds = watchedSeconds
    quietSeconds = context.nowSeconds + context.configuration.dormantSeconds
  }
}
