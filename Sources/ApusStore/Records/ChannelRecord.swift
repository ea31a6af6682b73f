package import ApusModel

// The family `channels` has four kinds of row, distinguished by the first byte of the key: channels, `BroadcastRecord`,
// `SubscriptionRecord` and `ChannelDayRecord`. Numbers are big-endian, flags are those of `MailboxKey`.
//
// A channel: 0x00 (1), flags (1), app (4), id (16); value: version (1), storage policy (1), push type (1), created in
// Unix milliseconds (8). The push type is that of Live Activities in all of them.

/// Keys and values of the channels in the family `channels`.
package enum ChannelRecord {
  package static let version: UInt8 = 1

  private static let channelKind: UInt8 = 0x00
  private static let broadcastKind: UInt8 = 0x01
  private static let flagsAt = 1
  private static let appAt = 2
  private static let idAt = 6

  /// The common prefix of the keys of all channels.
  package static var prefix: InlineArray<1, UInt8> { InlineArray(repeating: channelKind) }

  package static func key(of channel: Channel) -> InlineArray<22, UInt8> {
    var bytes = InlineArray<22, UInt8>(repeating: channelKind)
    bytes[flagsAt] = TopicFlags.encode(.liveActivity, channel.environment)
    bytes.write(bigEndian: channel.app.rawValue, at: appAt)
    bytes.write(bigEndian: channel.id.high, at: idAt)
    bytes.write(bigEndian: channel.id.low, at: idAt + 8)
    return bytes
  }

  /// The key of the channel's newest broadcast.
  package static func broadcastKey(of channel: Channel) -> InlineArray<22, UInt8> {
    var bytes = key(of: channel)
    bytes[0] = broadcastKind
    return bytes
  }

  package static func value(of channel: Channel) -> InlineArray<11, UInt8> {
    var bytes = InlineArray<11, UInt8>(repeating: version)
    bytes[1] = channel.storage.rawValue
    bytes[2] = PushType.liveactivity.rawValue
    bytes.write(bigEndian: channel.createdMilliseconds, at: 3)
    return bytes
  }

  package static func decode(
    key: Span<UInt8>, value: Span<UInt8>
  ) throws(RecordError) -> Channel {
    // The version first: another version may have other keys.
    var cursor = RecordCursor()
    let version: UInt8 = try cursor.integer("version", in: value)
    guard version == Self.version else { throw .unknownVersion(version) }
    let policy: UInt8 = try cursor.integer("storage policy", in: value)
    guard let storage = ChannelStorage(rawValue: policy) else {
      throw .malformed(field: "storage policy")
    }
    let type: UInt8 = try cursor.integer("push type", in: value)
    guard type == PushType.liveactivity.rawValue else { throw .malformed(field: "push type") }
    let created: Int64 = try cursor.integer("created", in: value)
    guard created >= 0 else { throw .malformed(field: "created") }
    try cursor.end(in: value)
    cursor = RecordCursor()
    let kind: UInt8 = try cursor.integer("kind", in: key)
    guard kind == channelKind else { throw .malformed(field: "kind") }
    let flags = try TopicFlags.decode(cursor.integer("flags", in: key))
    guard flags.suffix == .liveActivity else { throw .malformed(field: "flags") }
    let app = AppID(try cursor.integer("app", in: key))
    let id = ChannelID(
      high: try cursor.integer("id", in: key), low: try cursor.integer("id", in: key))
    try cursor.end(in: key)
    return Channel(
      id: id, app: app, environment: flags.environment, storage: storage,
      createdMilliseconds: created)
  }
}

extension ChannelRecord {
  /// The channel of a key that `broadcastKey` made.
  static func channel(inBroadcastKey key: Span<UInt8>) throws(RecordError) -> ChannelID {
    guard key.count >= idAt, key[0] == broadcastKind else { throw .malformed(field: "kind") }
    let id = key.extracting(idAt...)
    var cursor = RecordCursor()
    let channel = ChannelID(
      high: try cursor.integer("id", in: id), low: try cursor.integer("id", in: id))
    try cursor.end(in: id)
    return channel
  }

  /// Decodes a row of any kind of the family.
  package static func examine(key: Span<UInt8>, value: Span<UInt8>) throws(RecordError) {
    switch key.isEmpty ? channelKind : key[0] {
    case channelKind: _ = try decode(key: key, value: value)
    case broadcastKind: _ = try BroadcastRecord(decoding: value)
    case SubscriptionRecord.kind: _ = try SubscriptionRecord(decoding: value)
    case ChannelDayRecord.kind:
      _ = try ChannelDayRecord.decode(key: key)
      _ = try ChannelDayRecord(decoding: value)
    default: throw .malformed(field: "kind")
    }
  }
}

extension StoreReader {
  /// Calls `body` for each channel, and `fault` for each row that cannot be read.
  package func forEachChannel(
    _ body: (Channel) -> Void, fault: (RecordError) -> Void
  ) throws(StoreError) {
    let prefix = ChannelRecord.prefix
    try scan(.channels, prefix: prefix.span) { key, value in
      do throws(RecordError) {
        body(try ChannelRecord.decode(key: key, value: value))
      } catch {
        fault(error)
      }
      return true
    }
  }
}
