import ApusModel
import ApusWire
import Testing

private let tokenHex = run("a1", 32)
private let topicHex = run("b2", 20)
private let otherTopicHex = run("d4", 20)

private func token(_ text: String = tokenHex) throws -> DeviceToken {
  let token = DeviceToken(hex: Array(text.utf8).span)
  return try #require(token)
}

private func topic(_ text: String = topicHex) throws -> TopicHash {
  let topic = TopicHash(hex(text).span)
  return try #require(topic)
}

/// The frame that a message encodes to.
private func frame(_ message: some CourierMessage) -> [UInt8] {
  var output: [UInt8] = []
  message.encode(to: &output)
  return output
}

private func decode<Message: CourierMessage>(
  _ type: Message.Type, fields: String
) throws(CourierFault) -> Message {
  try Message(decoding: hex(fields).span)
}

@Suite("Courier messages: connect")
struct CourierConnectTests {
  @Test("The first connect of a device under the service's own ALPN is read and written")
  func first() throws {
    let fields = "02 0001 01" + "05 0004 00000041"
    let message = try decode(CourierConnect.self, fields: fields)
    #expect(message == CourierConnect())
    #expect(message.token == nil && message.certificate.isEmpty)
    #expect(frame(message) == hex("07 0000000b" + fields))
  }

  @Test("A connect with certificate, nonce and signature is read and written")
  func inBand() throws {
    let nonce = "00 0000018bcfe56800 0102030405060708"
    let fields =
      "01 0020 \(tokenHex)" + "02 0001 01" + "05 0004 00000045" + "06 0001 01" + "0c 0004 30820001"
      + "0d 0011 \(nonce)" + "0e 0004 0101abcd" + "10 0002 0009"
    let message = try decode(CourierConnect.self, fields: fields)
    #expect(
      message
        == CourierConnect(
          token: try token(), flags: 0x45, interface: 1, protocolVersion: 9,
          certificate: hex("30820001"), nonce: hex(nonce), signature: hex("0101abcd")))
    #expect(frame(message) == hex("07 00000059" + fields))

    let read = CourierNonce(message.nonce.span)
    #expect(read == CourierNonce(milliseconds: 1_700_000_000_000, random: 0x0102_0304_0506_0708))
    #expect(read?.bytes == hex(nonce))
  }

  @Test("Informational and unknown fields are skipped, in any order")
  func skipped() throws {
    let fields =
      "63 0003 010203" + "08 0004 57694669" + "09 0002 3130" + "0a 0000" + "0b 0001 4d"
      + "11 0002 0000"
      + "13 0002 000a" + "14 0002 0014" + "16 0008 0000018bcfe56800" + "1a 0001 00"
      + "05 0004 00000001" + "02 0001 02"
    #expect(
      try decode(CourierConnect.self, fields: fields) == CourierConnect(state: 2, flags: 1))
  }

  @Test(
    "A token of another length reads as no token",
    arguments: ["01 0000", "01 0001 ff", "01 0014 \(topicHex)"])
  func malformedToken(field: String) throws {
    let message = try decode(CourierConnect.self, fields: field + "05 0004 00000041")
    #expect(message.token == nil && message.flags == 0x41)
  }

  @Test("A nonce has 17 bytes, the first of them 0")
  func nonce() {
    #expect(CourierNonce(hex("01 0000018bcfe56800 0102030405060708").span) == nil)
    #expect(CourierNonce(hex("00 0000018bcfe56800 01020304050607").span) == nil)
    #expect(CourierNonce(hex("00 0000018bcfe56800 010203040506070809").span) == nil)
    #expect(CourierNonce([UInt8]().span) == nil)
  }

  @Test("An accepting response contains fields 1, 3, 4, 5, 6, 8 and 10")
  func accepted() throws {
    let fields =
      "01 0001 00" + "03 0020 \(tokenHex)" + "04 0002 1400" + "05 0002 0002" + "06 0004 00000000"
      + "08 0002 1400" + "0a 0008 0000018bcfe56800"
    let message = CourierConnectResponse(
      status: .accepted, token: try token(), serverMilliseconds: 1_700_000_000_000)
    #expect(frame(message) == hex("08 00000048" + fields))
    #expect(try decode(CourierConnectResponse.self, fields: fields) == message)
  }

  @Test("A refusing response contains 1, 4, 5, 6, 8 and 10, and the time if the nonce's was wrong")
  func refused() throws {
    let fields =
      "01 0001 02" + "04 0002 1400" + "05 0002 0002" + "06 0004 00000000"
      + "07 0008 0000018bcfe56801" + "08 0002 1400" + "0a 0008 0000018bcfe56801"
    let message = CourierConnectResponse(
      status: .refused, token: nil, serverMilliseconds: 1_700_000_000_001,
      badNonceServerMilliseconds: 1_700_000_000_001)
    #expect(frame(message) == hex("08 00000030" + fields))
    #expect(try decode(CourierConnectResponse.self, fields: fields) == message)
  }

  @Test(
    "A response without one of the required fields is rejected",
    arguments: [1, 4, 5, 6, 8, 10])
  func incomplete(id: UInt8) {
    let fields: [(UInt8, String)] = [
      (1, "01 0001 00"), (3, "03 0020 \(tokenHex)"), (4, "04 0002 1400"), (5, "05 0002 0002"),
      (6, "06 0004 00000000"), (8, "08 0002 1400"), (10, "0a 0008 0000018bcfe56800"),
    ]
    #expect(throws: CourierFault.missingField(command: 8, id: id)) {
      try decode(
        CourierConnectResponse.self, fields: fields.filter { $0.0 != id }.map(\.1).joined())
    }
  }
}

