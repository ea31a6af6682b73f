import ApusModel
import ApusStore
import Testing

@Suite("Feedback records")
struct FeedbackRecordTests {
  /// voip is suffix 7: 7 << 1 | development
  static let list = FeedbackTopic(
    topic: TopicKey(app: AppID(0x0a0b_0c0d), suffix: .voip), environment: .development)

  static let row = FeedbackRow(
    milliseconds: 1_700_000_000_123,
    token: DeviceToken(
      words: (
        0x2021_2223_2425_2627, 0x2829_2a2b_2c2d_2e2f, 0x3031_3233_3435_3637, 0x3839_3a3b_3c3d_3e3f
      )))

  static let timeKey = hex(
    """
    00  # by time
    0a 0b 0c 0d  # app
    0f  # flags
    00 00 01 8b cf e5 68 7b  # 1,700,000,000,123 ms
    20 21 22 23 24 25 26 27 28 29 2a 2b 2c 2d 2e 2f  # token
    30 31 32 33 34 35 36 37 38 39 3a 3b 3c 3d 3e 3f
    """)

  static let tokenKey = hex(
    """
    01  # by token
    0a 0b 0c 0d  # app
    0f  # flags
    20 21 22 23 24 25 26 27 28 29 2a 2b 2c 2d 2e 2f  # token
    30 31 32 33 34 35 36 37 38 39 3a 3b 3c 3d 3e 3f
    """)

  static let tokenValue = hex("01 00 00 01 8b cf e5 68 7b")

  @Test("Keys and values are written according to the layout")
  func encode() {
    let timeKey = FeedbackRecord.timeKey(Self.row, in: Self.list)
    #expect(bytes(timeKey.span) == Self.timeKey)
    let prefix = FeedbackRecord.timePrefix(Self.list)
    #expect(bytes(prefix.span) == Array(Self.timeKey.prefix(6)))
    let timeValue = FeedbackRecord.timeValue
    #expect(bytes(timeValue.span) == [1])
    let tokenKey = FeedbackRecord.tokenKey(Self.row.token, in: Self.list)
    #expect(bytes(tokenKey.span) == Self.tokenKey)
    let tokenValue = FeedbackRecord.tokenValue(milliseconds: Self.row.milliseconds)
    #expect(bytes(tokenValue.span) == Self.tokenValue)
  }

  @Test("Keys and values are read according to the layout")
  func decode() throws {
    let value: [UInt8] = [1]
    let read = try FeedbackRecord.decode(timeKey: Self.timeKey.span, value: value.span)
    #expect(read.list == Self.list)
    #expect(read.row == Self.row)
    #expect(try FeedbackRecord.decode(tokenValue: Self.tokenValue.span) == 1_700_000_000_123)
  }

  @Test("A row is 40 bytes")
  func size() {
    #expect(MemoryLayout<FeedbackRow>.size == 40)
  }

  @Test("Rows truncated at any byte are rejected")
  func truncated() {
    let value: [UInt8] = [1]
    for length in 0..<Self.timeKey.count {
      #expect(throws: RecordError.self, "key cut to \(length)") {
        try FeedbackRecord.decode(
          timeKey: Self.timeKey.span.extracting(..<length), value: value.span)
      }
    }
    for length in 0..<Self.tokenValue.count {
      #expect(throws: RecordError.self, "value cut to \(length)") {
        try FeedbackRecord.decode(tokenValue: Self.tokenValue.span.extracting(..<length))
      }
    }
  }

  @Test(
    "An invalid row by time is rejected with the name of the field",
    arguments: [
      (0, UInt8(1), RecordError.malformed(field: "kind")),
      (5, 0x20, .malformed(field: "flags")),
      (5, 0x1e, .malformed(field: "flags")),
      (6, 0x80, .malformed(field: "time")),
    ])
  func malformedKey(index: Int, value: UInt8, error: RecordError) {
    var key = Self.timeKey
    key[index] = value
    let one: [UInt8] = [1]
    #expect(throws: error) { try FeedbackRecord.decode(timeKey: key.span, value: one.span) }
  }

  @Test("Unknown versions, negative times and trailing bytes are rejected")
  func malformedValues() {
    let long = Self.timeKey + [0]
    let one: [UInt8] = [1]
    #expect(throws: RecordError.trailingBytes(1)) {
      try FeedbackRecord.decode(timeKey: long.span, value: one.span)
    }
    for (value, error) in [
      ([], .truncated(field: "version")), ([2], .unknownVersion(2)), ([1, 0], .trailingBytes(1)),
    ] as [([UInt8], RecordError)] {
      #expect(throws: error) {
        try FeedbackRecord.decode(timeKey: Self.timeKey.span, value: value.span)
      }
    }
    for (value, error) in [
      ([2] + Self.tokenValue.dropFirst(), .unknownVersion(2)),
      ([1, 0x80, 0, 0, 0, 0, 0, 0, 0], .malformed(field: "time")),
      (Self.tokenValue + [0], .trailingBytes(1)),
    ] as [([UInt8], RecordError)] {
      #expect(throws: error) { try FeedbackRecord.decode(tokenValue: value.span) }
    }
  }
}
