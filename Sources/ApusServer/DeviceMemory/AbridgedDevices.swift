import ApusCore
import ApusModel
import ApusStore

/// Nearly all devices in 14 bytes each: enough to decide on a notification and to assign its slot in the store.
///
/// Most devices are alike: the same app in the same state, and at most one notification stored. The common part is a
/// shape, kept once. Kept per device are its id, and the acceptance order of its stored notification. The rest of its
/// record (its key, and since when its topics are in their state) is read from the store when the device connects, or
/// when one of its tokens is not valid.
///
/// The content is as current as the store, as in ``FoldedDevices``: taking a device removes it here.
///
/// Not a `HashTable`, because that needs the keys: here a key is not stored, which halves the bytes. The table consists
/// of sets. The high bits of an id's hash choose the set. The hash is invertible, so the remaining
/// bits identify the device, and the shape's number takes the place of the bits that the set implies.
///
/// There are two hashes. A device whose first set is getting full goes to its second set if that has more room. With
/// one hash, 7 of 100 devices would be evicted while an eighth of the table is free, and each eviction costs two reads
/// of the store.
struct AbridgedDevices {
  /// What alike devices have in common.
  private struct Shape: Hashable {
    var environment: Environment
    /// Without times.
    var topics: [TopicRegistration]
    var stored: StoredShape
  }

  /// What is stored for a device, apart from its acceptance order.
  private enum StoredShape: Hashable {
    /// Not known: the store must be read.
    case unknown
    case nothing
    case one(TopicKey, PushType?, Priority, ProviderInterface)
  }

  private struct Form {
    var environment: Environment
    /// One array shared by all devices of the shape.
    var registration: Registration
    var stored: StoredShape
  }

  /// A device taken from the table. `stored` is nil if unknown; its facts have no ids.
  struct Found {
    var registration: Registration
    var stored: [NotificationFacts]?
  }

  /// How much of a device was kept.
  enum Extent {
    case nothing
    case registration
    case all
  }

  /// From the high bits down: the remainder of a hash; then, in as many bits as the set's number has, the shape's
  /// number and in the lowest bit which hash was used. 0: free.
  private var words: [UInt64]
  /// The lower 32 and the upper 16 bits of the acceptance order.
  private var lowOrders: [UInt32]
  private var highOrders: [UInt16]
  private var setBits: Int
  private let ways: Int
  private let maximumSetBits: Int
  /// Whether the ids of stored notifications are needed. If so, stored notifications are not kept here.
  private let needsIDs: Bool
  private(set) var count = 0
  /// Index within a full set of the next device to evict.
  private var turn = 0
  /// By number; number 0 is unused.
  private var forms: [Form] = []
  private var numbers: [Shape: Int] = [:]
  /// The shape's number of the device that was put last, and of the one that was last read ahead.
  private var latest = 0
  private var latestRead = 0
  /// The last replacement of a number by that of the same shape with nothing stored.
  private var latestEmptied = (from: 0, to: 0)

  static let deviceByteCount = 14
  private static let orderLimit: UInt64 = 1 << 48
  private static let minimumSetBits = 6
  private static let minimumWays = 8
  /// Shapes are never removed. If all devices differed, shapes would take more memory than they save.
  private static let shapeLimit = 1 << 14
  private static let topicLimit = 8

  /// - Parameter byteCount: bytes of the table at its full size.
  init(byteCount: Int, needsIDs: Bool) {
    var bits = Self.minimumSetBits
    let way = Self.deviceByteCount
    while (way * Self.minimumWays) << (bits + 1) <= byteCount { bits += 1 }
    maximumSetBits = bits
    ways = max(Self.minimumWays, byteCount / (way << bits))
    setBits = Self.minimumSetBits
    words = [UInt64](repeating: 0, count: ways << setBits)
    lowOrders = [UInt32](repeating: 0, count: ways << setBits)
    highOrders = [UInt16](repeating: 0, count: ways << setBits)
    self.needsIDs = needsIDs
  }

  /// Whether another device would probably evict one.
  var isFull: Bool { setBits == maximumSetBits && count >= words.count / 8 * 7 }

  func contains(_ key: DeviceKey) -> Bool { place(of: key) != nil }

  /// Removes a device from the table and returns it; nil if it is not here.
  mutating func take(_ key: DeviceKey) -> Found? {
    guard let place = place(of: key) else { return nil }
    let registration = registration(at: place)
    let (isKnown, only) = takeStored(of: key, at: place)
    return Found(
      registration: registration, stored: isKnown ? only.map { [$0] } ?? [] : nil)
  }

