import ApusModel
import Testing

@testable import ApusStore

@Suite("Mailbox records")
struct MailboxRecordTests {
  /// A notification, byte by byte from the layout in `StoredNotification`.
  static let notification = hex(
    """
    02  # version
    00 00 00 00 01 00 00 02  # acceptance order 16,777,218
    00 00 00 00 65 53 f1 00  # expiration 1,700,000,000
    00 00 01 8b cf e5 68 7b  # accepted 1,700,000,000,123 ms
    de ad be ef  # message id
    12 3e 45 67 e8 9b 12 d3  # notification id
    a4 56 42 66 55 44 00 00
    01 02 03 04 05 06 07 08  # unique id
    11 12 13 14 15 16 17 18
    20 21 22 23 24 25 26 27 28 29 2a 2b 2c 2d 2e 2f  # token
    30 31 32 33 34 35 36 37 38 39 3a 3b 3c 3d 3e 3f
    05  # priority: power saving
    09  # push type: voip
    81  # flags
    03 61 2f 62  # collapse id "a/b"
    00 02 7b 7d  # payload "{}"
    """)

  static let fields = StoredNotification.Fields(
    acceptanceOrder: 16_777_218, expirationSeconds: 1_700_000_000,
    acceptedMilliseconds: 1_700_000_000_123, messageID: 0xdead_beef,
    id: NotificationID(high: 0x123e_4567_e89b_12d3, low: 0xa456_4266_5544_0000),
    uniqueID: NotificationID(high: 0x0102_0304_0506_0708, low: 0x1112_1314_1516_1718),
    token: DeviceToken(
      words: (
        0x2021_2223_2425_2627, 0x2829_2a2b_2c2d_2e2f, 0x3031_3233_3435_3637, 0x3839_3a3b_3c3d_3e3f
      )),
    priority: .powerSaving, pushType: .voip, flags: 0x81)

  @Test("A notification is written according to the layout")
  func encodeNotification() {
    let collapse = Array("a/b".utf8)
    let payload = Array("{}".utf8)
    var output: [UInt8] = [1, 2, 3]
    StoredNotification.encode(
      Self.fields, collapseID: collapse.span, payload: payload.span, into: &output)
    #expect(output == Self.notification)
  }

  @Test("A notification is put into a group like its record", arguments: [0, 3] as [UInt8])
  func put(index: UInt8) {
    let place = MailboxKey(
      device: DeviceID(0x0102_0304_0506_0708), topic: TopicKey(app: AppID(9), suffix: .voip),
      environment: .production, index: index)
    let collapse = Array("a/b".utf8)
    // A length of two bytes.
    let payload = [UInt8](repeating: 0x20, count: 300)
    var record: [UInt8] = []
    StoredNotification.encode(
      Self.fields, collapseID: collapse.span, payload: payload.span, into: &record)
    let key = place.encoded()
    var written = WriteGroup()
    var expected = WriteGroup()
    for _ in 0..<2 {
      written.put(Self.fields, collapseID: collapse.span, payload: payload.span, at: place)
      expected.put(.mailbox, key: key.span, value: record.span)
    }
    #expect(written.bytes == expected.bytes)
    #expect(written.count == 2)
  }

  @Test("A notification is read according to the layout")
  func decodeNotification() throws {
    let bytes = Self.notification
    let read = try StoredNotification(decoding: bytes.span)
    #expect(read.fields == Self.fields)
    #expect(String(decoding: bytes[read.collapseID], as: UTF8.self) == "a/b")
    #expect(String(decoding: bytes[read.payload], as: UTF8.self) == "{}")
  }

  @Test("Without push type, collapse id and payload there are 0xff and two empty lengths")
  func leastNotification() throws {
    var fields = Self.fields
    fields.pushType = nil
    fields.expirationSeconds = -1
    var output: [UInt8] = []
    let none: [UInt8] = []
    StoredNotification.encode(fields, collapseID: none.span, payload: none.span, into: &output)
    #expect(output.count == 99)
    #expect(Array(output[9..<17]) == [UInt8](repeating: 0xff, count: 8))
    #expect(Array(output[93...]) == [0x05, 0xff, 0x81, 0x00, 0x00, 0x00])
    let read = try StoredNotification(decoding: output.span)
    #expect(read.fields == fields && read.collapseID.isEmpty && read.payload.isEmpty)
  }

  @Test("The largest notification fits and needs no new memory the second time")
  func largestNotification() throws {
    let collapse = [UInt8](repeating: 0x41, count: Limits.collapseIDBytes)
    let payload = [UInt8](repeating: 0x42, count: Limits.voipPayloadBytes)
    var output: [UInt8] = []
    for _ in 0..<2 {
      StoredNotification.encode(
        Self.fields, collapseID: collapse.span, payload: payload.span, into: &output)
    }
    let capacity = output.capacity
    StoredNotification.encode(
      Self.fields, collapseID: collapse.span, payload: payload.span, into: &output)
    #expect(output.capacity == capacity)
    let read = try StoredNotification(decoding: output.span)
    #expect(Array(output[read.collapseID]) == collapse)
    #expect(Array(output[read.payload]) == payload)
  }

