import ApusCore
import ApusModel
import ApusStore

/// Devices that were not used lately, in a fifth of the bytes of their objects.
///
/// Their bytes are in a ring, where new entries overwrite the oldest. A table finds them: each hash has a set of eight
/// slots, which is one line of the processor's cache.
///
/// The content is as current as the store: a device belongs to one worker, nothing changes it while it is folded, and
/// taking a device removes it here.
struct FoldedDevices {
  /// Bits 0 to 39 are a device's position among all bytes that were ever written, in units of ``alignment``; the others
  /// are part of its hash. 0: free.
  private typealias Slot = UInt64

  private var ring: [UInt8] = []
  private let capacity: Int
  /// Bytes that were ever written, plus one ring, so that no position is 0.
  private var written: Int
  private var slots = [Slot](repeating: 0, count: 64)
  private var output: [UInt8] = []
  private var scratch: [UInt8] = []

  /// Header of a device: id (8), environment (1), length (2). The bytes of `FoldedDevice` follow.
  private static let headerByteCount = 11
  private static let alignment = 8
  private static let setSize = 8
  private static let placeBits: UInt64 = 40
  /// Bytes in the ring of a device with one topic and one stored notification.
  private static let typicalBytes = 136
  /// Larger devices, which have many topics, are not kept: they are read from the store again.
  private static let largestBytes = 1024

  /// - Parameter byteCount: bytes of the ring and the table together at their full size.
  init(byteCount: Int) {
    // Two to four slots per device.
    let devices = max(byteCount, 64 * 1024) / (Self.typicalBytes + 3 * MemoryLayout<Slot>.stride)
    capacity = devices * Self.typicalBytes / Self.alignment * Self.alignment
    written = capacity
  }

  /// Writes a device to the ring. `device` must be at rest.
  ///
  /// - Parameter withRecord: false if its record is kept elsewhere, or is not known.
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

  /// What is stored for the device. Nil if unknown, or not representable here: then it is read from the store again.
  private static func plainFacts(of device: Device) -> [NotificationFacts]? {
    guard device.knowsStored, device.stored.allSatisfy(\.isPlain) else { return nil }
    return device.stored.map(\.facts)
  }

  /// Whether a device may be here. Never false for a device that is.
  func mayHave(_ key: DeviceKey) -> Bool {
    guard !ring.isEmpty else { return false }
    let hash = Self.hash(key)
    return set(hash).contains { Self.tag(slots[$0]) == Self.tag(hash) && isKept(slots[$0]) }
  }

  /// Removes a device and returns it; nil if it is not here, or has been overwritten.
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

  /// Writes the bytes, without wrapping at the ring's end, and returns their position.
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

  /// Whether the device has not been overwritten.
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

  /// The part of a hash that its slot contains.
  private static func tag(_ hash: UInt64) -> UInt64 { (hash &>> placeBits) &<< placeBits }

  private static func place(_ slot: Slot) -> Int {
    Int(slot & (1 << placeBits - 1)) * alignment
  }

  /// The set of slots of a hash.
  private func set(_ hash: UInt64) -> Range<Int> {
    // The low bits choose the set, because the slot has the high ones.
    let first = Int(hash & UInt64(slots.count / Self.setSize - 1)) * Self.setSize
    return first..<first + Self.setSize
  }

  /// A free slot of the hash's set, or the slot of its oldest device.
  private func freeSlot(_ hash: UInt64) -> Int {
    var oldest = set(hash).lowerBound
    for slot in set(hash) {
      guard isKept(slots[slot]) else { return slot }
      if Self.place(slots[slot]) < Self.place(slots[oldest]) { oldest = slot }
    }
    return oldest
  }

  /// Needed after 8 TB, when positions no longer fit into a slot.
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
