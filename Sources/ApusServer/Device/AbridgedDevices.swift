import ApusCore
import ApusModel
import ApusStore

/// What is remembered of nearly all devices, in 14 bytes each: what a notification needs to be decided about and to
/// take its slot in the store.
///
/// Devices are alike: the same app in the same state, and nothing or one notification stored. What a device shares with
/// others is a shape, which is kept once; what is its own are its id and the place in the order of acceptance of what
/// is stored for it. What its record says beyond that (its key, and since when its topics are as they are) is read when
/// the device comes, or when a token of it is not good.
///
/// What is here is as good as the store, as in ``FoldedDevices``: whoever takes a device takes it away.
///
/// A table of sets. The high bits of an id's hash choose the set, and the hash can be undone, so that the remaining
/// bits say which device it is. The bits that the set has said make room for the number of the shape.
///
/// There are two hashes. A device whose first set is getting full goes to its second one, if that has more room: with
/// one, 7 of 100 devices would be pushed out by others while an eighth of the table is free, and each of them costs two
/// reads of the store.
struct AbridgedDevices {
  /// What devices have in common.
  private struct Shape: Hashable {
    var environment: Environment
    /// Without times.
    var topics: [TopicRegistration]
    var stored: StoredShape
  }

  /// What is stored for a device, apart from its place in the order.
  private enum StoredShape: Hashable {
    /// It is to be asked for.
    case unknown
    case nothing
    case one(TopicKey, PushType?, Priority, ProviderInterface)
  }

  private struct Form {
    var environment: Environment
    /// One array for all devices of the shape.
    var registration: Registration
    var stored: StoredShape
  }

  /// What was remembered of a device. `stored` is nil where it is not known; its facts have no ids.
  struct Found {
    var registration: Registration
    var stored: [NotificationFacts]?
  }

  /// How much of a device was put away.
  enum Extent {
    case nothing
    case registration
    case all
  }

  /// The remainder of a hash, and below it, in as many bits as the set's number has, the number of the shape, and in
  /// the last of them which of the hashes it is. 0: free.
  private var words: [UInt64]
  /// The lower 32 and the upper 16 bits of the place in the order.
  private var lowOrders: [UInt32]
  private var highOrders: [UInt16]
  private var setBits: Int
  private let ways: Int
  private let maximumSetBits: Int
  /// Whether a stored notification's ids will be asked for: then one is not remembered here.
  private let needsIDs: Bool
  private(set) var count = 0
  /// Where the next device that finds its set full goes.
  private var turn = 0
  /// By number; number 0 stands for none.
  private var forms: [Form] = []
  private var numbers: [Shape: Int] = [:]
  /// The number of what was put last, and last read.
  private var latest = 0
  private var latestRead = 0
  /// The number that was last changed for that of the same shape with nothing stored, and that.
  private var latestEmptied = (from: 0, to: 0)

  static let deviceByteCount = 14
  private static let orderLimit: UInt64 = 1 << 48
  private static let minimumSetBits = 6
  private static let minimumWays = 8
  /// Shapes are never given up. Where devices are all different they would take more than they save.
  private static let shapeLimit = 1 << 14
  private static let topicLimit = 8

  /// - Parameter byteCount: bytes of the table when it is full grown.
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

  /// Whether another device would take the place of one that is remembered.
  var isFull: Bool { setBits == maximumSetBits && count >= words.count / 8 * 7 }

  func contains(_ key: DeviceKey) -> Bool { place(of: key) != nil }

  /// Takes a device out of here; nil where it is not here.
  mutating func take(_ key: DeviceKey) -> Found? {
    guard let place = place(of: key) else { return nil }
    let registration = registration(at: place)
    let (isKnown, only) = takeStored(of: key, at: place)
    return Found(
      registration: registration, stored: isKnown ? only.map { [$0] } ?? [] : nil)
  }

  // The same in parts, for who needs it fast: an optional value with all of them is copied, and its parts counted.

  func place(of key: DeviceKey) -> Int? { place(of: key, .first) ?? place(of: key, .second) }

  func registration(at place: Int) -> Registration { forms[number(at: place)].registration }

  /// Takes the device of `key` out of its place. Returns whether it is known what is stored for it, and what that is:
  /// nothing, or one notification.
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

  /// Puts a device away as far as it fits. `device` must be at rest.
  mutating func put(_ device: Device) -> Extent {
    guard device.registration.topics.count <= Self.topicLimit else { return .nothing }
    let (stored, order, isAll) = storedShape(of: device)
    guard let number = number(of: device, stored) else { return .nothing }
    put(device.key, number, order: order)
    return isAll ? .all : .registration
  }

  /// Puts a device of which nothing but its record is known.
  mutating func put(_ key: DeviceKey, record: Span<UInt8>) {
    // Without an object for each: nearly all of a table are like the one before.
    if latestRead > 0, forms[latestRead].environment == key.environment,
      DeviceRecord.has(forms[latestRead].registration.topics, in: record)
    {
      return put(key, latestRead, order: 0)
    }
    guard let record = try? DeviceRecord(decoding: record) else { return }
    let device = Device(key: key, registration: Registration(topics: record.topics))
    if put(device) != .nothing { latestRead = latest }
  }

  /// Notes that nothing is stored for a device, where it is here and that is not known.
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

  /// Reads what a search for the device will look at, for the processor to have it at hand.
  func warm(_ key: DeviceKey) -> UInt {
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

  /// The number of the device's shape; nil where it is new and there is no room for another.
  private mutating func number(of device: Device, _ stored: StoredShape) -> Int? {
    // As a rule the same as that of the one before.
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

  /// Undone by the inverse of each step: two ids never have the same.
  private static func hash(_ id: DeviceID, _ choice: Choice) -> UInt64 {
    let factor: UInt64 = choice == .first ? 0xd6e8_feb8_6659_fd93 : 0xff51_afd7_ed55_8ccd
    let mixed = id.rawValue &* factor
    return (mixed ^ mixed &>> 32) &* factor
  }

  /// The bits that the set's number leaves free.
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

  /// Where a device goes: to its own place, to a free one, or to one that another has to leave for it.
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

  /// Devices of a set beyond which the second one is looked at. Lower, it would be looked at for nothing; higher, more
  /// would find both full: at 9.5 of 11 taken, 3 of 10,000 do, and 86 if the first one is filled up before.
  private var crowdedWays: Int { ways * 3 / 4 }

  private func takenCount(in set: Range<Int>) -> Int {
    set.reduce(0) { words[$1] == 0 ? $0 : $0 + 1 }
  }

  private func freePlace(in set: Range<Int>) -> Int? { set.first { words[$0] == 0 } }

  /// Each set becomes two.
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
