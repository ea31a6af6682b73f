package import ApusModel
import ApusWire

/// What happened on a channel, or on all channels of an app, on one day.
///
/// In the family `channels`. Key, numbers big-endian: 0x03 (1), day (4), flags as in `MailboxKey` (1), app (4), channel
/// (16), zeros for the app. Value: version (1), published (8), delivered (8), subscriptions (8), subscribers (8). The
/// day after the last one, `total`, has what was published and delivered since the channel was created.
package struct ChannelDayRecord: Sendable, Hashable {
  package struct Key: Sendable, Hashable {
    /// Days since 1970-01-01, in UTC.
    package var day: UInt32
    package var app: AppID
    package var environment: Environment
    /// Nil for all channels of the app.
    package var channel: ChannelID?

    package static let total = UInt32.max

    package init(day: UInt32, app: AppID, environment: Environment, channel: ChannelID?) {
      self.day = day
      self.app = app
      self.environment = environment
      self.channel = channel
    }
  }

  /// Published and delivered on that day; subscriptions and subscribers when they were last counted on it.
  package var figures: ChannelFigures

  package static let version: UInt8 = 1
  static let kind: UInt8 = 0x03

  package init(_ figures: ChannelFigures) { self.figures = figures }

  /// The common prefix of the keys of all days, or of one.
  package static func prefix(day: UInt32? = nil) -> [UInt8] {
    var bytes = [kind]
    if let day { bytes.append(bigEndian: day) }
    return bytes
  }

  package static func encode(_ key: Key) -> [UInt8] {
    var bytes = prefix(day: key.day)
    bytes.append(TopicFlags.encode(.liveActivity, key.environment))
    bytes.append(bigEndian: key.app.rawValue)
    bytes.append(bigEndian: key.channel?.high ?? 0)
    bytes.append(bigEndian: key.channel?.low ?? 0)
    return bytes
  }

  package static func decode(key bytes: Span<UInt8>) throws(RecordError) -> Key {
    var cursor = RecordCursor()
    let kind: UInt8 = try cursor.integer("kind", in: bytes)
    guard kind == Self.kind else { throw .malformed(field: "kind") }
    let day: UInt32 = try cursor.integer("day", in: bytes)
    let flags = try TopicFlags.decode(cursor.integer("flags", in: bytes))
    let app = AppID(try cursor.integer("app", in: bytes))
    let id = ChannelID(
      high: try cursor.integer("channel", in: bytes), low: try cursor.integer("channel", in: bytes))
    try cursor.end(in: bytes)
    return Key(
      day: day, app: app, environment: flags.environment,
      channel: id == ChannelID(high: 0, low: 0) ? nil : id)
  }

  package func encoded() -> [UInt8] {
    var output = [Self.version]
    output.append(bigEndian: figures.published)
    output.append(bigEndian: figures.delivered)
    output.append(bigEndian: figures.subscriptions)
    output.append(bigEndian: figures.subscribers)
    return output
  }

  package init(decoding bytes: Span<UInt8>) throws(RecordError) {
    var cursor = RecordCursor()
    let version: UInt8 = try cursor.integer("version", in: bytes)
    guard version == Self.version else { throw .unknownVersion(version) }
    figures = ChannelFigures(
      published: try cursor.integer("published", in: bytes),
      delivered: try cursor.integer("delivered", in: bytes),
      subscriptions: try cursor.integer("subscriptions", in: bytes),
      subscribers: try cursor.integer("subscribers", in: bytes))
    try cursor.end(in: bytes)
  }
}

extension StoreReader {
  /// Calls `body` for each day of each channel and app, the oldest day first; `total` is left out unless it is asked
  /// for. What cannot be read is skipped.
  package func forEachChannelDay(
    _ day: UInt32? = nil, _ body: (ChannelDayRecord.Key, ChannelFigures) -> Void
  ) throws(StoreError) {
    let prefix = ChannelDayRecord.prefix(day: day)
    try scan(.channels, prefix: prefix.span) { key, value in
      guard let key = try? ChannelDayRecord.decode(key: key),
        key.day != ChannelDayRecord.Key.total || day != nil,
        let record = try? ChannelDayRecord(decoding: value)
      else { return true }
      body(key, record.figures)
      return true
    }
  }

  package func channelDay(_ key: ChannelDayRecord.Key) throws(StoreError) -> ChannelFigures? {
    let bytes = ChannelDayRecord.encode(key)
    guard let value = try get(.channels, key: bytes.span) else { return nil }
    return try? ChannelDayRecord(decoding: value.span).figures
  }
}
