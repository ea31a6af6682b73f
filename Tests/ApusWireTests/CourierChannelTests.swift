import ApusModel
import ApusWire
import Testing

private let tokenHex = run("a1", 32)
private let topicHex = run("b2", 20)
private let indexField = "01 0004 00000007"
private let tokenField = "03 0020 \(tokenHex)"

private func token() throws -> DeviceToken {
  let token = DeviceToken(hex: Array(tokenHex.utf8).span)
  return try #require(token)
}

private func frame(_ message: some CourierMessage) -> [UInt8] {
  var output: [UInt8] = []
  message.encode(to: &output)
  return output
}

private func request(_ fields: String) throws(CourierFault) -> CourierChannelRequest {
  try CourierChannelRequest(decoding: hex(fields).span)
}

/// What field 2 says.
private func subscriptions(_ message: String) throws(CourierFault) -> CourierSubscriptions {
  let bytes = hex(message)
  let length = String(bytes.count, radix: 16)
  let padded = String(repeating: "0", count: 4 - length.count) + length
  return try request("\(indexField) 02 \(padded) \(message)").subscriptions
}

@Suite("Courier messages: channels")
struct CourierChannelTests {
  private let topic = Array("a.b".utf8)

  @Test("A request with every field is read and written")
  func full() throws {
    let message =
      "08 01"
      + "12 18" + "0a 03 612e62" + "12 07 0a 02 0102 10 ac02" + "12 03 0a 01 03" + "1a 03 0a 01 04"
      + "18 01"
    let fields = indexField + "02 001e \(message)" + tokenField
    let expected = CourierChannelRequest(
      index: 7, token: try token(),
      subscriptions: CourierSubscriptions(
        topics: [
          CourierChannelTopic(
            topic: topic,
            subscribed: [
              CourierChannelMark(id: [1, 2], newestNanoseconds: 300), CourierChannelMark(id: [3]),
            ], unsubscribed: [CourierChannelMark(id: [4])])
        ], replaces: true))
    #expect(try request(fields) == expected)
    #expect(frame(expected) == hex("1d 0000004b" + fields))
    #expect(expected.subscriptions.count == 3)
  }

  @Test("A request for the list has no topics; the token and the subscriptions may be absent")
  func list() throws {
    let list = CourierChannelRequest(index: 7, token: nil, subscriptions: CourierSubscriptions())
    #expect(frame(list) == hex("1d 0000000c" + indexField + "02 0002 08 01"))
    #expect(try request(indexField + "02 0002 08 01") == list)
    #expect(try request(indexField + "02 0000") == list)
    #expect(try request("63 0001 ff" + indexField) == list)
  }

  @Test("A confirmation is read and written, with the list and without")
  func confirmation() throws {
    let message = "08 01" + "12 10" + "0a 03 612e62" + "12 04 0a 02 0102" + "12 03 0a 01 03"
    let fields = indexField + "02 0014 \(message)" + tokenField + "04 0001 02"
    let expected = CourierChannelConfirmation(
      index: 7, token: try token(), status: .unknownChannel,
      subscriptions: CourierSubscriptions(topics: [
        CourierChannelTopic(
          topic: topic, subscribed: [CourierChannelMark(id: [1, 2]), CourierChannelMark(id: [3])])
      ]))
    #expect(try CourierChannelConfirmation(decoding: hex(fields).span) == expected)
    #expect(frame(expected) == hex("1d 00000045" + fields))

    let short = indexField + tokenField + "04 0001 00"
    let bare = CourierChannelConfirmation(index: 7, token: try token(), status: .applied)
    #expect(try CourierChannelConfirmation(decoding: hex(short).span) == bare)
    #expect(frame(bare) == hex("1d 0000002e" + short))
  }

  @Test("A status is a number that never changes its meaning")
  func statuses() {
    let all: [CourierChannelConfirmation.Status] = [
      .applied, .unknownTopic, .unknownChannel, .tooMany, .unavailable,
    ]
    #expect(all.map(\.rawValue) == [0, 1, 2, 3, 4])
  }

  @Test("An index is required, and a status in a confirmation")
  func missing() {
    #expect(throws: CourierFault.missingField(command: 29, id: 1)) { try request("02 0002 0801") }
    #expect(throws: CourierFault.missingField(command: 29, id: 1)) {
      try CourierChannelConfirmation(decoding: hex("04 0001 00").span)
    }
    #expect(throws: CourierFault.missingField(command: 29, id: 4)) {
      try CourierChannelConfirmation(decoding: hex(indexField).span)
    }
  }

  @Test(
    "Wrong lengths are faults",
    arguments: [
      ("01 0002 0007", 1, 2), ("03 0014 \(topicHex)", 3, 20), ("04 0004 00000000", 4, 4),
    ] as [(String, UInt8, Int)])
  func lengths(field: String, id: UInt8, length: Int) {
    #expect(throws: CourierFault.badField(command: 29, id: id, length: length)) {
      try CourierChannelConfirmation(decoding: hex(indexField + "04 0001 00" + field).span)
    }
  }

  @Test("What fits into a frame is known before it is encoded")
  func size() {
    func of(_ channels: Int) -> CourierSubscriptions {
      let mark = CourierChannelMark(id: [UInt8](repeating: 1, count: 96))
      return CourierSubscriptions(topics: [
        CourierChannelTopic(topic: topic, subscribed: Array(repeating: mark, count: channels))
      ])
    }
    // 100 bytes for each channel, and 11 for version, topic, and a tag with a length of three bytes.
    #expect(of(649).fitsFrame)
    #expect(!of(650).fitsFrame)
  }
}

