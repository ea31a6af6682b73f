import ApusCore
import ApusLoop
import ApusModel
import ApusTLS

/// The quiet devices of a worker.
///
/// A device that is connected has nine objects, which take two kilobytes: right for one that is spoken with, and most
/// of what a service takes whose devices are silent for hours. One that nothing waits for, and that has said nothing
/// for `Limits.courierDormantSeconds`, is a row here instead, at the slot of its connection.
///
/// Its connection is open, its loop watches the socket, and in every count it is connected. Whoever asks for it has it
/// woken, with everything as it was: see `Worker.fallDormant` and `Worker.wake`.
@safe final class DormantDevices {
  var rows = DormantRows<DormantRow>()
  private(set) var dormancy = Dormancy()

  private var places = DormantPlaces()
  /// False breaks the rule that they are found, for simulations that are to notice.
  var isFound = true

  /// The doors by which they came. There are a few, and after a change of certificates a few more.
  private var doors: [(door: Door, count: Int)?] = []
  /// Of devices, since memory was returned; and when that was.
  private var mostAwake = 0
  private var returnedSeconds: UInt64 = 0

  // MARK: Looking up

  func has(_ slot: Int32) -> Bool { rows.has(Int(slot)) }

  /// All of them.
  var slots: [Int32] { rows.slots.map { Int32($0) } }

  /// Where the device is, if it is dormant.
  func slot(of key: DeviceKey) -> Int32? {
    guard dormancy.count > 0, isFound else { return nil }
    return places.slot(of: key) { rows[$0].key }
  }

  /// Has the processor fetch what `slot(of:)` and a wake read first.
  func warm(_ key: DeviceKey) -> UInt {
    guard let slot = slot(of: key) else { return 0 }
    return UInt(rows[Int(slot)].door)
  }

  func door(of slot: Int32) -> Door {
    guard let door = doors[Int(rows[Int(slot)].door)]?.door else {
      preconditionFailure("a dormant device has no listener")
    }
    return door
  }

  // MARK: Coming and going

  /// A number for the door, where there is memory for a row of the slot.
  func reserve(_ slot: Int32, _ door: Door) -> UInt16? {
    guard slot < DormantPlaces.slotLimit, rows.reserve(Int(slot)) else { return nil }
    let known = doors.firstIndex { $0?.door === door }
    if known == nil, doors.count > Int(UInt16.max) { return nil }
    guard let place = known ?? doors.firstIndex(where: { $0 == nil }) else {
      doors.append((door, 0))
      return UInt16(doors.count - 1)
    }
    if doors[place] == nil { doors[place] = (door, 0) }
    return UInt16(place)
  }

  /// Puts a device here, whose slot and door were reserved.
  func insert(_ row: consuming DormantRow, at slot: Int32) {
    let key = row.key
    doors[Int(row.door)]?.count += 1
    rows.insert(row, at: Int(slot))
    dormancy.count += 1
    dormancy.fallen += 1
    places.enter(slot, key) { rows[$0].key }
  }

  /// Takes the device out; its keys are wiped.
  func remove(at slot: Int32) {
    places.leave(slot) { rows[$0].key }
    rows[Int(slot)].tls?.wipe()
    let door = Int(rows[Int(slot)].door)
    rows.remove(at: Int(slot))
    dormancy.count -= 1
    dormancy.woken += 1
    doors[door]?.count -= 1
    if doors[door]?.count == 0 { doors[door] = nil }
  }

  // MARK: What they had before

  /// Whether memory is to be returned to the system: many devices have fallen dormant that were awake together. Where
  /// as many are woken as fall dormant it would only be asked for again.
  ///
  /// - Parameter awake: Connected devices that are not dormant. Told each second.
  func freedMuch(awake: Int, nowSeconds: UInt64) -> Bool {
    mostAwake = max(mostAwake, awake)
    guard mostAwake - awake >= max(Self.fewestReturned, mostAwake / 8),
      nowSeconds >= returnedSeconds + Self.returnSeconds
    else { return false }
    mostAwake = awake
    returnedSeconds = nowSeconds
    return true
  }

  /// 128 KB.
  private static let fewestReturned = 64
  private static let returnSeconds: UInt64 = 5
}
