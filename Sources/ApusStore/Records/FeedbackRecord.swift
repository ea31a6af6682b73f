package import ApusModel

// The family `feedback` has two kinds of rows, distinguished by the first byte of the key. Numbers are big-endian;
// flags are those of `MailboxKey`.
//
// By time, for reading a list: 0x00 (1), app (4), flags (1), milliseconds (8), token (32); value: version (1). By
// token, for finding the row to replace: 0x01 (1), app (4), flags (1), token (32); value: version (1), milliseconds
// (8).

/// The key of a feedback list: each topic in each environment has its own ("Binary Provider API", The Feedback
/// Service).
package struct FeedbackTopic: Sendable, Hashable {
  package var topic: TopicKey
  package var environment: Environment

  package init(topic: TopicKey, environment: Environment) {
    self.topic = topic
    self.environment = environment
  }
}

/// A token whose app was removed, and the time at which that was found. 40 bytes.
package struct FeedbackRow: Sendable, Hashable {
  /// Unix milliseconds, 0 or later: negative numbers would sort after all others.
  package var milliseconds: Int64
  package var token: DeviceToken

  package init(milliseconds: Int64, token: DeviceToken) {
    precondition(milliseconds >= 0, "a time before 1970")
    self.milliseconds = milliseconds
    self.token = token
  }
}

/// Keys and values of the family `feedback`.
package enum FeedbackRecord {
  package static let version: UInt8 = 1

  private static let byTime: UInt8 = 0x00
  private static let byToken: UInt8 = 0x01
  private static let timeAt = 6

  /// The common prefix of the keys of a list's rows by time.
  package static func timePrefix(_ list: FeedbackTopic) -> InlineArray<6, UInt8> {
    var bytes = InlineArray<6, UInt8>(repeating: 0)
    write(list, byTime, to: &bytes)
    return bytes
  }

  /// The key of a row by time.
  package static func timeKey(
    _ row: FeedbackRow, in list: FeedbackTopic
  ) -> InlineArray<46, UInt8> {
    var bytes = InlineArray<46, UInt8>(repeating: 0)
    write(list, byTime, to: &bytes)
    bytes.write(bigEndian: row.milliseconds, at: timeAt)
    write(row.token, at: timeAt + 8, to: &bytes)
    return bytes
  }

  /// The key of a row by token.
  package static func tokenKey(
    _ token: DeviceToken, in list: FeedbackTopic
  ) -> InlineArray<38, UInt8> {
    var bytes = InlineArray<38, UInt8>(repeating: 0)
    write(list, byToken, to: &bytes)
    write(token, at: timeAt, to: &bytes)
    return bytes
  }

  /// The value of a row by time.
  package static var timeValue: InlineArray<1, UInt8> { InlineArray(repeating: version) }

  /// The value of a row by token.
  package static func tokenValue(milliseconds: Int64) -> InlineArray<9, UInt8> {
    var bytes = InlineArray<9, UInt8>(repeating: version)
    bytes.write(bigEndian: milliseconds, at: 1)
    return bytes
  }

  /// Reads a row by time.
  package static func decode(
    timeKey key: Span<UInt8>, value: Span<UInt8>
  ) throws(RecordError) -> (list: FeedbackTopic, row: FeedbackRow) {
    // The version first: another version may have other keys.
    var cursor = RecordCursor()
    try version(at: &cursor, in: value)
    try cursor.end(in: value)
    cursor = RecordCursor()
    let kind: UInt8 = try cursor.integer("kind", in: key)
    guard kind == byTime else { throw .malformed(field: "kind") }
    let app = AppID(try cursor.integer("app", in: key))
    let flags = try TopicFlags.decode(cursor.integer("flags", in: key))
    let milliseconds = try time(at: &cursor, in: key)
    let token = DeviceToken(
      words: (
        try cursor.integer("token", in: key), try cursor.integer("token", in: key),
        try cursor.integer("token", in: key), try cursor.integer("token", in: key)
      ))
    try cursor.end(in: key)
    return (
      FeedbackTopic(
        topic: TopicKey(app: app, suffix: flags.suffix), environment: flags.environment),
      FeedbackRow(milliseconds: milliseconds, token: token)
    )
  }

  /// Reads the value of a row by token: Unix milliseconds.
  package static func decode(tokenValue value: Span<UInt8>) throws(RecordError) -> Int64 {
    var cursor = RecordCursor()
    try version(at: &cursor, in: value)
    let milliseconds = try time(at: &cursor, in: value)
    try cursor.end(in: value)
    return milliseconds
  }

  /// The token of a row of either kind.
  static func token(inKey key: Span<UInt8>) throws(RecordError) -> DeviceToken {
    let start = key.count - 32
    guard start == timeAt || start == timeAt + 8 else { throw .truncated(field: "token") }
    var cursor = RecordCursor()
    let bytes = key.extracting(start..<key.count)
    return DeviceToken(
      words: (
        try cursor.integer("token", in: bytes), try cursor.integer("token", in: bytes),
        try cursor.integer("token", in: bytes), try cursor.integer("token", in: bytes)
      ))
  }

  private static func version(
    at cursor: inout RecordCursor, in bytes: Span<UInt8>
  ) throws(RecordError) {
    let version: UInt8 = try cursor.integer("version", in: bytes)
    guard version == Self.version else { throw .unknownVersion(version) }
  }

  private static func time(
    at cursor: inout RecordCursor, in bytes: Span<UInt8>
  ) throws(RecordError) -> Int64 {
    let milliseconds: Int64 = try cursor.integer("time", in: bytes)
    guard milliseconds >= 0 else { throw .malformed(field: "time") }
    return milliseconds
  }

  private static func write<let count: Int>(
    _ list: FeedbackTopic, _ kind: UInt8, to bytes: inout InlineArray<count, UInt8>
  ) {
    bytes[0] = kind
    bytes.write(bigEndian: list.topic.app.rawValue, at: 1)
    bytes[5] = TopicFlags.encode(list.topic.suffix, list.environment)
  }

  private static func write<let count: Int>(
    _ token: DeviceToken, at offset: Int, to bytes: inout InlineArray<count, UInt8>
  ) {
    bytes.write(bigEndian: token.words.0, at: offset)
    bytes.write(bigEndian: token.words.1, at: offset + 8)
    bytes.write(bigEndian: token.words.2, at: offset + 16)
    bytes.write(bigEndian: token.words.3, at: offset + 24)
  }
}

extension InlineArray where Element == UInt8 {
  /// Writes `value` at `offset`. It must fit.
  mutating func write(bigEndian value: some FixedWidthInteger, at offset: Int) {
    let length = value.bitWidth / 8
    for index in 0..<length {
      self[offset + index] = UInt8(truncatingIfNeeded: value &>> (8 * (length - 1 - index)))
    }
  }
}
