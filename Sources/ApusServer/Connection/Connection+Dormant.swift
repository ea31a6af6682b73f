import ApusCore
import ApusLoop

// A device's connection that falls dormant or wakes.

extension Connection {
  /// Leaves the socket to the loop and retires this object. The peer does not notice.
  func becomeDormant() -> Int32 {
    _ = retire()
    return socket.becomeDormant(tag: slot)
  }

  /// Resumes with the protocol of a device that was dormant.
  func wake(_ driver: ConnectionDriver, deadlineSeconds: UInt64, watchedSeconds: UInt64) {
    trust(.device)
    schedule = ConnectionSchedule(
      deadlineSeconds: deadlineSeconds, watchedSeconds: watchedSeconds)
    schedule.quietSeconds = context.nowSeconds + context.configuration.dormantSeconds
    begin(driver)
  }
}
