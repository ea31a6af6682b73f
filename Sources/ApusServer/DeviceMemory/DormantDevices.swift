import ApusCore
import ApusLoop
import ApusModel
import ApusTLS

/// The quiet devices of a worker.
///
/// An active connection uses nine objects, about 2 KB. With devices that are silent for hours, these would be most of
/// the service's memory. A device with nothing pending that has been silent for `Limits.courierDormantSeconds` is
/// therefore kept as a row, at its connection's slot.
///
/// Its connection stays open, its loop watches the socket, and every count includes it as connected. Any access wakes
/// it with everything as it was: see `Worker.fallDormant` and `Worker.wake`.
@safe final class DormantDevices {
  var rows = DormantRows<DormantRow>()
  private(set) var dormancy = Dormancy()

  private var places = DormantPlaces()
  /// Simulations set this to false, which breaks the look-up, to check that they notice.
  var isFound = true

  /// The listeners of the devices' connections: a few, and some more after each change of certificates.
  private var listeners: [(listener: ServiceListener, count: Int)?] = []
  /// The most devices that were awake since memory was last returned, and when that was.
  private var mostAwake = 0
  private var returnedSeconds: UInt64 = 0

  // MARK: Looking up

  func has(_ slot: Int32) -> Bool { rows.has(Int(slot)) }

  /// The slots of all dormant devices.
  var slots: [Int32] { rows.slots.map { Int32($0) } }

  /// The slot of the device, if it is dormant.
  func slot(of key: DeviceKey) -> Int32? {
    guard dormancy.count > 0, isFound else { return nil }
    return places.slot(of: key) { rows[$0].key }
  }

  /// Reads the memory that `slot(of:)` and a wake read first, so that it is in the processor's cache.
  func prefetch(_ key: DeviceKey) -> UInt {
    guard let slot = slot(of: key) else { return 0 }
    return UInt(rows[Int(slot)].listener)
  }

  func listener(of slot: Int32) -> ServiceListener {
    guard let listener = listeners[Int(rows[Int(slot)].listener)]?.listener else {
      preconditionFailure("a dormant device has no listener")
    }
    return listener
  }

  // MARK: Coming and going

  /// A number for the listener; nil if there is no room for a row of the slot.
  func reserve(_ slot: Int32, _ listener: ServiceListener) -> UInt16? {
    guard slot < DormantPlaces.slotLimit, rows.reserve(Int(slot)) else { return nil }
    let known = listeners.firstIndex { $0?.listener === listener }
    if known == nil, listeners.count > Int(UInt16.max) { return nil }
    guard let place = known ?? listeners.firstIndex(where: { $0 == nil }) else {
      listeners.append((listener, 0))
      return UInt16(listeners.count - 1)
    }
    if listeners[place] == nil { listeners[place] = (listener, 0) }
    return UInt16(place)
  }

  /// Inserts a device whose slot and listener are reserved.
  func insert(_ row: consuming DormantRow, at slot: Int32) {
    let key = row.key
    listeners[Int(row.listener)]?.count += 1
    rows.insert(row, at: Int(slot))
    dormancy.count += 1
    dormancy.fallen += 1
    places.enter(slot, key) { rows[$0].key }
  }

  /// Removes the device and wipes its keys.
  func remove(at slot: Int32) {
    places.leave(slot) { rows[$0].key }
    rows[Int(slot)].tls?.wipe()
    let listener = Int(rows[Int(slot)].listener)
    rows.remove(at: Int(slot))
    dormancy.count -= 1
    dormancy.woken += 1
    listeners[listener]?.count -= 1
    if listeners[listener]?.count == 0 { listeners[listener] = nil }
  }

  // MARK: Memory

  /// Whether to return memory to the system, because many devices that were awake together have fallen dormant. While
  /// as many wake as fall dormant, the memory would be needed again at once.
  ///
  /// - Parameter awake: connected devices that are not dormant. Call this each second.
  func freedMuch(awake: Int, nowSeconds: UInt64) -> Bool {
    mostAwake = max(mostAwake, awake)
    guard mostAwake - awake >= max(Self.fewestReturned, mostAwake / 8),
      nowSeconds >= returnedSeconds + Self.returnSeconds
    else { return false }
    mostAwake = awake
    returnedSeconds = nowSeconds
    return true
  }

  /// Their objects take 128 KB.
  private static let fewestReturned = 64
  private static let returnSeconds: UInt64 = 5
}
