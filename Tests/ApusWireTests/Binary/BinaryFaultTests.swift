import ApusModel
import ApusWire
import Testing

@Suite("Damaged frames of the binary provider interface")
struct BinaryFaultTests {
  private typealias Fixture = BinaryFixture

  private static let token = Fixture.tokenItem
  private static let payload = Fixture.payloadItem
  private static let identifier = Fixture.identifierItem
  private static let expiration = Fixture.expirationItem
  private static let priority = Fixture.priorityItem

  /// A notification of command 2; the length is computed, with at most 255 bytes of items.
  private static func framed(
    _ name: String, _ items: String, _ fault: BinaryFrameFault, _ identifier: UInt32? = 1234
  ) -> BinaryCase {
    let bytes = hex(items)
    precondition(bytes.count < 256)
    var frame = BinaryCase(name, "02 000000 00 \(items)", .fault(fault, .framed, identifier))
    frame.bytes[4] = UInt8(bytes.count)
    return frame
  }

  static let plain = [
    BinaryCase("command 3", "03", .fault(.unknownCommand(3), nil, nil)),
    BinaryCase("an error packet", "08 08 000004d2", .fault(.unknownCommand(8), nil, nil)),
    BinaryCase("a second TLS handshake", "16 0301", .fault(.unknownCommand(0x16), nil, nil)),
    BinaryCase("HTTP/2", "505249202a", .fault(.unknownCommand(0x50), nil, nil)),
    BinaryCase("command 0, no token", "00 0000", .fault(.tokenMissing, .simple, nil)),
    BinaryCase(
      "command 0, a short token", "00 001f", .fault(.tokenLength(byteCount: 31), .simple, nil)),
    BinaryCase(
      "command 0, no payload", "00 0020 \(Fixture.token) 0000",
      .fault(.payloadMissing, .simple, nil)),
    BinaryCase(
      "command 0, a long payload", "00 0020 \(Fixture.token) 0801",
      .fault(.payloadTooLong(byteCount: 2049, limit: 2048), .simple, nil)),
    BinaryCase(
      "command 1, no token", "01 000004d2 5f5e1000 0000", .fault(.tokenMissing, .enhanced, 1234)),
    BinaryCase(
      "command 1, neither token nor payload", "01 00000007 00000000 0000 0000",
      .fault(.tokenMissing, .enhanced, 7)),
    BinaryCase(
      "command 1, the token of java-apns' connection test", "01 00000000 00000000 0001 21 0001 22",
      .fault(.tokenLength(byteCount: 1), .enhanced, 0)),
    BinaryCase(
      "command 1, a token of hexadecimal digits", "01 000004d2 5f5e1000 0040",
      .fault(.tokenLength(byteCount: 64), .enhanced, 1234)),
    BinaryCase(
      "command 1, no payload", "01 000004d2 5f5e1000 0020 \(Fixture.token) 0000",
      .fault(.payloadMissing, .enhanced, 1234)),
    BinaryCase(
      "command 1, a long payload", "01 000004d2 5f5e1000 0020 \(Fixture.token) ffff",
      .fault(.payloadTooLong(byteCount: 65_535, limit: 2048), .enhanced, 1234)),
    BinaryCase(
      "command 2, a frame that is too long", "02 00020001",
      .fault(.frameTooLong(byteCount: 131_073), .framed, nil)),
    BinaryCase(
      "command 2, the longest length", "02 ffffffff",
      .fault(.frameTooLong(byteCount: 0xffff_ffff), .framed, nil)),
  ]

  /// What makes a frame unreadable, apart from the identifier.
  static let framing = [
    framed(
      "an item that runs past the end", "\(token) \(identifier) 02 0016 7b22", .itemBeyondFrame),
    framed(
      "the same in front of the identifier", "\(token) 02 00ff \(identifier)", .itemBeyondFrame, nil
    ),
    framed("an item one byte too long", "\(identifier) 02 0003 7b7d", .itemBeyondFrame),
    framed(
      "one byte after the last item", "\(identifier) \(token) \(payload) 05", .itemBeyondFrame),
    framed("two bytes behind it", "\(identifier) \(token) \(payload) 04 00", .itemBeyondFrame),
    framed("one byte and nothing else", "01", .itemBeyondFrame, nil),
    framed("item 0", "00 0000 \(token) \(payload) \(identifier)", .unknownItem(0)),
    framed("item 6", "\(token) \(payload) 06 0001 00 \(identifier)", .unknownItem(6)),
    framed("item 255", "\(token) \(payload) \(identifier) ff 0002 0000", .unknownItem(255)),
    framed("two tokens", "\(token) \(token) \(payload) \(identifier)", .repeatedItem(1)),
    framed("two payloads", "\(payload) \(token) \(payload) \(identifier)", .repeatedItem(2)),
    framed(
      "two identifiers", "\(token) \(payload) \(identifier) 03 0004 00000007", .repeatedItem(3)),
    framed("two expirations", "\(expiration) \(expiration) \(identifier)", .repeatedItem(4)),
    framed("two priorities", "\(priority) \(identifier) \(priority)", .repeatedItem(5)),
    framed("two empty tokens", "01 0000 01 0000 \(identifier)", .repeatedItem(1)),
    framed(
      "an identifier of three bytes", "\(token) \(payload) 03 0003 0004d2",
      .itemLength(item: 3, byteCount: 3), nil),
    framed(
      "an identifier of five bytes", "03 0005 00000004d2 \(token)",
      .itemLength(item: 3, byteCount: 5), nil),
    framed(
      "an empty identifier, and a valid one", "03 0000 \(identifier) \(token) \(payload)",
      .itemLength(item: 3, byteCount: 0)),
    framed(
      "an expiration of eight bytes", "\(token) \(payload) 04 0008 000000005f5e1000 \(identifier)",
      .itemLength(item: 4, byteCount: 8)),
    framed("an empty expiration", "\(identifier) 04 0000", .itemLength(item: 4, byteCount: 0)),
    framed("an empty priority", "05 0000 \(identifier)", .itemLength(item: 5, byteCount: 0)),
    framed(
      "a priority of four bytes", "\(token) \(payload) \(identifier) 05 0004 0000000a",
      .itemLength(item: 5, byteCount: 4)),
    framed(
      "the first of several faults", "\(priority) \(priority) 09 0000 \(identifier) 04 0000 01",
      .repeatedItem(5)),
  ]

