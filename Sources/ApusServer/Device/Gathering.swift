/// Decides whether to delay sending briefly, so that notifications of a burst for the same device are sent together.
///
/// A record, a send and an acknowledgement cost about the same for one notification as for several. So sending waits if
/// many devices have something to send. If a wait combined hardly any notifications, as in a burst that is spread over
/// many devices, sending does not wait again for a while; then it tries again, because bursts change.
///
/// A value without a clock: all times are milliseconds of the loop.
struct Gathering {
  /// Whether sending is delayed at the moment.
  private(set) var isOn = false
  private var untilMilliseconds: UInt64 = 0
  private var restsUntilMilliseconds: UInt64 = 0

  /// Sending waits if at least this many devices have something to send.
  static let devices = 8
  static let milliseconds: UInt64 = 2
  /// A wait pays if at least one in this many notifications joined another one for its device.
  static let shareThatPays = 8
  /// No wait begins for this long after one that did not pay, so that such waits take less than a hundredth of the
  /// time.
  static let pauseMilliseconds: UInt64 = 250

  enum Action: Equatable { case send, wait, beginToWait }

  /// Call this at the end of each turn of the loop.
  ///
  /// - Parameters:
  ///   - devices: devices that have something to send.
  ///   - joined: notifications since the last send that joined an earlier one for the same device.
  mutating func turnEnds(devices: Int, joined: Int, nowMilliseconds: UInt64) -> Action {
    if isOn {
      guard nowMilliseconds >= untilMilliseconds else { return .wait }
      isOn = false
      if joined * Self.shareThatPays < devices + joined {
        restsUntilMilliseconds = nowMilliseconds + Self.pauseMilliseconds
      }
      return .send
    }
    guard devices >= Self.devices, nowMilliseconds >= restsUntilMilliseconds else { return .send }
    isOn = true
    untilMilliseconds = nowMilliseconds + Self.milliseconds
    return .beginToWait
  }
}
