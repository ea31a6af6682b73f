import ApusCore

/// The devices that were looked at lately.
///
/// Connected devices stay. The others live in two generations: what is used moves to the younger one, and when that
/// is full the older one is forgotten and they change places. So the cache is bounded without a list to keep in order.
struct DeviceCache {
  private var connected: [DeviceKey: Device] = [:]
  private var recent: [DeviceKey: Device] = [:]
  private var older: [DeviceKey: Device] = [:]

  /// Devices in the younger generation, about 300 bytes each with one topic.
  private static let generationSize = 100_000

  subscript(key: DeviceKey) -> Device? {
    mutating get {
      if let device = connected[key] ?? recent[key] { return device }
      guard let device = older.removeValue(forKey: key) else { return nil }
      insert(device)
      return device
    }
  }

  /// The device of that key, if it is here; what was used before is not thereby used.
  func peek(_ key: DeviceKey) -> Device? { connected[key] ?? recent[key] ?? older[key] }

  mutating func insert(_ device: Device) {
    recent[device.key] = device
    guard recent.count > Self.generationSize else { return }
    // Two objects for one device would not know of each other's writes: who has some pending stays.
    let busy = older.filter { $0.value.pendingWrites > 0 }
    older = recent
    recent = busy
  }

  /// The device is connected: it must not be forgotten.
  mutating func keep(_ device: Device) {
    recent[device.key] = nil
    older[device.key] = nil
    connected[device.key] = device
  }

  mutating func letGo(_ device: Device) {
    connected[device.key] = nil
    insert(device)
  }
}
