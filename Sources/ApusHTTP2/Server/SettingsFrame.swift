import ApusModel

/// The SETTINGS frames that the service sends, byte for byte, and the settings that it reads from a client's.
enum SettingsFrame {
  /// RFC 9113, section 6.5.2.
  enum Setting {
    static let headerTableSize: UInt16 = 0x1
    static let enablePush: UInt16 = 0x2
    static let maxConcurrentStreams: UInt16 = 0x3
    static let initialWindowSize: UInt16 = 0x4
    static let maxFrameSize: UInt16 = 0x5
    static let maxHeaderListSize: UInt16 = 0x6
  }

  /// An identifier and a value.
  static let entryBytes = 6

  /// As APNs was seen to announce, and the initial value of RFC 9113, section 6.9.2.
  static let usualWindowBytes = 65_535

  /// The first frame, with the values that APNs was seen to announce.
  static func first(streamLimit: Int, windowBytes: Int = usualWindowBytes) -> [UInt8] {
    frame([
      (Setting.headerTableSize, 4096),
      (Setting.maxConcurrentStreams, UInt32(streamLimit)),
      (Setting.initialWindowSize, UInt32(windowBytes)),
      (Setting.maxFrameSize, 16384),
      (Setting.maxHeaderListSize, UInt32(Limits.headerListBytes)),
    ])
  }

  /// A later frame with only the limit.
  static func raise(streamLimit: Int) -> [UInt8] {
    frame([(Setting.maxConcurrentStreams, UInt32(streamLimit))])
  }

  private static func frame(_ settings: [(identifier: UInt16, value: UInt32)]) -> [UInt8] {
    var bytes: [UInt8] = [
      0, 0, UInt8(settings.count * entryBytes), FrameType.settings, 0, 0, 0, 0, 0,
    ]
    for setting in settings {
      bytes.append(UInt8(setting.identifier >> 8))
      bytes.append(UInt8(setting.identifier & 0xff))
      for shift in [24, 16, 8, 0] as [UInt32] {
        bytes.append(UInt8(setting.value >> shift & 0xff))
      }
    }
    return bytes
  }
}
