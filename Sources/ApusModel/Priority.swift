/// The values of `apns-priority`, and of item 5 of the binary interface.
///
/// Source: "Sending notification requests to APNs".
public enum Priority: UInt8, Sendable, CaseIterable, Hashable {
  /// Send at once. The default.
  case immediate = 10
  /// Send with regard to the device's power: may be grouped and delayed.
  case powerSaving = 5
  /// Never wake the device.
  case whenActive = 1
}
