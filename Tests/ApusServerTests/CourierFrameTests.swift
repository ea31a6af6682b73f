import ApusModel
import ApusTesting
import Testing

@Suite("Valid and invalid frames of devices")
struct CourierFrameTests {
  let service: TestService

  init() throws { service = try Shared.service }

  /// An accepted device that has sent an empty filter.
  private func served() throws -> ConnectedDevice {
    let device = try service.connect()
    try device.enable()
    return device
  }

  /// The connection ends with a goodbye, and nothing but `before` came earlier.
  private func expectCut(
    _ client: RawCourierClient, after before: [UInt8] = [],
    sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    let end = try client.end()
    #expect(end.frames.map(\.command) == before + [0x80], sourceLocation: sourceLocation)
    #expect(end.frames.last?[0x40]?.isEmpty == false, sourceLocation: sourceLocation)
    #expect(end.end == .closeNotify, sourceLocation: sourceLocation)
  }

  @Test("A keep-alive is answered with an empty frame, whatever its fields")
  func keepAlive() throws {
    let device = try served()
    // Empty; with an interval of 20 minutes; with the fields of Apple's devices.
    for bytes in [
      hex("0c 00000000"), hex("0c 00000005 05 0002 0014"),
      hex("0c 0000000b 01 0004 57694669 09 0001 00"),
    ] {
      try device.client.tls.send(bytes)
      let answer = try device.client.expect(0x0d)
      #expect(answer.bytes == hex("0d 00000000"))
    }
  }

  @Test("Keep-alives more often than once a second end the connection")
  func keepAliveFlood() throws {
    try withBystanders(service) {
      let device = try served()
      try device.client.tls.send((0..<30).flatMap { _ in hex("0c 00000000") })
      let end = try device.client.end()
      let answers = end.frames.dropLast()
      #expect((10..<30).contains(answers.count) && answers.allSatisfy { $0.command == 0x0d })
      #expect(end.frames.last?.command == 0x80)
      #expect(end.end == .closeNotify)
    }
  }