  @Test(
    "Each push type has its number on disk",
    arguments: [
      (PushType.alert, UInt8(0)), (.background, 1), (.complication, 2), (.controls, 3),
      (.fileprovider, 4),
      (.liveactivity, 5), (.location, 6), (.mdm, 7), (.pushtotalk, 8), (.voip, 9), (.widgets, 10),
    ])
  func pushTypes(type: PushType, number: UInt8) throws {
    var bytes = Self.notification
    bytes[Self.pushTypeAt] = number
    #expect(try StoredNotification(decoding: bytes.span).fields.pushType == type)
    var output: [UInt8] = []
    var fields = Self.fields
    fields.pushType = type
    let none: [UInt8] = []
    StoredNotification.encode(fields, collapseID: none.span, payload: none.span, into: &output)
    #expect(output[Self.pushTypeAt] == number)
  }

  static let pushTypeAt = 1 + 8 + 8 + 8 + 4 + 16 + 16 + 32 + 1

  @Test("A notification of version 1, which had no unique id, is read")
  func firstVersion() throws {
    var bytes = Self.notification
    bytes[0] = 1
    bytes.removeSubrange(45..<61)
    let read = try StoredNotification(decoding: bytes.span)
    var fields = Self.fields
    fields.uniqueID = NotificationID(high: 0, low: 0)
    #expect(read.fields == fields)
    #expect(String(decoding: bytes[read.payload], as: UTF8.self) == "{}")
  }

  @Test("A notification truncated at any byte is rejected")
  func truncatedNotification() {
    for length in 0..<Self.notification.count {
      let bytes = Array(Self.notification.prefix(length))
      #expect(throws: RecordError.self, "cut to \(length)") {
        try StoredNotification(decoding: bytes.span)
      }
    }
  }

  @Test(
    "An invalid notification is rejected with the name of the field",
    arguments: [
      (0, UInt8(3), RecordError.unknownVersion(3)),
      (pushTypeAt - 1, 3, .malformed(field: "priority")),
      (pushTypeAt, 11, .malformed(field: "push type")),
      (pushTypeAt + 2, 200, .truncated(field: "collapse id")),
      (pushTypeAt + 7, 3, .truncated(field: "payload")),
      (pushTypeAt + 7, 1, .trailingBytes(1)),
    ])
  func malformedNotification(index: Int, value: UInt8, error: RecordError) {
    var bytes = Self.notification
    bytes[index] = value
    #expect(throws: error) { try StoredNotification(decoding: bytes.span) }
  }

  @Test("A mailbox key is device, app and flags for the first slot of a topic")
  func mailboxKey() throws {
    let key = MailboxKey(
      device: DeviceID(0x0102_0304_0506_0708),
      topic: TopicKey(app: AppID(0x0a0b_0c0d), suffix: .voip), environment: .development)
    let encoded = key.encoded()
    // voip is suffix 7: 7 << 1 | development
    let expected: [UInt8] = [1, 2, 3, 4, 5, 6, 7, 8, 0x0a, 0x0b, 0x0c, 0x0d, 0x0f]
    #expect(bytes(encoded.span) == expected)
    #expect(try MailboxKey(decoding: expected.span) == key)
    let device = key.device.storeKey
    #expect(bytes(device.span) == Array(expected.prefix(8)))
    #expect(try DeviceID(storeKey: device.span) == key.device)
  }

  @Test("Each further slot of a topic has its index after the flags")
  func mailboxKeyIndex() throws {
    let key = MailboxKey(
      device: DeviceID(0x0102_0304_0506_0708), topic: TopicKey(app: AppID(0x0a0b_0c0d)),
      environment: .production, index: 99)
    let encoded = key.encoded()
    let expected: [UInt8] = [1, 2, 3, 4, 5, 6, 7, 8, 0x0a, 0x0b, 0x0c, 0x0d, 0, 99]
    #expect(bytes(encoded.span) == expected)
    #expect(try MailboxKey(decoding: expected.span) == key)
  }

  @Test("Keys of another length or with unknown flags are rejected")
  func malformedKeys() {
    let good: [UInt8] = [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 1, 0]
    #expect(throws: Never.self) { try MailboxKey(decoding: good.span) }
    #expect(throws: RecordError.truncated(field: "flags")) {
      try MailboxKey(decoding: good.span.extracting(..<12))
    }
    let long = good + [1, 0]
    #expect(throws: RecordError.trailingBytes(1)) { try MailboxKey(decoding: long.span) }
    // The first slot has no index.
    let zero = good + [0]
    #expect(throws: RecordError.malformed(field: "index")) { try MailboxKey(decoding: zero.span) }
    for flags: UInt8 in [0x12, 0x1f, 0x20, 0x80] {
      let bad = good.dropLast() + [flags]
      let bytes = Array(bad)
      #expect(throws: RecordError.malformed(field: "flags")) {
        try MailboxKey(decoding: bytes.span)
      }
    }
  }
}
