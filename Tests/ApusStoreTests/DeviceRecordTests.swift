import ApusModel
import ApusStore
import Testing

@Suite("Device records")
struct DeviceRecordTests {
  /// A device with two topics, byte by byte from the layout in `DeviceRecord`.
  static let device = hex(
    """
    02  # version
    40 41 42 43 44 45 46 47 48 49 4a 4b 4c 4d 4e 4f  # fingerprint
    50 51 52 53 54 55 56 57 58 59 5a 5b 5c 5d 5e 5f
    00 00 00 00 65 53 f1 00  # issued 1,700,000,000
    00 02  # topics
    00 00 00 07 00 00 01 80  # app 7, no suffix, generation 1, enabled and listed
    00 00 00 00 00 00 03 e8  # state since 1,000
    00 00 00 00 00 00 00 01  # generation since 1
    00 00 00 08 02 01 00 05  # app 8, complication, generation 256, unlisted
    00 00 00 00 00 00 07 d0  # state since 2,000
    00 00 00 00 00 00 00 02  # generation since 2
    """)

  static let record = DeviceRecord(
    fingerprint: KeyFingerprint(
      words: (
        0x4041_4243_4445_4647, 0x4849_4a4b_4c4d_4e4f, 0x5051_5253_5455_5657, 0x5859_5a5b_5c5d_5e5f
      )),
    issuedSeconds: 1_700_000_000,
    topics: [
      .init(
        topic: TopicKey(app: AppID(7)), generation: 1, state: .enabled, wasListed: true,
        stateSinceMilliseconds: 1000, generationSinceMilliseconds: 1),
      .init(
        topic: TopicKey(app: AppID(8), suffix: .complication), generation: 256, state: .unlisted,
        wasListed: false, stateSinceMilliseconds: 2000, generationSinceMilliseconds: 2),
    ])

  /// The offset of the first topic, and of its state.
  static let topicAt = 1 + 32 + 8 + 2
  static let stateAt = topicAt + 4 + 1 + 2

  @Test("A device is written and read according to the layout")
  func device() throws {
    var output: [UInt8] = [1, 2, 3]
    Self.record.encode(into: &output)
    #expect(output == Self.device)
    let bytes = Self.device
    #expect(try DeviceRecord(decoding: bytes.span) == Self.record)
  }

  @Test("A record of version 1 does not contain the certificate's issue time")
  func olderVersion() throws {
    var bytes = Self.device
    bytes[0] = 1
    bytes.removeSubrange(33..<41)
    var expected = Self.record
    expected.issuedSeconds = 0
    #expect(try DeviceRecord(decoding: bytes.span) == expected)
  }

  @Test("A device's key is its id and the environment")
  func key() {
    let key = DeviceRecord.key(DeviceID(0x0102_0304_0506_0708), .development)
    #expect(bytes(key.span) == [1, 2, 3, 4, 5, 6, 7, 8, 1])
  }

  @Test(
    "Topic states have their numbers on disk",
    arguments: [
      (TopicState.enabled, UInt8(0)), (.nonWaking, 1), (.opportunistic, 2), (.paused, 3),
      (.ignored, 4), (.unlisted, 5),
    ], [false, true])
  func topicStates(state: (TopicState, UInt8), wasListed: Bool) throws {
    var bytes = Self.device
    bytes[Self.stateAt] = state.1 | (wasListed ? 0x80 : 0)
    let topic = try #require(try DeviceRecord(decoding: bytes.span).topics.first)
    #expect(topic.state == state.0)
    #expect(topic.wasListed == wasListed)
    var output: [UInt8] = []
    DeviceRecord(fingerprint: Self.record.fingerprint, topics: [topic]).encode(into: &output)
    #expect(output[Self.stateAt] == bytes[Self.stateAt])
  }

  @Test("A device truncated at any byte is rejected")
  func truncated() {
    for length in 0..<Self.device.count {
      let bytes = Array(Self.device.prefix(length))
      #expect(throws: RecordError.self, "cut to \(length)") {
        try DeviceRecord(decoding: bytes.span)
      }
    }
  }

  @Test(
    "An invalid device is rejected with the name of the field",
    arguments: [
      (0, UInt8(0), RecordError.unknownVersion(0)),
      (topicAt - 2, 0x10, .malformed(field: "number of topics")),
      (topicAt - 1, 0x01, .trailingBytes(24)),
      (topicAt + 4, 0x40, .malformed(field: "flags")),
      (stateAt, 0x06, .malformed(field: "state")),
    ])
  func malformed(index: Int, value: UInt8, error: RecordError) {
    var bytes = Self.device
    bytes[index] = value
    #expect(throws: error) { try DeviceRecord(decoding: bytes.span) }
  }

  @Test("A device with the most topics fits")
  func full() throws {
    var record = Self.record
    record.topics = (0..<4096).map {
      .init(
        topic: TopicKey(app: AppID(UInt32($0))), generation: 0, state: .nonWaking, wasListed: true,
        stateSinceMilliseconds: Int64($0), generationSinceMilliseconds: -1)
    }
    var output: [UInt8] = []
    record.encode(into: &output)
    #expect(output.count == Self.topicAt + 4096 * 24)
    #expect(try DeviceRecord(decoding: output.span) == record)
  }

  @Test("A fingerprint is exactly 32 bytes")
  func fingerprint() {
    let good = (0x40..<0x60).map { UInt8($0) }
    #expect(KeyFingerprint(bytes: good.span) == Self.record.fingerprint)
    #expect(KeyFingerprint(bytes: good.span.extracting(..<31)) == nil)
  }
}