  static let lengths = [
    framed("no item at all", "", .tokenMissing, nil),
    framed("no token", "\(payload) \(identifier) \(expiration) \(priority)", .tokenMissing),
    framed("an empty token", "01 0000 \(payload) \(identifier)", .tokenMissing),
    framed("neither token nor payload", identifier, .tokenMissing),
    BinaryCase("pushy's known-bad", Fixture.knownBad, .fault(.tokenMissing, .framed, 7)),
    framed(
      "a short token", "01 0001 21 \(payload) \(identifier)", .tokenLength(byteCount: 1)),
    framed(
      "a token above 100 bytes", "01 0065 \(run("a1", 101)) \(payload) \(identifier)",
      .tokenLength(byteCount: 101)),
    framed("no payload", "\(token) \(identifier)", .payloadMissing),
    framed("an empty payload", "02 0000 \(token) \(identifier)", .payloadMissing),
    BinaryCase(
      "a long payload", "02 0000082e 02 0801 \(run("20", 2049)) \(token) \(identifier)",
      .fault(.payloadTooLong(byteCount: 2049, limit: 2048), .framed, 1234)),
  ]

  /// Framing is judged before the token, and the token before the payload, whatever the order of the items.
  static let order = [
    framed("no token, and a bad item", "01 0000 \(payload) \(identifier) 06 0000", .unknownItem(6)),
    framed(
      "no payload, and bytes after the last item", "02 0000 \(token) \(identifier) 00",
      .itemBeyondFrame),
    framed(
      "no payload before a short token", "02 0000 01 0001 21 \(identifier)",
      .tokenLength(byteCount: 1)),
    BinaryCase(
      "a long payload in front of an empty token",
      "02 0000080e 02 0801 \(run("20", 2049)) 01 0000 \(identifier)",
      .fault(.tokenMissing, .framed, 1234)),
  ]

  static let faults = plain + framing + lengths + order

  @Test("Each fault is reported, with the identifier if there is one", arguments: faults)
  func fault(_ damaged: BinaryCase) {
    #expect(BinaryVerdict(damaged.bytes) == damaged.verdict)
  }

  @Test(
    "Each fault has its status",
    arguments: [
      (BinaryFrameFault.unknownCommand(3), 128), (.frameTooLong(byteCount: 131_073), 128),
      (.itemBeyondFrame, 128), (.unknownItem(6), 128), (.repeatedItem(1), 128),
      (.itemLength(item: 3, byteCount: 5), 128), (.tokenMissing, 2),
      (.tokenLength(byteCount: 31), 5),
      (.payloadMissing, 4), (.payloadTooLong(byteCount: 2049, limit: 2048), 7),
    ] as [(BinaryFrameFault, UInt8)])
  func status(_ fault: BinaryFrameFault, _ status: UInt8) {
    #expect(fault.status.rawValue == status)
  }

  @Test("Unknown items are skipped if the listener allows it")
  func unknownItems() {
    let limits = BinaryFrameLimits(skipsUnknownItems: true)
    let bytes = hex(
      "02 0000004d 00 0000 \(Self.token) 06 0001 ff 06 0000 \(Self.payload) \(Self.identifier)")
    #expect(BinaryVerdict(bytes) == .fault(.unknownItem(0), .framed, 1234))
    #expect(BinaryVerdict(bytes, limits) == Fixture.fields(.framed, 82, 1234))
    Fixture.checkPrefixes("unknown items", bytes, limits)

    let damaged = hex("02 0000000e 06 0000 \(Self.identifier) 07 0002 00")
    #expect(
      BinaryVerdict(hex("02 0000000d 06 0000 \(Self.identifier) 07 0002"), limits)
        == .fault(.itemBeyondFrame, .framed, 1234))
    #expect(BinaryVerdict(damaged, limits) == .fault(.itemBeyondFrame, .framed, 1234))
  }
}
