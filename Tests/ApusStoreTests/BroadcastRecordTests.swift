import ApusModel
import ApusStore
import Testing

@Suite("Records of broadcasts and subscriptions")
struct BroadcastRecordTests {
  static let broadcast = BroadcastRecord(
    order: 0x0102_0304_0506_0708,
    id: NotificationID(high: 0x2021_2223_2425_2627, low: 0x2829_2a2b_2c2d_2e2f),
    acceptedMilliseconds: 1_700_000_000_123, expirationSeconds: 1_700_003_600,
    priority: .powerSaving, payload: Array(#"{"aps":{}}"#.utf8))

  static let value = hex(
    """
    01  # version
    01 02 03 04 05 06 07 08  # order
    20 21 22 23 24 25 26 27 28 29 2a 2b 2c 2d 2e 2f  # id
    00 00 01 8b cf e5 68 7b  # 1,700,000,000,123 ms
    00 00 00 00 65 53 ff 10  # 1,700,003,600 s
    05  # priority
    7b 22 61 70 73 22 3a 7b 7d 7d  # {"aps":{}}
    """)

  static let subscriptions = SubscriptionRecord([
    .init(
      channel: ChannelID(high: 0x1011_1213_1415_1617, low: 0x1819_1a1b_1c1d_1e1f),
      newestOrder: 7, triedOrder: 8, triedCount: 2),
    .init(channel: ChannelID(high: 0, low: 1)),
  ])

  static let subscriptionValue = hex(
    """
    01  # version
    10 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e 1f  # channel
    00 00 00 00 00 00 00 07  # it has the broadcast of this order
    00 00 00 00 00 00 00 08  # it was sent this one
    02  # on two connections
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01
    00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    00
    """)

  @Test("The key of a broadcast is its channel's, with another kind")
  func broadcastKey() {
    let key = ChannelRecord.broadcastKey(of: ChannelRecordTests.channel)
    #expect(key.span.copied() == [1] + ChannelRecordTests.key.dropFirst())
  }

  @Test("A broadcast is written according to the layout, and read back")
  func broadcasts() throws {
    #expect(Self.broadcast.encoded() == Self.value)
    #expect(try BroadcastRecord(decoding: Self.value.span) == Self.broadcast)
  }

  @Test("Subscriptions are written according to the layout, and read back")
  func subscribed() throws {
    let key = SubscriptionRecord.key(DeviceID(0x0102_0304_0506_0708), .development)
    #expect(key.span.copied() == [2, 1, 2, 3, 4, 5, 6, 7, 8, 1])
    #expect(Self.subscriptions.encoded() == Self.subscriptionValue)
    #expect(
      try SubscriptionRecord(decoding: Self.subscriptionValue.span) == Self.subscriptions)
    #expect(try SubscriptionRecord(decoding: [1].span) == SubscriptionRecord())
  }

  @Test("Truncated and impossible values are rejected")
  func malformed() {
    for count in 0..<(Self.value.count - 10) {
      #expect(throws: RecordError.self) {
        try BroadcastRecord(decoding: Array(Self.value[..<count]).span)
      }
    }
    for count in 0..<Self.subscriptionValue.count where count % 33 != 1 {
      #expect(throws: RecordError.self) {
        try SubscriptionRecord(decoding: Array(Self.subscriptionValue[..<count]).span)
      }
    }
    for (place, byte) in [(0, 2), (25, 0x80), (33, 0x80), (41, 2)] as [(Int, UInt8)] {
      var value = Self.value
      value[place] = byte
      #expect(throws: RecordError.self) { try BroadcastRecord(decoding: value.span) }
    }
    let many = [1] + [UInt8](repeating: 0, count: 33 * (Limits.subscriptionsPerDevice + 1))
    #expect(throws: RecordError.self) { try SubscriptionRecord(decoding: many.span) }
  }
}
