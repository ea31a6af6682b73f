import ApusModel

/// Ids of notifications that contain their serial numbers, so that the service's events can be told to be about them.
enum SimulationID {
  /// The service's own ids are random, so that none of them begins like this.
  private static let high: UInt64 = 0x5151_5151_5151_4151

  static func id(_ serial: Int) -> NotificationID {
    NotificationID(high: high, low: 1 << 63 | UInt64(serial))
  }

  static func serial(of id: NotificationID) -> Int? {
    guard id.high == high else { return nil }
    return Int(id.low & ~(1 << 63))
  }
}
