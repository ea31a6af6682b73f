package import ApusModel

/// The key of a stored notification: one slot for each topic and environment on each device, or several if the app's
/// retention allows them. Writing a newer notification replaces the older one.
///
/// 13 or 14 bytes: device id (8), app id (4), flags (1), and for each slot but the first its index (1). Flags are
/// those of a device token: bit 0 is the environment, bits 1 to 4 are the topic's suffix. The device comes first, so
/// that one scan finds all of its notifications.
package struct MailboxKey: Sendable, Hashable {
  package var device: DeviceID
  package var topic: TopicKey
  package var environment: Environment
  /// The index of the topic's slot.
  package var index: UInt8

  package init(device: DeviceID, topic: TopicKey, environment: Environment, index: UInt8 = 0) {
    self.device = device
    self.topic = topic
    self.environment = environment
    self.index = index
  }

  /// The bytes of a key, for `span`.
  package struct Bytes: Sendable {
    fileprivate var bytes: InlineArray<14, UInt8>

    package var span: Span<UInt8> {
      @_lifetime(borrow self)
      get { bytes.span.extracting(0..<(bytes[13] == 0 ? 13 : 14)) }
    }
  }

  package func encoded() -> Bytes {
    var bytes = InlineArray<14, UInt8>(repeating: 0)
    for index in 0..<8 {
      bytes[index] = UInt8(truncatingIfNeeded: device.rawValue &>> UInt64(56 - 8 * index))
    }
    for index in 0..<4 {
      bytes[8 + index] = UInt8(truncatingIfNeeded: topic.app.rawValue &>> UInt32(24 - 8 * index))
    }
    bytes[12] = TopicFlags.encode(topic.suffix, environment)
    bytes[13] = index
    return Bytes(bytes: bytes)
  }

  package init(decoding bytes: Span<UInt8>) throws(RecordError) {
    var cursor = RecordCursor()
    device = DeviceID(try cursor.integer("device", in: bytes))
    let app = AppID(try cursor.integer("app", in: bytes))
    let flags = try TopicFlags.decode(cursor.integer("flags", in: bytes))
    topic = TopicKey(app: app, suffix: flags.suffix)
    environment = flags.environment
    index = 0
    if bytes.count > cursor.position {
      index = try cursor.integer("index", in: bytes)
      guard index > 0 else { throw .malformed(field: "index") }
    }
    try cursor.end(in: bytes)
  }
}

extension DeviceID {
  /// The prefix of the device's keys in `mailbox` and `devices`: 8 bytes.
  package var storeKey: InlineArray<8, UInt8> {
    var bytes = InlineArray<8, UInt8>(repeating: 0)
    for index in 0..<8 {
      bytes[index] = UInt8(truncatingIfNeeded: rawValue &>> UInt64(56 - 8 * index))
    }
    return bytes
  }

  /// Parses `storeKey`.
  package init(storeKey bytes: Span<UInt8>) throws(RecordError) {
    var cursor = RecordCursor()
    self.init(try cursor.integer("device", in: bytes))
    try cursor.end(in: bytes)
  }
}

/// A topic's suffix and environment in one byte: bit 0 is the environment, bits 1 to 4 are the suffix, the rest is 0.
enum TopicFlags {
  static func encode(_ suffix: TopicSuffix, _ environment: Environment) -> UInt8 {
    suffix.rawValue << 1 | environment.rawValue
  }

  static func decode(
    _ flags: UInt8
  ) throws(RecordError) -> (suffix: TopicSuffix, environment: Environment) {
    guard flags & 0xe0 == 0, let suffix = TopicSuffix(rawValue: flags >> 1),
      let environment = Environment(rawValue: flags & 1)
    else { throw .malformed(field: "flags") }
    return (suffix, environment)
  }
}