  // The same in parts, for speed: returning all parts in one optional would copy and retain each of them.

  func place(of key: DeviceKey) -> Int? { place(of: key, .first) ?? place(of: key, .second) }

  func registration(at place: Int) -> Registration { forms[number(at: place)].registration }

  /// Removes the device of `key` from its place. Returns whether it is known what is stored for the device, and the
  /// stored notification if there is one.
  mutating func takeStored(
    of key: DeviceKey, at place: Int
  ) -> (isKnown: Bool, only: NotificationFacts?) {
    let stored = forms[number(at: place)].stored
    words[place] = 0
    count -= 1
    guard case .one(let topic, let pushType, let priority, let interface) = stored else {
      return (stored == .nothing, nil)
    }
    let order = UInt64(highOrders[place]) << 32 | UInt64(lowOrders[place])
    let only = NotificationFacts(
      order: order, id: NotificationID(high: 0, low: 0), uniqueID: NotificationID(high: 0, low: 0),
      device: key.id, topic: topic, environment: key.environment, tokenPrefix: 0,
      pushType: pushType, priority: priority, interface: interface)
    return (true, only)
  }

  /// Keeps as much of a device as fits. `device` must be at rest.
  mutating func put(_ device: Device) -> Extent {
    guard device.registration.topics.count <= Self.topicLimit else { return .nothing }
    let (stored, order, isAll) = storedShape(of: device)
    guard let number = number(of: device, stored) else { return .nothing }
    put(device.key, number, order: order)
    return isAll ? .all : .registration
  }

  /// Keeps a device of which only the record is known.
  mutating func put(_ key: DeviceKey, record: Span<UInt8>) {
    // Compares the record with the previous shape first: most rows of a table have the same one, and need no object.
    if latestRead > 0, forms[latestRead].environment == key.environment,
      DeviceRecord.has(forms[latestRead].registration.topics, in: record)
    {
      return put(key, latestRead, order: 0)
    }
    guard let record = try? DeviceRecord(decoding: record) else { return }
    let device = Device(key: key, registration: Registration(topics: record.topics))
    if put(device) != .nothing { latestRead = latest }
  }

  /// Notes that nothing is stored for a device, if it is here and that was unknown.
  mutating func noteNothingStored(for key: DeviceKey) {
    guard let place = place(of: key) else { return }
    let known = number(at: place)
    guard forms[known].stored == .unknown else { return }
    if latestEmptied.from != known {
      var form = forms[known]
      form.stored = .nothing
      guard let emptied = number(of: form) else { return }
      latestEmptied = (known, emptied)
    }
    let kept = ~numberMask | 1
    words[place] = words[place] & kept | UInt64(latestEmptied.to) &<< 1
  }

  /// Reads the memory that a search for the device will read, so that it is in the processor's cache by then.
  func prefetch(_ key: DeviceKey) -> UInt {
    let set = set(Self.hash(key.id, .first))
    return UInt(truncatingIfNeeded: words[set.lowerBound] &+ words[set.upperBound - 1])
  }

  private func storedShape(
    of device: Device
  ) -> (shape: StoredShape, order: UInt64, isAll: Bool) {
    guard device.knowsStored else { return (.unknown, 0, true) }
    guard device.storedCount > 0 else { return (.nothing, 0, true) }
    guard !needsIDs, let facts = device.onlyStored, facts.order < Self.orderLimit
    else { return (.unknown, 0, false) }
    let shape = StoredShape.one(facts.topic, facts.pushType, facts.priority, facts.interface)
    return (shape, facts.order, true)
  }

  // MARK: Shapes

  /// The number of the device's shape; nil if it is new and there is no room for another.
  private mutating func number(of device: Device, _ stored: StoredShape) -> Int? {
    // Usually the same shape as that of the previous device.
    if latest > 0, isForm(latest, of: device, stored) { return latest }
    let registration =
      device.isAbridged ? device.registration : device.registration.abridged()
    let form = Form(
      environment: device.key.environment, registration: registration, stored: stored)
    guard let number = number(of: form) else { return nil }
    latest = number
    return number
  }

  private mutating func number(of form: Form) -> Int? {
    let shape = Shape(
      environment: form.environment, topics: form.registration.topics, stored: form.stored)
    if let number = numbers[shape] { return number }
    if forms.isEmpty { forms.append(form) }
    guard forms.count < min(1 << (setBits - 1), Self.shapeLimit) else { return nil }
    forms.append(form)
    numbers[shape] = forms.count - 1
    return forms.count - 1
  }