/// The encoding of Protocol Buffers, as field 2 of a request has it.
@Suite("Courier messages: Protocol Buffers")
struct CourierProtobufTests {
  private let topic = Array("a.b".utf8)
  private let none = CourierSubscriptions()

  @Test("Fields come in any order, the last value counts, and any number but 0 is true")
  func order() throws {
    let expected = CourierSubscriptions(
      topics: [
        CourierChannelTopic(topic: topic, subscribed: [CourierChannelMark(id: [9])]),
        CourierChannelTopic(topic: [0x63]),
      ], replaces: true)
    let found = try subscriptions(
      "18 00 18 07" + "12 0d" + "12 06 0a 01 08 0a 01 09" + "0a 03 612e62" + "12 03 0a 01 63"
        + "08 02")
    #expect(found == expected)
  }

  @Test(
    "Unknown fields of every kind are skipped, whatever they contain",
    arguments: [
      "20 01", "21 0000000000000000", "25 00000000", "22 03 ffffff", "22 00", "10 05", "1a 02 ffff",
      "a0 06 01", "f8 ff ff ff 0f 00",
      // The largest number of a field that 64 bits hold.
      "f8 ff ff ff ff ff ff ff ff 01 00",
    ])
  func unknown(field: String) throws {
    #expect(try subscriptions("08 01" + field) == none)
    let found = try subscriptions(field + "18 01")
    #expect(found == CourierSubscriptions(replaces: true))
  }

  @Test("Unknown fields of topics and channels are skipped")
  func nested() throws {
    let found = try subscriptions(
      "12 17" + "20 01" + "0a 03 612e62" + "12 0c" + "18 05 0a 02 0102 22 01 ff 10 80 01" + "10 07")
    #expect(
      found.topics == [
        CourierChannelTopic(
          topic: topic, subscribed: [CourierChannelMark(id: [1, 2], newestNanoseconds: 128)])
      ])
  }

  @Test("A number has up to ten bytes, of which the last is at most 1")
  func tenBytes() throws {
    func newest(_ number: String) throws(CourierFault) -> UInt64? {
      let content = hex(number).count
      // Channel { newestNanoseconds } in Topic { subscribed } in Subscriptions { topics }.
      let channel = "10 \(number)"
      return try subscriptions("12 0\(content + 3) 12 0\(content + 1) \(channel)")
        .topics.first?.subscribed.first?.newestNanoseconds
    }
    #expect(try newest("7f") == 127)
    #expect(try newest("80 00") == 0)
    #expect(try newest("80 80 80 80 80 01") == 1 << 35)
  }

  @Test("The largest number has ten bytes")
  func largest() throws {
    let found = try subscriptions("12 0d 12 0b 10 ff ff ff ff ff ff ff ff ff 01")
    #expect(found.topics.first?.subscribed.first?.newestNanoseconds == UInt64.max)
  }

  @Test(
    "What is no message is a fault of field 2",
    arguments: [
      // A number that does not end, of eleven bytes, and of more than 64 bits.
      "08", "08 80", "08 80 80 80 80 80 80 80 80 80 80 01", "08 ff ff ff ff ff ff ff ff ff 02",
      // A value that ends too early: its length, its bytes, and the numbers of fixed size.
      "12", "12 01", "12 05 0a 03 61 2e", "12 ff ff ff ff ff ff ff ff ff 01", "21 00000000000000",
      "25 000000",
      // The field 0, groups, and kinds that do not exist.
      "00 01", "02 00", "13 14", "0b", "0c", "0e", "0f",
      // Inside a topic and inside a channel.
      "12 02 0a 05", "12 04 12 02 0a 05", "12 04 1a 02 10 80", "12 01 00",
    ])
  func malformed(message: String) {
    let fault = CourierFault.badField(command: 29, id: 2, length: hex(message).count)
    #expect(throws: fault) { try subscriptions(message) }
  }

  @Test("Messages inside of messages are bytes: how deep they are costs nothing")
  func depth() throws {
    var nested: [UInt8] = []
    for _ in 0..<120 { nested = [0x22, UInt8(min(nested.count, 127))] + nested.prefix(127) }
    let text = nested.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    #expect(nested.count == 129)
    #expect(try subscriptions(text) == none)
  }
}