  @Test("A flush is answered with the requested padding, up to 512 bytes")
  func flush() throws {
    let device = try served()
    for (wanted, padding) in [(0, 0), (64, 64), (512, 512), (65_535, 512)] {
      try device.client.send(
        RawCourierFrame(0x0f, (1, bigEndian(UInt16(wanted))), (2, [0, 0, 0, 0])))
      let answer = try device.client.expect(0x10)
      #expect(
        answer.bytes == RawCourierFrame(0x10, (2, [UInt8](repeating: 0, count: padding))).bytes)
    }
  }

  @Test("Unknown commands, and those that only the service sends, are skipped")
  func unknownCommands() throws {
    let device = try served()
    for command in [
      0x01, 0x06, 0x08, 0x0d, 0x0e, 0x10, 0x12, 0x19, 0x1e, 0x20, 0x7f, 0x80, 0xff,
    ] {
      try device.client.send(RawCourierFrame(UInt8(command), (9, [1, 2, 3])))
      try device.settle()
    }
    // The fields of a skipped frame are not checked.
    try device.client.tls.send(hex("7e 00000004 deadbeef"))
    try device.settle()
  }

  @Test("A message before the filter is an error; after it, the message is accepted and dropped")
  func messages() throws {
    let device = try service.connect()
    let message = RawCourierFrame(
      0x0a, (1, ConnectedDevice.hash(TestDirectory.topic)), (2, device.baseToken),
      (3, [1, 2, 3]), (4, [0, 0, 0, 7]))
    for status in [0x80, 0x00] as [UInt8] {
      try device.client.send(message)
      let answer = try device.client.expect(0x0b)
      #expect(
        answer.bytes
          == RawCourierFrame(0x0b, (1, device.baseToken), (4, [0, 0, 0, 7]), (8, [status])).bytes)
      if status == 0x80 { try device.enable(TestDirectory.topic) }
    }
  }

  @Test("A filter with another device's token is ignored")
  func foreignFilter() throws {
    let other = try service.connect()
    let device = try service.connect()
    try device.client.send(RawCourierFrame(0x09, (1, other.baseToken)))
    // A first filter would get an answer, but the flush is answered next.
    try device.settle()
    // Without a token the filter applies to this connection.
    try device.client.send(RawCourierFrame(0x09))
    let answer = try device.client.expect(0x0e)
    #expect(answer.bytes == RawCourierFrame(0x0e, (1, device.baseToken)).bytes)
  }

  @Test("The first frame must be a connect message", arguments: [0x09, 0x0b, 0x0c, 0x11, 0x7f])
  func notConnect(command: Int) throws {
    try withBystanders(service) {
      let client = try service.courier(service.directory.device())
      try client.send(RawCourierFrame(UInt8(command)))
      try expectCut(client)
    }
  }

  @Test("A second connect message is refused")
  func secondConnect() throws {
    try withBystanders(service) {
      let device = try served()
      try device.client.send(ConnectedDevice.connectMessage(token: device.baseToken))
      let response = try device.client.expect(0x08)
      #expect(response.fieldIDs == [1, 4, 5, 6, 8, 10])
      #expect(response[1] == [2])
      try expectCut(device.client)
    }
  }

  @Test("Command 0, and a frame of more than 64 KiB, end the connection immediately")
  func impossibleFrames() throws {
    try withBystanders(service) {
      for bytes in [hex("00"), hex("0c 00010001"), hex("0c ffffffff"), hex("09 7fffffff 01")] {
        // Before the connect message, and after it.
        let fresh = try service.courier(service.directory.device())
        try fresh.tls.send(bytes)
        try expectCut(fresh)
        let device = try served()
        try device.client.tls.send(bytes)
        try expectCut(device.client)
      }
      // The largest allowed frame.
      let device = try served()
      try device.client.send(RawCourierFrame(0x7f, (9, [UInt8](repeating: 0, count: 65_533))))
      try device.settle()
    }
  }

  /// Frames with a field of an invalid length, or without a required field.
  private static let malformedFrames: [(String, String)] = [
    ("filter, token of 31", "09 00000022 01 001f \(zeros(31))"),
    ("filter, topic of 19", "09 00000016 02 0013 \(zeros(19))"),
    ("filter, topic of 21", "09 00000018 04 0015 \(zeros(21))"),
    ("acknowledgement, token of 33", "0b 00000024 01 0021 \(zeros(33))"),
    ("acknowledgement, id of 3", "0b 0000000a 04 0003 000001 08 0001 00"),
    ("acknowledgement, id of 5", "0b 0000000c 04 0005 0000000001 08 0001 00"),
    ("acknowledgement, status of 0", "0b 0000000a 04 0004 00000001 08 0000"),
    ("acknowledgement, status of 2", "0b 0000000c 04 0004 00000001 08 0002 0000"),
    ("acknowledgement without id", "0b 00000004 08 0001 00"),
    ("token request, token of 20", "11 0000002e 01 0014 \(zeros(20)) 02 0014 \(zeros(20))"),
    ("token request, topic of 32", "11 00000023 02 0020 \(zeros(32))"),
    ("token request, app id of 1", "11 0000001b 02 0014 \(zeros(20)) 03 0001 00"),
    ("token request without topic", "11 00000005 03 0002 0000"),
    ("set state, state of 0", "14 00000003 01 0000"),
    ("set state, state of 2", "14 00000005 01 0002 0001"),
    ("set state, interval of 3", "14 0000000a 01 0001 01 02 0003 000001"),
    ("set state without state", "14 00000000"),
    ("active interval without interval", "13 00000000"),
    ("flush, size of 1", "0f 00000004 01 0001 00"),
    (
      "message, topic of 32",
      "0a 0000004d 01 0020 \(zeros(32)) 02 0020 \(zeros(32)) 04 0004 00000001"
    ),
    (
      "message without payload",
      "0a 00000041 01 0014 \(zeros(20)) 02 0020 \(zeros(32)) 04 0004 00000001"
    ),
    ("half a field header", "0c 00000002 05 00"),
    ("a field past its frame", "0c 00000004 05 0002 00"),
    ("a field past everything", "0c 00000003 05 ffff"),
  ]

  private static func zeros(_ count: Int) -> String { String(repeating: "00", count: count) }

  @Test("A field of an invalid length ends the connection", arguments: malformedFrames)
  func malformed(name: String, bytes: String) throws {
    try withBystanders(service) {
      let device = try served()
      try device.client.tls.send(hex(bytes))
      try expectCut(device.client)
    }
  }

  @Test(
    "A malformed connect message ends the connection without an answer",
    arguments: [
      "02 0000", "02 0002 0001", "05 0003 000041", "05 0005 0000000041", "06 0002 0000",
      "10 0001 02", "10 0003 000002", "02", "02 00", "02 0002 01",
    ])
  func malformedConnect(fields: String) throws {
    try withBystanders(service) {
      let client = try service.courier(service.directory.device())
      let body = hex(fields)
      try client.tls.send(hex("07 000000") + [UInt8(body.count)] + body)
      try expectCut(client)
    }
  }

  /// Connect, filter, token request, keep-alive: the first second of a device.
  private func conversation(_ device: TestDevice) -> [UInt8] {
    let token = service.directory.baseToken(device.id).bytes
    let topic = ConnectedDevice.hash(TestDirectory.topic)
    return [
      ConnectedDevice.connectMessage(token: token), RawCourierFrame(0x09, (1, token), (2, topic)),
      RawCourierFrame(0x11, (1, token), (2, topic), (3, [0, 0])), RawCourierFrame(0x0c),
    ].flatMap(\.bytes)
  }

  /// Bytes of the connect message.
  private static let connectBytes =
    ConnectedDevice.connectMessage(token: [UInt8](repeating: 0, count: 32)).bytes.count

  private func expectConversation(_ client: RawCourierClient) throws {
    // The token may wait for the disk, so only the first answer and the set of all answers are certain.
    #expect(try client.expect(0x08)[1] == [0])
    let rest = try (0..<3).map { _ in try #require(try client.nextFrame()).command }
    #expect(rest.sorted() == [0x0d, 0x0e, 0x12])
  }

  @Test("Frames may arrive in any pieces: whole, split anywhere, byte by byte")
  func pieces() throws {
    let first = try service.directory.device()
    let count = conversation(first).count
    for split in 0..<count {
      let device = try service.directory.device()
      let bytes = conversation(device)
      let client = try service.courier(device)
      try client.tls.send(Array(bytes[..<split]))
      try client.tls.send(Array(bytes[split...]))
      try expectConversation(client)
    }
    let client = try service.courier(first)
    try client.tls.sendByteByByte(conversation(first))
    try expectConversation(client)
  }

  @Test("A device that disappears after any byte affects nobody, and can reconnect")
  func cut() throws {
    try withBystanders(service) {
      let last = try service.directory.device()
      for count in 0..<conversation(last).count {
        let device = try service.directory.device()
        let client = try service.courier(device)
        try client.tls.send(Array(conversation(device)[..<count]))
        // After a complete connect message, wait until this connection is the older one.
        if count >= Self.connectBytes { _ = try client.expect(0x08) }
        switch count % 3 {
        case 0: client.tls.reset()
        case 1: client.tls.close()
        default:
          try client.tls.finish()
          _ = try client.end()
        }
        let again = try service.courier(device)
        try again.tls.send(conversation(device))
        try expectConversation(again)
      }
    }
  }
}
