import ApusModel

/// The SETTINGS frames that both roles send, byte for byte, and how they read those of the peer.
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

  /// A server's first frame, with the values that APNs was seen to announce.
  static func server(streamLimit: Int, windowBytes: Int = usualWindowBytes) -> [UInt8] {
    frame([
      (Setting.headerTableSize, 4096),
      (Setting.maxConcurrentStreams, UInt32(streamLimit)),
      (Setting.initialWindowSize, UInt32(windowBytes)),
      (Setting.maxFrameSize, 16384),
      (Setting.maxHeaderListSize, UInt32(Limits.headerListBytes)),
    ])
  }

  /// A client's only frame: it takes no pushes.
  static var client: [UInt8] { frame([(Setting.enablePush, 0)]) }

  /// A server's later frame with only the limit.
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

  /// Calls `body` with each setting, in order: if one repeats, its last value counts (section 6.5). Values that
  /// section 6.5.2 forbids are errors.
  ///
  /// - Parameter payload: Of a frame that was checked (`FrameHead.check`).
  static func read(
    _ payload: Span<UInt8>, _ body: (UInt16, Int) throws(SessionFailure) -> Void
  ) throws(SessionFailure) {
    for offset in stride(from: 0, to: payload.count, by: entryBytes) {
      let identifier = UInt16(payload[offset]) << 8 | UInt16(payload[offset + 1])
      let value = Int(payload.fourBytes(at: offset + 2))
      switch identifier {
      case Setting.enablePush: try require(value <= 1)
      case Setting.initialWindowSize: try require(value <= FlowWindows.largest, .flowControlError)
      case Setting.maxFrameSize: try require(value >= FrameHead.payloadBytes && value < 1 << 24)
      default: break
      }
      try body(identifier, value)
    }
  }
}