@Suite("Courier messages: filter")
struct CourierFilterTests {
  @Test("Each list has its field, which repeats for each topic")
  func lists() throws {
    let fields =
      "01 0020 \(tokenHex)" + "02 0014 \(topicHex)" + "02 0014 \(otherTopicHex)"
      + "03 0014 \(run("03", 20))" + "04 0014 \(run("04", 20))" + "05 0014 \(run("05", 20))"
      + "06 0014 \(run("06", 20))"
    let filter = try decode(CourierFilter.self, fields: fields)
    #expect(filter.token == (try token()))
    #expect(filter.enabled == [try topic(), try topic(otherTopicHex)])
    #expect(filter.ignored == [try topic(run("03", 20))])
    #expect(filter.opportunistic == [try topic(run("04", 20))])
    #expect(filter.paused == [try topic(run("05", 20))])
    #expect(filter.nonWaking == [try topic(run("06", 20))])
    #expect(frame(filter) == hex("09 000000ad" + fields))
  }

  @Test("A field may have several topics in a row, or none")
  func row() throws {
    let filter = try decode(
      CourierFilter.self,
      fields: "01 0020 \(tokenHex)" + "02 0028 \(topicHex)\(otherTopicHex)" + "03 0000"
        + "0c 0001 01")
    #expect(filter.enabled == [try topic(), try topic(otherTopicHex)])
    #expect(filter.ignored == [])
    let empty = try decode(CourierFilter.self, fields: "")
    #expect(empty == CourierFilter(token: nil))
  }

  @Test(
    "Wrong lengths are faults",
    arguments: [
      ("02 0013 \(run("b2", 19))", 2, 19), ("06 0029 \(run("b2", 41))", 6, 41),
      ("01 0014 \(topicHex)", 1, 20), ("01 0000", 1, 0),
    ] as [(String, UInt8, Int)])
  func lengths(field: String, id: UInt8, length: Int) {
    #expect(throws: CourierFault.badField(command: 9, id: id, length: length)) {
      try decode(CourierFilter.self, fields: field)
    }
  }

  @Test("The number of topics is bounded over all lists")
  func bound() throws {
    let half = Limits.courierFilterTopics / 2
    let list = String(repeating: "02 0014 \(topicHex)", count: half)
    let other = String(repeating: "05 0014 \(topicHex)", count: half)
    let filter = try decode(CourierFilter.self, fields: list + other)
    #expect(filter.enabled.count == half && filter.paused.count == half)
    #expect(throws: CourierFault.tooManyTopics) {
      try decode(CourierFilter.self, fields: list + other + "06 0014 \(topicHex)")
    }
  }
}