@Suite("Courier messages: broadcasts")
struct CourierBroadcastTests {
  private let payload = Array(#"{"aps":{}}"#.utf8)
  private let channelHex = run("c3", 16)
  private let idHex = "00112233 4455 6677 8899 aabbccddeeff"

  private func tail(expirySeconds: UInt32? = 0x65a0_bc00) throws -> CourierBroadcastTail {
    let topic = TopicHash(hex(topicHex).span)
    return CourierBroadcastTail(
      topic: try #require(topic), messageID: 0x0102_0304, expirySeconds: expirySeconds,
      sentNanoseconds: 0x0100_0000_0000_0000, priority: .immediate,
      id: NotificationID(high: 0x0011_2233_4455_6677, low: 0x8899_aabb_ccdd_eeff),
      channel: CourierChannelMark(
        id: hex(channelHex), newestNanoseconds: 0x0100_0000_0000_0000), payload: payload.span)
  }

  /// The channel's time is 2 to the power of 56: eight groups of seven bits, and a one.
  private func plainFields(flags: String, expiry: String = "65a0bc00") -> String {
    "01 0020 \(tokenHex)" + "07 0001 \(flags)" + "02 0014 \(topicHex)"
      + "03 000a 7b22617073223a7b7d7d" + "04 0004 01020304" + "05 0004 \(expiry)"
      + "06 0008 0100000000000000" + "0d 0001 0a"
      + "1d 001c 0a 10 \(channelHex) 10 8080808080808080 01"
  }

  private var extensionFields: String { "40 0010 \(idHex)" + "41 0001 05" }

  private func encode(
    _ tail: CourierBroadcastTail, _ storage: CourierNotification.StorageFlags, extensions: Bool
  ) throws -> [UInt8] {
    var output = hex("ee")
    tail.append(to: &output, token: try token(), storage: storage, extensions: extensions)
    #expect(output[0] == 0xee, "what stands in the output stays")
    return Array(output[1...])
  }

  @Test("A broadcast is a notification with its channel, and the extensions are at its end")
  func encoding() throws {
    let tail = try tail()
    #expect(
      try encode(tail, [], extensions: true)
        == hex("0a 0000009e" + plainFields(flags: "00") + extensionFields))
    #expect(
      try encode(tail, [.fromStorage, .mayBeRepeated], extensions: true)
        == hex("0a 0000009e" + plainFields(flags: "05") + extensionFields))
    #expect(
      try encode(tail, [.fromStorage, .mayBeRepeated], extensions: false)
        == hex("0a 00000087" + plainFields(flags: "01")))
    #expect(
      try encode(self.tail(expirySeconds: nil), [], extensions: false)
        == hex("0a 00000087" + plainFields(flags: "00", expiry: "ffffffff")))
  }

  @Test("Frames for many devices are appended to one output, without a new allocation")
  func appending() throws {
    let tail = try tail()
    var output: [UInt8] = []
    output.reserveCapacity(4 * 163)
    let capacity = output.capacity
    for _ in 0..<4 {
      tail.append(to: &output, token: try token(), storage: [], extensions: true)
    }
    #expect(output.count == 4 * 163)
    #expect(output.capacity == capacity)
  }

  @Test("A device reads it as any notification, and where the id of its channel is")
  func decoding() throws {
    let bytes = Array(try encode(try tail(), .fromStorage, extensions: true)[5...])
    let view = try CourierNotificationView(decoding: bytes.span, extensions: true)
    #expect(Array(bytes[view.channelID]) == hex(channelHex))
    #expect(Array(bytes[view.payload]) == payload)
    #expect(view.collapseID.isEmpty)
    #expect(view.notification.messageID == 0x0102_0304)
    #expect(view.notification.storage == .fromStorage)
    #expect(view.notification.pushType == .liveactivity)
    #expect(view.notification.priority == .immediate)
    #expect(view.notification.sentNanoseconds == 0x0100_0000_0000_0000)
    #expect(view.notification.token == (try token()))
  }

  private func view(
    channel: String, _ direction: CourierDirection = .toDevice
  ) throws(CourierFault) -> CourierNotificationView {
    let names =
      direction == .toDevice
      ? "01 0020 \(tokenHex) 02 0014 \(topicHex)" : "01 0014 \(topicHex) 02 0020 \(tokenHex)"
    return try CourierNotificationView(
      decoding: hex(names + "03 0002 7b7d" + "04 0004 00000001" + channel).span,
      direction: direction, extensions: true)
  }

  @Test("A channel without an id is none, and one that is no message is a fault")
  func channels() throws {
    #expect(try view(channel: "").channelID.isEmpty)
    #expect(try view(channel: "1d 0000").channelID.isEmpty)
    #expect(try view(channel: "1d 0002 10 05").channelID.isEmpty)
    // Behind 35, 23, 5 and 7 bytes of fields, its header, the message's time, a tag and a length.
    #expect(try view(channel: "1d 0006 10 05 0a 02 0102").channelID == 77..<79)
    #expect(throws: CourierFault.badField(command: 10, id: 29, length: 3)) {
      try view(channel: "1d 0003 0a 02 01")
    }
    #expect(throws: CourierFault.badField(command: 10, id: 29, length: 2)) {
      try view(channel: "1d 0002 0000")
    }
    #expect(try view(channel: "1d 0003 0a 02 01", .toServer).channelID.isEmpty)
  }
}
