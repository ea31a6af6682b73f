/// What a device says about its use and its battery. A device that never says anything counts as active.
///
/// The raw values are those of the courier's set-state message: 1 is in all clients, 0 means the contrary, and 2 is
/// this service's own.
public enum PowerState: UInt8, Sendable, CaseIterable, Hashable {
  /// Nobody uses it: what is not urgent waits for a moment when the radio is in use anyway.
  case idle = 0
  /// Somebody uses it, or it hangs on a mains supply: everything is sent at once.
  case active = 1
  /// The battery is to be spared: only what the user is to see or hear at once is sent.
  case lowPower = 2
}