@Suite("Courier messages: notification and acknowledgement")
struct CourierNotificationTests {
  private let payload = Array(#"{"aps":{}}"#.utf8)
  private let payloadField = "03 000a 7b22617073223a7b7d7d"
  private let idHex = "00112233 4455 6677 8899 aabbccddeeff"

  private func full() throws -> CourierNotification {
    CourierNotification(
      token: try token(), topic: try topic(), messageID: 0x0102_0304, expirySeconds: 0x65a0_bc00,
      sentNanoseconds: 0x17a9_d1c3_b2f0_0001, storage: [.fromStorage, .lastFromStorage],
      priority: .immediate,
      id: NotificationID(high: 0x0011_2233_4455_6677, low: 0x8899_aabb_ccdd_eeff),
      pushType: .background)
  }

  private var plainFields: String {
    "01 0020 \(tokenHex)" + "02 0014 \(topicHex)" + payloadField + "04 0004 01020304"
      + "05 0004 65a0bc00" + "06 0008 17a9d1c3b2f00001" + "07 0001 03" + "0d 0001 0a"
  }

  private var extensionFields: String {
    "40 0010 \(idHex)" + "41 0001 01" + "42 0005 6c756e6368"
  }

  private func encode(
    _ notification: CourierNotification, collapseID: String = "",
    direction: CourierDirection = .toDevice, extensions: Bool
  ) -> [UInt8] {
    var output = hex("ee")
    notification.encode(
      payload: payload.span, collapseID: Array(collapseID.utf8).span, direction: direction,
      extensions: extensions, to: &output)
    #expect(output[0] == 0xee, "what stands in the output stays")
    return Array(output[1...])
  }

  private func view(
    _ fields: String, _ direction: CourierDirection = .toDevice, extensions: Bool = true
  ) throws(CourierFault) -> CourierNotificationView {
    try CourierNotificationView(
      decoding: hex(fields).span, direction: direction, extensions: extensions)
  }

  @Test("A notification with every field is encoded under the service's own ALPN")
  func extended() throws {
    let fields = plainFields + extensionFields
    let sent = encode(try full(), collapseID: "lunch", extensions: true)
    #expect(sent == hex("0a 00000087" + fields))
    #expect(sent.count <= CourierNotification.overheadBytes + payload.count + 5)

    let received = try view(fields)
    #expect(received.notification == (try full()))
    #expect(Array(hex(fields)[received.payload]) == payload)
    #expect(Array(hex(fields)[received.collapseID]) == Array("lunch".utf8))
  }

  @Test("Under the other ALPNs fields from 0x40 are neither sent nor read")
  func compatible() throws {
    #expect(
      encode(try full(), collapseID: "lunch", extensions: false) == hex("0a 00000068" + plainFields)
    )
    var expected = try full()
    expected.id = nil
    expected.pushType = nil
    let received = try view(
      plainFields + "40 0001 ff" + "42 0000" + "41 0003 010203", extensions: false)
    #expect(received.notification == expected && received.collapseID.isEmpty)
    // Nor is the flag that goes with them.
    let flagged = try view(plainFields + "07 0001 07", extensions: false)
    #expect(flagged.notification == expected)
  }

  @Test("No expiry is 0xffffffff, and an absent field means the same")
  func expiry() throws {
    let least = CourierNotification(token: try token(), topic: try topic(), messageID: 1)
    let head = "01 0020 \(tokenHex)" + "02 0014 \(topicHex)" + payloadField + "04 0004 00000001"
    let fields = head + "05 0004 ffffffff" + "07 0001 00"
    #expect(encode(least, extensions: true) == hex("0a 00000059" + fields))
    #expect(try view(fields).notification == least)
    #expect(try view(head).notification == least)
  }

