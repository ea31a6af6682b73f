import ApusModel
import ApusWire
import Testing

@Suite("Encoding on the binary interface")
struct BinaryEncodingTests {
  private typealias Fixture = BinaryFixture
  private let token = hex(BinaryFixture.token)
  private let payload = hex(BinaryFixture.payload)

  @Test("Command 0 is encoded")
  func simple() {
    var bytes = hex("ff")
    bytes.append(simple: token.span, payload: payload.span)
    #expect(bytes == hex("ff" + Fixture.simple))
  }

  @Test("Command 1 is encoded")
  func enhanced() {
    var bytes = hex("ff")
    bytes.append(
      enhanced: token.span, payload: payload.span, identifier: 1234, expiration: 0x5f5e_1000)
    #expect(bytes == hex("ff" + Fixture.enhanced))
  }

  @Test("Command 2 is encoded with and without the optional items")
  func framed() {
    var bytes = hex("ff")
    bytes.append(
      framed: token.span, payload: payload.span, identifier: 1234, expiration: 0x5f5e_1000,
      priority: 10)
    bytes.append(
      framed: token.span, payload: payload.span, identifier: 1234, expiration: nil, priority: nil)
    bytes.append(
      framed: token.span, payload: payload.span, identifier: nil, expiration: 0, priority: nil)
    bytes.append(
      framed: token.span, payload: payload.span, identifier: nil, expiration: nil, priority: 5)
    #expect(
      bytes
        == hex(
          "ff \(Fixture.framed) \(Fixture.framedShort)"
            + "02 00000043 \(Fixture.tokenItem) \(Fixture.payloadItem) 04 0004 00000000"
            + "02 00000040 \(Fixture.tokenItem) \(Fixture.payloadItem) 05 0001 05"))
  }

  @Test("Lengths above 255, and length 0, are encoded")
  func lengths() {
    let long = [UInt8](repeating: 0x20, count: 2048)
    var bytes: [UInt8] = []
    bytes.append(simple: [UInt8]().span, payload: long.span)
    #expect(bytes == hex("00 0000 0800 \(run("20", 2048))"))

    bytes = []
    bytes.append(
      framed: [UInt8]().span, payload: [UInt8]().span, identifier: 7, expiration: 0, priority: 10)
    #expect(
      bytes == hex("02 00000018 01 0000 02 0000 03 0004 00000007 04 0004 00000000 05 0001 0a"))
  }

  @Test("A length that does not fit a u16 traps")
  func tooLong() async {
    await #expect(processExitsWith: .failure) {
      var bytes: [UInt8] = []
      bytes.append(simple: [1].span, payload: [UInt8](repeating: 0, count: 65_536).span)
    }
    await #expect(processExitsWith: .failure) {
      var bytes: [UInt8] = []
      bytes.append(
        framed: [UInt8](repeating: 0, count: 65_536).span, payload: [1].span, identifier: nil,
        expiration: nil, priority: nil)
    }
    await #expect(processExitsWith: .success) {
      var bytes: [UInt8] = []
      bytes.append(simple: [1].span, payload: [UInt8](repeating: 0, count: 65_535).span)
    }
  }

  @Test(
    "Error packets are written and read",
    arguments: [
      (BinaryStatus.missingDeviceToken, 7, "08 02 00000007"),
      (.invalidToken, 1234, "08 08 000004d2"),
      (.shutdown, 1234, "08 0a 000004d2"), (.protocolError, 0, "08 80 00000000"),
      (.noError, 1, "08 00 00000001"), (.unknown, .max, "08 ff ffffffff"),
    ] as [(BinaryStatus, UInt32, String)])
  func errorPacket(_ status: BinaryStatus, _ identifier: UInt32, _ digits: String) {
    let packet = BinaryErrorPacket(status: status, identifier: identifier)
    var bytes = hex("ff")
    packet.append(to: &bytes)
    #expect(bytes == hex("ff" + digits))
    #expect(BinaryErrorPacket(hex(digits).span) == packet)
  }

  @Test("Error packets with an undefined status are read")
  func unknownStatus() {
    let packet = BinaryErrorPacket(hex("08 fe 01020304").span)
    #expect(packet?.status == 254)
    #expect(packet?.identifier == 0x0102_0304)
  }

  @Test(
    "Bytes that are not exactly an error packet are rejected",
    arguments: ["", "08", "08 02 000000", "08 02 00000007 08", "00 02 00000007", "02 00000007 08"])
  func noPacket(_ digits: String) {
    #expect(BinaryErrorPacket(hex(digits).span) == nil)
  }
}
