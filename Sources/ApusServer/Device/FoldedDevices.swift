import ApusCore
import ApusModel
import ApusStore

/// What is remembered of devices that were not looked at lately: a fifth of the bytes that they take in use.
///
/// Their bytes stand one behind the other in a ring, where what is new takes the place of what is oldest. A table leads
/// to them: a set of eight slots for each hash, which is a line of the processor's cache.
///
/// What is here is as good as the store: a device belongs to one worker, nothing changes it while it is folded, and
/// whoever takes it takes it away.
struct FoldedDevices {
  /// Where a device may stand: bits 0 to 39 are its place among all bytes that were ever written, in units of
  /// ``alignment``; the others are part of its hash. 0: nowhere.
  private typealias Slot = UInt64

  private var ring: [UInt8] = []
  private let capacity: Int
  /// Bytes that were ever written, and one round more, so that no place is 0.
  private var written: Int
  private var slots = [Slot](repeating: 0, count: 64)
  private var output: [UInt8] = []
  private var scratch: [UInt8] = []

  /// Of a device: id (8), environment (1), length (2), and the bytes of `FoldedDevice`.
  private static let headerByteCount = 11
  private static let alignment = 8
  private static let setSize = 8
  private static let placeBits: UInt64 = 40
  /// A device with one topic and one stored notification, in the ring.
  private static let typicalBytes = 136
  /// Devices with many topics are read from the store again.
  private static let largestBytes = 1024

  /// - Parameter byteCount: bytes of the ring and the table together, when both are full.
  init(byteCount: Int) {
    // Two slots for a device, or up to four.
    let devices = max(byteCount, 64 * 1024) / (Self.typicalBytes + 3 * MemoryLayout<Slot>.stride)
    capacity = devices * Self.typicalBytes / Self.alignment * Self.alignment
    written = capacity
  }

  /// Puts a device away. `device` must be at rest.
  ///
  /// - Parameter withRecord: false where its record is remembered elsewhere, or is not known.
  mutating func fold(_ device: Device, withRecord: Bool = true) {
    let fingerprint = device.keyFingerprint
    let record = DeviceRecord(
      fingerprint: KeyFingerprint(bytes: fingerprint.span) ?? .none,
      issuedSeconds: device.issuedSeconds, topics: device.registration.topics)
    let folded = FoldedDevice(
      record: withRecord ? record : nil, stored: Self.plainFacts(of: device))
    folded.encode(into: &output, scratch: &scratch)
    guard Self.headerByteCount + output.count <= Self.largestBytes else { return }
    var entry = [UInt8](capacity: Self.headerByteCount) { header in
      for shift in stride(from: 56, through: 0, by: -8) {
        header.append(UInt8(truncatingIfNeeded: device.key.id.rawValue &>> UInt64(shift)))
      }
      header.append(device.key.environment.rawValue)
      header.append(UInt8(truncatingIfNeeded: output.count >> 8))
      header.append(UInt8(truncatingIfNeeded: output.count))
    }
    entry.append(output.span)
    let place = append(entry)
    let hash = Self.hash(device.key)
    slots[freeSlot(hash)] = Self.tag(hash) | UInt64(place / Self.alignment)
    if ring.count / Self.typicalBytes * 2 > slots.count { grow() }
  }

  /// What is stored for it; nil where that is not known, or takes more to say: then it is read from the store again.
  private static func plainFacts(of device: Device) -> [NotificationFacts]? {
    guard device.knowsStored, device.stored.allSatisfy(\.isPlain) else { return nil }
    return device.stored.map(\.facts)
  }

  /// Whether a device may be here: none is taken for one that is not.
  func mayHave(_ key: DeviceKey) -> Bool {
    guard !ring.isEmpty else { return false }
    let hash = Self.hash(key)
    return set(hash).contains { Self.tag(slots[$0]) == Self.tag(hash) && isKept(slots[$0]) }
  }

  /// Takes a device out of here; nil where it is not here (any more).
  mutating func take(_ key: DeviceKey) -> FoldedDevice? {
    let hash = Self.hash(key)
    let tag = Self.tag(hash)
    for slot in set(hash) where Self.tag(slots[slot]) == tag && isKept(slots[slot]) {
      let start = Self.place(slots[slot]) % capacity
      guard self.key(at: start) == key else { continue }
      slots[slot] = 0
      let length = Int(ring[start + 9]) << 8 | Int(ring[start + 10])
      let bytes = ring.span.extracting(
        start + Self.headerByteCount..<start + Self.headerByteCount + length)
      return try? FoldedDevice(decoding: bytes, device: key.id)
    }
    return nil
  }

  // MARK: The ring

  /// Writes the bytes and returns where they stand. They do not go over the ring's end.
  private mutating func append(_ bytes: [UInt8]) -> Int {
    let length = (bytes.count + Self.alignment - 1) / Self.alignment * Self.alignment
    if written % capacity + length > capacity { written += capacity - written % capacity }
    if written / Self.alignment >= 1 << Self.placeBits - 1 { forgetAll() }
    let place = written
    let start = place % capacity
    if ring.count < start + length {
      if ring.isEmpty { ring.reserveCapacity(capacity) }
      ring.append(contentsOf: repeatElement(0, count: start + length - ring.count))
    }
    ring.write(bytes.span, at: start)
    written += length
    return place
  }

  /// Whether nothing has been written over the device.
  private func isKept(_ slot: Slot) -> Bool {
    slot != 0 && written <= Self.place(slot) + capacity
  }

  private func key(at start: Int) -> DeviceKey? {
    guard let environment = Environment(rawValue: ring[start + 8]) else { return nil }
    return DeviceKey(id: DeviceID(ring.span.eightBytes(at: start)), environment: environment)
  }

  // MARK: The table

  private static func hash(_ key: DeviceKey) -> UInt64 {
    let mixed = (key.id.rawValue ^ UInt64(key.environment.rawValue)) &* 0xd6e8_feb8_6659_fd93
    return (mixed ^ mixed &>> 32) &* 0xd6e8_feb8_6659_fd93
  }

  /// The part of a hash, or of a slot, that a slot has.
  private static func tag(_ hash: UInt64) -> UInt64 { (hash &>> placeBits) &<< placeBits }

  private static func place(_ slot: Slot) -> Int {
    Int(slot & (1 << placeBits - 1)) * alignment
  }

  /// The slots that a hash may have.
  private func set(_ hash: UInt64) -> Range<Int> {
    // The low bits: the high ones are in the slot.
    let first = Int(hash & UInt64(slots.count / Self.setSize - 1)) * Self.setSize
    return first..<first + Self.setSize
  }

  /// A free slot of the hash, or that of the oldest device.
  private func freeSlot(_ hash: UInt64) -> Int {
    var oldest = set(hash).lowerBound
    for slot in set(hash) {
      guard isKept(slots[slot]) else { return slot }
      if Self.place(slots[slot]) < Self.place(slots[oldest]) { oldest = slot }
    }
    return oldest
  }

  /// Places would not fit into a slot any more: after 8 TB.
  private mutating func forgetAll() {
    slots = [Slot](repeating: 0, count: slots.count)
    written = capacity
  }

  private mutating func grow() {
    let old = slots
    slots = [Slot](repeating: 0, count: old.count * 2)
    for slot in old where isKept(slot) {
      guard let key = key(at: Self.place(slot) % capacity) else { continue }
      slots[freeSlot(Self.hash(key))] = slot
    }
  }
}
