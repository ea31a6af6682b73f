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

  private var table: CompactTable
  /// Whether the ids of stored notifications are needed. If so, stored notifications are not kept here.
  private let needsIDs: Bool
  /// By number; number 0 is unused.
  private var forms: [Form] = []
  private var numbers: [Shape: Int] = [:]
  /// The shape's number of the device that was put last, and of the one that was last read ahead.
  private var latest = 0
  private var latestRead = 0
  /// The last replacement of a number by that of the same shape with nothing stored.
  private var latestEmptied = (from: 0, to: 0)

  /// Shapes are never removed. If all devices differed, shapes would take more memory than they save.
  private static let shapeLimit = 1 << 14
  private static let topicLimit = 8

  /// - Parameter byteCount: bytes of the table at its full size.
  init(byteCount: Int, needsIDs: Bool) {
    table = CompactTable(byteCount: byteCount)
    self.needsIDs = needsIDs
  }

  var count: Int { table.count }

  /// Whether another device would probably evict one.
  var isFull: Bool { table.isFull }

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

  func place(of key: DeviceKey) -> Int? {
    table.place(of: key.id) { forms[$0].environment == key.environment }
  }

  func registration(at place: Int) -> Registration { forms[table.number(at: place)].registration }

  /// Removes the device of `key` from its place. Returns whether it is known what is stored for the device, and the
  /// stored notification if there is one.
  mutating func takeStored(
    of key: DeviceKey, at place: Int
  ) -> (isKnown: Bool, only: NotificationFacts?) {
    let stored = forms[table.number(at: place)].stored
    let order = table.order(at: place)
    table.remove(at: place)
    guard case .one(let topic, let pushType, let priority, let interface) = stored else {
      return (stored == .nothing, nil)
    }
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
    let known = table.number(at: place)
    guard forms[known].stored == .unknown else { return }
    if latestEmptied.from != known {
      var form = forms[known]
      form.stored = .nothing
      guard let emptied = number(of: form) else { return }
      latestEmptied = (known, emptied)
    }
    table.setNumber(latestEmptied.to, at: place)
  }

  /// Reads the memory that a search for the device will read, so that it is in the processor's cache by then.
  func prefetch(_ key: DeviceKey) -> UInt { table.prefetch(key.id) }

  private func storedShape(
    of device: Device
  ) -> (shape: StoredShape, order: UInt64, isAll: Bool) {
    guard device.knowsStored else { return (.unknown, 0, true) }
    guard device.storedCount > 0 else { return (.nothing, 0, true) }
    guard !needsIDs, let facts = device.onlyStored, facts.order < CompactTable.orderLimit
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
    guard forms.count < min(table.numberLimit, Self.shapeLimit) else { return nil }
    forms.append(form)
    numbers[shape] = forms.count - 1
    return forms.count - 1
  }

  private func isForm(_ number: Int, of device: Device, _ stored: StoredShape) -> Bool {
    forms[number].environment == device.key.environment && forms[number].stored == stored
      && forms[number].registration.isAbridged(of: device.registration)
  }

  private mutating func put(_ key: DeviceKey, _ number: Int, order: UInt64) {
    let forms = forms
    table.put(key.id, number: number, order: order) {
      forms[$0].environment == key.environment
    }
  }
}
