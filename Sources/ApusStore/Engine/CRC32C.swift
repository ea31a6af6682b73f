/// The checksum of RFC 3720, section 12.1.
struct CRC32C {
  private var crc = UInt32.max

  private static let table: [UInt32] = (0..<256).map { index in
    (0..<8).reduce(UInt32(index)) { crc, _ in
      crc & 1 == 1 ? crc >> 1 ^ 0x82f6_3b78 : crc >> 1
    }
  }

  /// The checksum of the bytes so far.
  var value: UInt32 { ~crc }

  /// As the engine stores it: a CRC over bytes that contain CRCs would be weak.
  var masked: UInt32 { (value >> 15 | value << 17) &+ 0xa282_ead8 }

  mutating func add(_ byte: UInt8) { crc = Self.table[Int((crc ^ UInt32(byte)) & 0xff)] ^ crc >> 8 }

  static func of(_ bytes: Span<UInt8>) -> CRC32C {
    var crc = UInt32.max
    // Each start reads all logs: without bounds checks, which an index of eight bits does not need in a table of 256.
    unsafe table.withUnsafeBufferPointer { table in
      unsafe bytes.withUnsafeBufferPointer { bytes in
        var index = 0
        while index < bytes.count {
          crc = unsafe table[Int((crc ^ UInt32(bytes[index])) & 0xff)] ^ crc &>> 8
          index &+= 1
        }
      }
    }
    var sum = CRC32C()
    sum.crc = crc
    return sum
  }
}