  @Test("In the direction to the server the first two fields are swapped")
  func toServer() throws {
    let message = CourierNotification(token: try token(), topic: try topic(), messageID: 7)
    let fields =
      "01 0014 \(topicHex)" + "02 0020 \(tokenHex)" + payloadField + "04 0004 00000007"
      + "05 0004 ffffffff" + "07 0001 00"
    #expect(encode(message, direction: .toServer, extensions: false) == hex("0a 00000059" + fields))
    #expect(try view(fields, .toServer).notification == message)
    #expect(throws: CourierFault.badField(command: 10, id: 1, length: 20)) { try view(fields) }
  }

  @Test("Unknown values read as none")
  func unknownValues() throws {
    let received = try view(
      "01 0020 \(tokenHex)" + "02 0014 \(topicHex)" + payloadField + "04 0004 00000001"
        + "0d 0001 07" + "41 0001 f0" + "1e 0002 0000" + "0f 0001 00")
    #expect(received.notification.priority == nil && received.notification.pushType == nil)
  }

  @Test("A push type is sent as a number that never changes its meaning")
  func pushTypes() {
    let numbers: [PushType: UInt8] = [
      .alert: 0, .background: 1, .complication: 2, .controls: 3, .fileprovider: 4,
      .liveactivity: 5, .location: 6, .mdm: 7, .pushtotalk: 8, .voip: 9, .widgets: 10,
    ]
    for (type, number) in numbers { #expect(type.rawValue == number) }
  }

  @Test("A notification that lacks a field is rejected", arguments: [1, 2, 3, 4])
  func missing(id: Int) {
    let fields = [
      "01 0020 \(tokenHex)", "02 0014 \(topicHex)", payloadField, "04 0004 00000001",
    ]
    let rest = fields.enumerated().filter { $0.offset != id - 1 }.map(\.element).joined()
    #expect(throws: CourierFault.missingField(command: 10, id: UInt8(id))) { try view(rest) }
  }

  @Test(
    "Wrong lengths are faults",
    arguments: [
      ("01 001f \(run("a1", 31))", 1, 31), ("02 0015 \(run("b2", 21))", 2, 21),
      ("04 0003 000001", 4, 3), ("05 0008 0000000000000001", 5, 8), ("06 0004 00000001", 6, 4),
      ("07 0000", 7, 0), ("0d 0002 000a", 13, 2), ("40 000f \(run("00", 15))", 0x40, 15),
      ("41 0000", 0x41, 0), ("42 0041 \(run("61", 65))", 0x42, 65),
    ] as [(String, UInt8, Int)])
  func lengths(field: String, id: UInt8, length: Int) {
    #expect(throws: CourierFault.badField(command: 10, id: id, length: length)) {
      try view(plainFields + field)
    }
  }

  @Test("An acknowledgement is read with and without the token")
  func acknowledgement() throws {
    let fields = "01 0020 \(tokenHex)" + "04 0004 7fffff00" + "08 0001 00"
    let message = CourierAcknowledgement(token: try token(), messageID: 0x7fff_ff00)
    #expect(frame(message) == hex("0b 0000002e" + fields))
    #expect(try decode(CourierAcknowledgement.self, fields: fields) == message)

    let bare = "04 0004 00000001" + "08 0001 80"
    let early = CourierAcknowledgement(token: nil, messageID: 1, status: .tooEarly)
    #expect(frame(early) == hex("0b 0000000b" + bare))
    #expect(try decode(CourierAcknowledgement.self, fields: bare + "06 0002 6e6f") == early)
    #expect(
      try decode(CourierAcknowledgement.self, fields: "04 0004 00000001" + "08 0001 03").status
        == .rejected)
  }

  @Test("An acknowledgement without a message id or a status is rejected")
  func emptyAcknowledgement() {
    #expect(throws: CourierFault.missingField(command: 11, id: 4)) {
      try decode(CourierAcknowledgement.self, fields: "08 0001 00")
    }
    #expect(throws: CourierFault.missingField(command: 11, id: 8)) {
      try decode(CourierAcknowledgement.self, fields: "04 0004 00000001")
    }
    #expect(throws: CourierFault.badField(command: 11, id: 8, length: 2)) {
      try decode(CourierAcknowledgement.self, fields: "08 0002 0000")
    }
  }
}

