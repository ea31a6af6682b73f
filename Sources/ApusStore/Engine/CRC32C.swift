/// The checksum of RFC 3720, section 12.1.
struct CRC32C {
  private var crc = UInt32.max
  /// A local copy is faster than the static property, which is checked for initialisation at each use.
  private let table = Self.table

  private static let table: [UInt32] = (0..<256).map { index in
    (0..<8).reduce(UInt32(index)) { crc, _ in
      crc & 1 == 1 ? crc >> 1 ^ 0x82f6_3b78 : crc >> 1
    }
  }

  /// The checksum of the bytes so far.
  var value: UInt32 { ~crc }

  /// As the engine stores it: a CRC over bytes that contain CRCs would be weak.
  var masked: UInt32 { (value >> 15 | value << 17) &+ 0xa282_ead8 }

  @inline(__always)
  mutating func add(_ byte: UInt8) {
    crc = table[Int(UInt8(truncatingIfNeeded: crc) ^ byte)] ^ crc >> 8
  }

  static func of(_ bytes: Span<UInt8>) -> CRC32C {
    var crc = CRC32C()
    for index in bytes.indices { crc.add(bytes[index]) }
    return crc
  }
}
