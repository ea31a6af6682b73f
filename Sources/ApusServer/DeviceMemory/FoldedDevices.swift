import ApusCore
import ApusModel
import ApusStore

/// Devices that were not used lately, in a fifth of the bytes of their objects.
///
/// Their bytes are in a ring, where new entries overwrite the oldest; a table finds them.
///
/// The content is as current as the store: a device belongs to one worker, nothing changes it while it is folded, and
/// taking a device removes it here.
struct FoldedDevices {
  /// Where the bytes of a device are, and the hash of its key: 8 bytes, so that the table reads no bytes of the ring to
  /// move an entry.
  private struct Entry: HashTableEntry {
    /// The hash in the upper half; in the lower one the start in the ring in units of ``alignment``, plus one. 0: free.
    private let word: UInt64

    static let free = Entry(word: 0)

    private init(word: UInt64) { self.word = word }

    init(start: Int, hash: Int) {
      word = UInt64(truncatingIfNeeded: hash) &<< 32 | UInt64(start / alignment + 1)
    }

    var isFree: Bool { word == 0 }
    var hash: Int { Int(word &>> 32) }
    var start: Int { (Int(word & 0xffff_ffff) - 1) * alignment }
  }

  private var table = HashTable<Entry>()
  private var ring: [UInt8] = []
  private let capacity: Int
  /// Bytes that were ever written, and those of them that were overwritten: multiples of ``alignment``.
  private var written = 0
  private var overwritten = 0
  private var output: [UInt8] = []
  private var scratch: [UInt8] = []

  /// Header of a device: id (8), environment (1), length (2). The bytes of `FoldedDevice` follow.
  private static let headerByteCount = 11
  /// In the place of an environment: what follows, to the ring's end, is unused.
  private static let unused: UInt8 = 0xff
  private static let alignment = 8
  /// Bytes in the ring of a device with one topic and one stored notification.
  private static let typicalBytes = 136
  /// Larger devices, which have many topics, are not kept: they are read from the store again.
  private static let largestBytes = 1024
  /// What a place can express.
  private static let largestRing = Int(UInt32.max) * alignment

  /// - Parameter byteCount: bytes of the ring and the table together at their full size.
  init(byteCount: Int) {
    // Two to four places per device.
    let devices = max(byteCount, 64 * 1024) / (Self.typicalBytes + 3 * MemoryLayout<Entry>.stride)
    capacity = min(
      devices * Self.typicalBytes / Self.alignment * Self.alignment, Self.largestRing)
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
    let place = Entry(start: append(entry), hash: device.key.tableHash)
    let index = index(of: device.key)
    if table[index].isFree {
      table.insert(place, at: index, hash: \.hash)
    } else {
      table[index] = place
    }
  }

  /// What is stored for the device. Nil if unknown, or not representable here: then it is read from the store again.
  private static func plainFacts(of device: Device) -> [NotificationFacts]? {
    guard device.knowsStored, device.stored.allSatisfy(\.isPlain) else { return nil }
    return device.stored.map(\.facts)
  }

  func has(_ key: DeviceKey) -> Bool { !table[index(of: key)].isFree }

  /// Removes a device and returns it; nil if it is not here, or has been overwritten.
  mutating func take(_ key: DeviceKey) -> FoldedDevice? {
    let index = index(of: key)
    guard !table[index].isFree else { return nil }
    let start = table[index].start
    table.remove(at: index, hash: \.hash)
    let bytes = ring.span.extracting(start + Self.headerByteCount..<start + byteCount(at: start))
    return try? FoldedDevice(decoding: bytes, device: key.id)
  }

  private func index(of key: DeviceKey) -> Int {
    let hash = key.tableHash
    return table.index(hash) { table[$0].hash == hash && self.key(at: table[$0].start) == key }
  }

  // MARK: The ring

  /// Writes the bytes, without wrapping at the ring's end, and returns their start.
  private mutating func append(_ bytes: [UInt8]) -> Int {
    let length = Self.aligned(bytes.count)
    let left = capacity - written % capacity
    if left < length {
      forget(before: written + left - capacity)
      if ring.count < capacity {
        ring.append(contentsOf: repeatElement(0, count: capacity - ring.count))
      }
      if left >= Self.headerByteCount { ring[written % capacity + 8] = Self.unused }
      written += left
    }
    forget(before: written + length - capacity)
    let start = written % capacity
    if ring.count < start + length {
      if ring.isEmpty { ring.reserveCapacity(capacity) }
      ring.append(contentsOf: repeatElement(0, count: start + length - ring.count))
    }
    ring.write(bytes.span, at: start)
    written += length
    return start
  }

  /// Removes from the table what begins before that number of bytes ever written.
  private mutating func forget(before end: Int) {
    while overwritten < end {
      let start = overwritten % capacity
      guard capacity - start >= Self.headerByteCount, let key = key(at: start) else {
        overwritten += capacity - start
        continue
      }
      // Not there if it was taken, or folded again.
      let index = table.index(key.tableHash) { table[$0].start == start }
      if !table[index].isFree { table.remove(at: index, hash: \.hash) }
      overwritten += Self.aligned(byteCount(at: start))
    }
  }

  private static func aligned(_ count: Int) -> Int {
    (count + alignment - 1) / alignment * alignment
  }

  /// Bytes of the device at `start`, header included.
  private func byteCount(at start: Int) -> Int {
    Self.headerByteCount + (Int(ring[start + 9]) << 8 | Int(ring[start + 10]))
  }

  /// Nil if nothing is there.
  private func key(at start: Int) -> DeviceKey? {
    guard let environment = Environment(rawValue: ring[start + 8]) else { return nil }
    return DeviceKey(id: DeviceID(ring.span.eightBytes(at: start)), environment: environment)
  }
}
