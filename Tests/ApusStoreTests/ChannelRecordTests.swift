import ApusModel
import ApusStore
import Testing

@Suite("Channel records")
struct ChannelRecordTests {
  static let channel = Channel(
    id: ChannelID(high: 0x2021_2223_2425_2627, low: 0x2829_2a2b_2c2d_2e2f),
    app: AppID(0x0a0b_0c0d), environment: .development, storage: .newest,
    createdMilliseconds: 1_700_000_000_123)

  static let key = hex(
    """
    00  # a channel
    09  # flags: liveactivity is suffix 4, 4 << 1 | development
    0a 0b 0c 0d  # app
    20 21 22 23 24 25 26 27 28 29 2a 2b 2c 2d 2e 2f  # id
    """)

  static let value = hex(
    """
    01  # version
    01  # keeps the newest broadcast
    05  # liveactivity
    00 00 01 8b cf e5 68 7b  # 1,700,000,000,123 ms
    """)

  @Test("Keys and values are written according to the layout")
  func encode() {
    let (key, value) = (ChannelRecord.key(of: Self.channel), ChannelRecord.value(of: Self.channel))
    #expect(key.span.copied() == Self.key)
    #expect(value.span.copied() == Self.value)
  }

  @Test("They are read back")
  func decode() throws {
    let channel = try ChannelRecord.decode(key: Self.key.span, value: Self.value.span)
    #expect(channel == Self.channel)
  }

  @Test("Every truncation is rejected")
  func truncated() {
    for count in 0..<Self.key.count {
      #expect(throws: RecordError.self) {
        try ChannelRecord.decode(
          key: Array(Self.key[..<count]).span, value: Self.value.span)
      }
    }
    for count in 0..<Self.value.count {
      #expect(throws: RecordError.self) {
        try ChannelRecord.decode(key: Self.key.span, value: Array(Self.value[..<count]).span)
      }
    }
  }

  @Test(
    "Impossible values are rejected",
    arguments: [
      (0, 2, "version"), (1, 2, "storage policy"), (2, 0, "push type"), (3, 0x80, "time"),
    ] as [(Int, UInt8, String)])
  func impossible(place: Int, byte: UInt8, name: String) {
    var value = Self.value
    value[place] = byte
    #expect(throws: RecordError.self, "\(name)") {
      try ChannelRecord.decode(key: Self.key.span, value: value.span)
    }
  }

  @Test("Bytes behind a record are rejected, and keys of other kinds and suffixes")
  func others() {
    for key in [Self.key + [0], [1] + Self.key[1...], [0, 0] + Self.key[2...]] {
      #expect(throws: RecordError.self) {
        try ChannelRecord.decode(key: key.span, value: Self.value.span)
      }
    }
    #expect(throws: RecordError.self) {
      try ChannelRecord.decode(key: Self.key.span, value: (Self.value + [0]).span)
    }
  }
}