@Suite("Courier messages: control")
struct CourierControlTests {
  @Test("A keep-alive is empty, or contains its interval in one, two or four bytes")
  func keepAlive() throws {
    #expect(frame(CourierKeepAlive()) == hex("0c 00000000"))
    #expect(try decode(CourierKeepAlive.self, fields: "") == CourierKeepAlive())
    #expect(frame(CourierKeepAlive(intervalMinutes: 15)) == hex("0c 00000005" + "05 0002 000f"))
    for field in ["05 0001 0f", "05 0002 000f", "05 0004 0000000f"] {
      let fields = "01 0004 57694669" + "02 0003 372e30" + field + "0a 0001 00"
      #expect(try decode(CourierKeepAlive.self, fields: fields).intervalMinutes == 15)
    }
    #expect(throws: CourierFault.badField(command: 12, id: 5, length: 3)) {
      try decode(CourierKeepAlive.self, fields: "05 0003 00000f")
    }
    var answer: [UInt8] = []
    CourierKeepAlive.encodeAnswer(to: &answer)
    #expect(answer == hex("0d 00000000"))
  }

  @Test("No storage contains the connection's token")
  func noStorage() throws {
    let fields = "01 0020 \(tokenHex)"
    let message = CourierNoStorage(token: try token())
    #expect(frame(message) == hex("0e 00000023" + fields))
    #expect(try decode(CourierNoStorage.self, fields: fields) == message)
  }

  @Test("A flush is answered with the padding requested, within the limit")
  func flush() throws {
    let fields = "01 0002 0040" + "02 0003 000000"
    let message = CourierFlush(answerPaddingBytes: 64, paddingBytes: 3)
    #expect(frame(message) == hex("0f 0000000b" + fields))
    let received = try decode(CourierFlush.self, fields: fields)
    #expect(received == message)

    var answer: [UInt8] = []
    received.encodeAnswer(to: &answer)
    #expect(answer == hex("10 00000043" + "02 0040 \(run("00", 64))"))
    answer = []
    CourierFlush(answerPaddingBytes: 0xffff).encodeAnswer(to: &answer)
    #expect(answer == hex("10 00000203" + "02 0200 \(run("00", 512))"))
  }

  @Test("An app token is requested and answered")
  func appToken() throws {
    let asked = "01 0020 \(tokenHex)" + "02 0014 \(topicHex)" + "03 0002 0000"
    let request = CourierAppTokenRequest(token: try token(), topic: try topic())
    #expect(frame(request) == hex("11 0000003f" + asked))
    #expect(try decode(CourierAppTokenRequest.self, fields: asked) == request)
    #expect(
      try decode(CourierAppTokenRequest.self, fields: "02 0014 \(topicHex)")
        == CourierAppTokenRequest(token: nil, topic: try topic(), appID: nil))
    #expect(throws: CourierFault.missingField(command: 17, id: 2)) {
      try decode(CourierAppTokenRequest.self, fields: "01 0020 \(tokenHex)")
    }

    let granted =
      "01 0001 00" + "02 0020 \(run("e5", 32))" + "03 0014 \(topicHex)" + "04 0002 0000"
    let answer = CourierAppTokenAnswer(
      status: 0, token: try token(run("e5", 32)), topic: try topic(), appID: 0)
    #expect(frame(answer) == hex("12 00000043" + granted))
    #expect(try decode(CourierAppTokenAnswer.self, fields: granted) == answer)
  }

  @Test("The answer without an app token still has fields 1, 2 and 3")
  func refusedAppToken() throws {
    let fields = "01 0001 01" + "02 0000" + "03 0014 \(topicHex)"
    let answer = CourierAppTokenAnswer(status: 1, token: nil, topic: try topic(), appID: nil)
    #expect(frame(answer) == hex("12 0000001e" + fields))
    #expect(try decode(CourierAppTokenAnswer.self, fields: fields) == answer)
    #expect(throws: CourierFault.badField(command: 18, id: 2, length: 20)) {
      try decode(CourierAppTokenAnswer.self, fields: "02 0014 \(topicHex)")
    }
  }

  @Test("State and active interval are read and written")
  func state() throws {
    let fields = "01 0001 01" + "02 0004 7fffffff"
    #expect(frame(CourierSetState(.active)) == hex("14 0000000b" + fields))
    #expect(try decode(CourierSetState.self, fields: fields) == CourierSetState(.active))
    #expect(
      try decode(CourierSetState.self, fields: "01 0001 00")
        == CourierSetState(.idle, interval: nil))
    #expect(throws: CourierFault.missingField(command: 20, id: 1)) {
      try decode(CourierSetState.self, fields: "02 0004 7fffffff")
    }

    let interval = "01 0004 0000003c"
    #expect(frame(CourierSetActiveInterval(interval: 60)) == hex("13 00000007" + interval))
    #expect(
      try decode(CourierSetActiveInterval.self, fields: interval)
        == CourierSetActiveInterval(interval: 60))
  }

  @Test("A goodbye has a reason, and a time to reconnect")
  func goodbye() throws {
    let fields = "40 000d 7368757474696e6720646f776e"
    #expect(frame(CourierGoodbye(reason: "shutting down")) == hex("80 00000010" + fields))
    #expect(try decode(CourierGoodbye.self, fields: fields).reason == "shutting down")
    #expect(CourierCommand.goodbye.isExtension && !CourierCommand.channel.isExtension)
    let soon = "40 0003 627965 41 0004 000005dc"
    let goodbye = CourierGoodbye(reason: "bye", reconnectMilliseconds: 1500)
    #expect(frame(goodbye) == hex("80 0000000d" + soon))
    let decoded = try decode(CourierGoodbye.self, fields: soon)
    #expect(decoded.reason == "bye" && decoded.reconnectMilliseconds == 1500)
  }

  @Test("Dialects are identified by name, and the packed one is never selected")
  func dialects() {
    for (name, dialect) in [
      ("apus-courier/1", CourierALPN.apus), ("apns-security-v3", .securityV3),
      ("apns-security-v2", .securityV2), ("apns-pack-v1", .pack), ("h2", nil), ("", nil),
    ] {
      #expect(CourierALPN(Array(name.utf8).span) == dialect)
    }
    #expect(CourierALPN.allCases.filter(\.isSelectable) == [.apus, .securityV3, .securityV2])
    #expect(CourierALPN.allCases.filter(\.allowsExtensions) == [.apus])
  }

  @Test("Every decoder rejects a truncated field")
  func truncated() {
    func check<Message: CourierMessage>(_ type: Message.Type, _ command: UInt8) {
      #expect(throws: CourierFault.truncatedField(command: command, offset: 4)) {
        try decode(type, fields: "63 0001 ff" + "01 0020 a1")
      }
    }
    check(CourierConnect.self, 0x07)
    check(CourierConnectResponse.self, 0x08)
    check(CourierFilter.self, 0x09)
    check(CourierAcknowledgement.self, 0x0b)
    check(CourierKeepAlive.self, 0x0c)
    check(CourierNoStorage.self, 0x0e)
    check(CourierFlush.self, 0x0f)
    check(CourierAppTokenRequest.self, 0x11)
    check(CourierAppTokenAnswer.self, 0x12)
    check(CourierSetActiveInterval.self, 0x13)
    check(CourierSetState.self, 0x14)
    check(CourierGoodbye.self, 0x80)
  }
}
