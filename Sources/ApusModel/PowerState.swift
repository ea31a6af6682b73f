/// What a device reports about its use and its battery. A device that reports nothing counts as active.
///
/// The raw values are those of the courier's set-state message: all clients have 1, 0 means the opposite, and 2 is an
/// extension of this service.
public enum PowerState: UInt8, Sendable, CaseIterable, Hashable {
  /// Not in use: notifications that are not urgent wait until the radio is in use anyway.
  case idle = 0
  /// In use or on mains power: everything is sent at once.
  case active = 1
  /// Saving battery: only what the user is to see or hear at once is sent.
  case lowPower = 2
}
