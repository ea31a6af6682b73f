import ApusModel

/// The types of frames (RFC 9113, section 6).
enum FrameType {
  static let data: UInt8 = 0x0
  static let headers: UInt8 = 0x1
  static let priority: UInt8 = 0x2
  static let resetStream: UInt8 = 0x3
  static let settings: UInt8 = 0x4
  static let pushPromise: UInt8 = 0x5
  static let ping: UInt8 = 0x6
  static let goAway: UInt8 = 0x7
  static let windowUpdate: UInt8 = 0x8
  static let continuation: UInt8 = 0x9
}

enum FrameFlag {
  static let endStream: UInt8 = 0x1
  static let acknowledge: UInt8 = 0x1
  static let endHeaders: UInt8 = 0x4
  static let padded: UInt8 = 0x8
  static let priority: UInt8 = 0x20
}

/// The nine bytes before each payload (RFC 9113, section 4.1).
struct FrameHead {
  static let byteCount = 9
  /// SETTINGS_MAX_FRAME_SIZE and its minimum (section 6.5.2).
  static let payloadBytes = 16_384

  var length: Int
  var type: UInt8
  var flags: UInt8
  var streamID: Int32

  /// - Parameter bytes: at least nine.
  init(_ bytes: Span<UInt8>) {
    length = Int(bytes[0]) << 16 | Int(bytes[1]) << 8 | Int(bytes[2])
    type = bytes[3]
    flags = bytes[4]
    streamID = Int32(truncatingIfNeeded: bytes.fourBytes(at: 5) & 0x7fff_ffff)
  }

  func has(_ flag: UInt8) -> Bool { flags & flag != 0 }
}
