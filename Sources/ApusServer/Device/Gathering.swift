/// Decides whether what is for devices waits for a moment, so that what a flood has for one device leaves together.
///
/// A record, a send and an acknowledgement cost much the same for one notification as for several. So where many
/// devices have something to be sent, sending waits; where few have, it does not. Nor does it after a wait in which
/// hardly anything came together: a flood that is spread over many devices would be late for nothing. It is tried again
/// after a while, since floods change.
///
/// A value: no clock inside. All times are milliseconds of the loop.
struct Gathering {
  /// Whether sending waits.
  private(set) var isOn = false
  private var untilMilliseconds: UInt64 = 0
  private var restsUntilMilliseconds: UInt64 = 0

  /// Devices from which on it begins.
  static let devices = 8
  static let milliseconds: UInt64 = 2
  /// One in so many notifications must have found another one waiting for its device.
  static let shareThatPays = 8
  /// For so long nothing waits after a wait that did not pay: less than a hundredth of all then wait for nothing.
  static let restMilliseconds: UInt64 = 250

  enum Action: Equatable { case send, wait, beginToWait }

  /// A turn of the loop ends.
  ///
  /// - Parameters:
  ///   - devices: Those that have something to be sent.
  ///   - joined: How often something came for one that had something already, since it was last sent.
  mutating func turnEnds(devices: Int, joined: Int, nowMilliseconds: UInt64) -> Action {
    if isOn {
      guard nowMilliseconds >= untilMilliseconds else { return .wait }
      isOn = false
      if joined * Self.shareThatPays < devices + joined {
        restsUntilMilliseconds = nowMilliseconds + Self.restMilliseconds
      }
      return .send
    }
    guard devices >= Self.devices, nowMilliseconds >= restsUntilMilliseconds else { return .send }
    isOn = true
    untilMilliseconds = nowMilliseconds + Self.milliseconds
    return .beginToWait
  }
}