  private func isForm(_ number: Int, of device: Device, _ stored: StoredShape) -> Bool {
    forms[number].environment == device.key.environment && forms[number].stored == stored
      && forms[number].registration.isAbridged(of: device.registration)
  }

  // MARK: The table

  private enum Choice: UInt64 { case first, second }

  /// Every step is invertible: no two ids have the same hash.
  private static func hash(_ id: DeviceID, _ choice: Choice) -> UInt64 {
    let factor: UInt64 = choice == .first ? 0xd6e8_feb8_6659_fd93 : 0xff51_afd7_ed55_8ccd
    let mixed = id.rawValue &* factor
    return (mixed ^ mixed &>> 32) &* factor
  }

  /// The low bits of a word: shape number and hash choice.
  private var numberMask: UInt64 { 1 << UInt64(setBits) - 1 }

  private func number(at place: Int) -> Int { Int((words[place] & numberMask) &>> 1) }

  private func set(_ hash: UInt64) -> Range<Int> {
    let first = Int(hash &>> UInt64(64 - setBits)) * ways
    return first..<first + ways
  }

  private func place(of key: DeviceKey, _ choice: Choice) -> Int? {
    let hash = Self.hash(key.id, choice)
    let remainder = hash &<< UInt64(setBits)
    let mask = numberMask
    return set(hash).first { place in
      let word = words[place]
      return word & ~mask == remainder && word & 1 == choice.rawValue && word & mask > 1
        && forms[Int((word & mask) &>> 1)].environment == key.environment
    }
  }

  private mutating func put(_ key: DeviceKey, _ number: Int, order: UInt64) {
    var target = target(for: key)
    while target.isOfAnother, setBits < maximumSetBits, count >= words.count / 2 {
      grow()
      target = self.target(for: key)
    }
    let (place, choice) = (target.place, target.choice)
    if words[place] == 0 { count += 1 }
    let remainder = Self.hash(key.id, choice) &<< UInt64(setBits)
    words[place] = remainder | UInt64(number) &<< 1 | choice.rawValue
    lowOrders[place] = UInt32(truncatingIfNeeded: order)
    highOrders[place] = UInt16(truncatingIfNeeded: order &>> 32)
  }

  /// Where to put a device: in its present place, in a free one, or in that of a device to evict.
  private mutating func target(
    for key: DeviceKey
  ) -> (place: Int, choice: Choice, isOfAnother: Bool) {
    if let place = place(of: key) {
      return (place, words[place] & 1 == 0 ? .first : .second, false)
    }
    var (chosen, choice) = (set(Self.hash(key.id, .first)), Choice.first)
    let taken = takenCount(in: chosen)
    if taken >= crowdedWays {
      let second = set(Self.hash(key.id, .second))
      if takenCount(in: second) < taken { (chosen, choice) = (second, .second) }
    }
    if let free = freePlace(in: chosen) { return (free, choice, false) }
    turn = (turn + 1) % ways
    return (chosen.lowerBound + turn, choice, true)
  }

  /// Number of devices in a set from which the second set is tried. A lower threshold would try it needlessly; a higher
  /// one makes more devices find both sets full. At 9.5 of 11 taken, 3 of 10,000 devices do; 86 if the first set is
  /// filled up before.
  private var crowdedWays: Int { ways * 3 / 4 }

  private func takenCount(in set: Range<Int>) -> Int {
    set.reduce(0) { words[$1] == 0 ? $0 : $0 + 1 }
  }

  private func freePlace(in set: Range<Int>) -> Int? { set.first { words[$0] == 0 } }

  /// Splits each set into two.
  private mutating func grow() {
    let (oldWords, oldLow, oldHigh, oldBits) = (words, lowOrders, highOrders, setBits)
    let mask = numberMask
    setBits += 1
    words = [UInt64](repeating: 0, count: ways << setBits)
    lowOrders = [UInt32](repeating: 0, count: ways << setBits)
    highOrders = [UInt16](repeating: 0, count: ways << setBits)
    for (place, word) in oldWords.enumerated() where word != 0 {
      let hash = UInt64(place / ways) &<< UInt64(64 - oldBits) | (word & ~mask) &>> UInt64(oldBits)
      guard let new = freePlace(in: set(hash)) else { continue }
      words[new] = hash &<< UInt64(setBits) | word & mask
      lowOrders[new] = oldLow[place]
      highOrders[new] = oldHigh[place]
    }
  }
}
