import ApusModel
import ApusWire
import Testing

@Suite("Frames of the binary provider interface")
struct BinaryFrameTests {
  private typealias Fixture = BinaryFixture

  @Test("A valid notification is read", arguments: BinaryFixture.good)
  func good(_ notification: BinaryCase) {
    #expect(BinaryVerdict(notification.bytes) == notification.verdict)
    #expect(BinaryVerdict(notification.bytes + [2, 0, 0]) == notification.verdict)
  }

  @Test(
    "The outcome of a prefix is the outcome of the whole",
    arguments: BinaryFixture.good + BinaryFaultTests.faults)
  func everyCut(_ notification: BinaryCase) {
    Fixture.checkPrefixes(notification.testDescription, notification.bytes)
    Fixture.checkPrefixes(
      notification.testDescription + ", and another",
      notification.bytes + hex(Fixture.framed))
  }

  @Test(
    "An outcome that precedes the frame's end does not depend on what follows",
    arguments: BinaryFixture.good + BinaryFaultTests.faults)
  func whateverFollows(_ notification: BinaryCase) {
    for next: UInt8 in [0, 1, 2, 8, 255] {
      let bytes = notification.bytes + Array(repeating: next, count: 20)
      #expect(BinaryVerdict(bytes) == notification.verdict, "before \(next)")
    }
  }

  @Test("A thousand notifications in one buffer are read", arguments: BinaryFixture.good)
  func thousand(_ notification: BinaryCase) {
    let one = notification.bytes
    let bytes = Array(repeatElement(one, count: 1000).joined())
    let first = BinaryFrame.scan(one.span, limits: BinaryFrameLimits())
    var offset = 0
    var count = 0
    while offset < bytes.count {
      let rest = bytes.span.extracting(offset..<bytes.count)
      guard case .frame(let frame) = BinaryFrame.scan(rest, limits: BinaryFrameLimits()),
        .frame(frame) == first
      else {
        Issue.record("number \(count) is read otherwise than the first")
        return
      }
      offset += frame.byteCount
      count += 1
    }
    #expect(count == 1000)
  }

  @Test("Consecutive notifications of all kinds are read, cut at any byte")
  func stream() {
    let bytes = Fixture.good.flatMap(\.bytes)
    for cut in 0...bytes.count {
      var found: [BinaryVerdict] = []
      var buffer: [UInt8] = []
      for part in [bytes[..<cut], bytes[cut...]] {
        buffer += part
        while !buffer.isEmpty, case .frame(let fields) = BinaryVerdict(buffer) {
          found.append(.frame(fields))
          buffer.removeFirst(fields.byteCount)
        }
      }
      #expect(found == Fixture.good.map(\.verdict), "cut at \(cut)")
      #expect(buffer.isEmpty)
    }
  }

  @Test(
    "The number of bytes needed is exact",
    arguments: [
      ("00", 3), ("00 00", 3), ("00 0020", 37), ("00 0020 \(BinaryFixture.token) 00", 37),
      ("00 0020 \(BinaryFixture.token) 0016", 59), ("01", 11), ("01 000004d2 5f5e1000 00", 11),
      ("01 000004d2 5f5e1000 0020", 45), ("02", 5), ("02 000000", 5), ("02 0000004e", 83),
      ("02 0000004e 01 0020", 83), ("02 00020000", 131_077),
    ])
  func needed(_ digits: String, _ count: Int) {
    #expect(
      BinaryFrame.scan(hex(digits).span, limits: BinaryFrameLimits())
        == .incomplete(needed: count))
  }

  @Test("The limits decide what is accepted")
  func limits() {
    func notification(_ command: BinaryCommand, token: Int, payload: Int) -> [UInt8] {
      let token = [UInt8](repeating: 0xa1, count: token)
      let payload = [UInt8](repeating: 0x20, count: payload)
      var bytes: [UInt8] = []
      switch command {
      case .simple: bytes.append(simple: token.span, payload: payload.span)
      case .enhanced:
        bytes.append(enhanced: token.span, payload: payload.span, identifier: 1, expiration: 0)
      case .framed:
        bytes.append(
          framed: token.span, payload: payload.span, identifier: 1, expiration: nil, priority: nil)
      }
      return bytes
    }
    func status(_ bytes: [UInt8], _ limits: BinaryFrameLimits) -> BinaryStatus? {
      switch BinaryVerdict(bytes, limits) {
      case .fault(let fault, _, _): fault.status
      case .frame: nil
      case .incomplete: .unknown
      }
    }
    let strict = BinaryFrameLimits(
      tokenBytes: 1...100, simplePayloadBytes: 256, framedPayloadBytes: 4096)
    for command in BinaryCommand.allCases {
      let standard = BinaryFrameLimits()
      #expect(status(notification(command, token: 32, payload: 2048), standard) == nil)
      #expect(
        status(notification(command, token: 32, payload: 2049), standard) == .invalidPayloadSize)
      let most = command == .framed ? 4096 : 256
      for token in [1, 32, 100] {
        #expect(status(notification(command, token: token, payload: most), strict) == nil)
        #expect(
          status(notification(command, token: token, payload: most + 1), strict)
            == .invalidPayloadSize)
      }
      #expect(status(notification(command, token: 101, payload: 9), strict) == .invalidTokenSize)
      for token in [31, 33, 100] {
        #expect(
          status(notification(command, token: token, payload: 9), standard) == .invalidTokenSize)
      }
      #expect(
        status(
          notification(command, token: 0, payload: 9), BinaryFrameLimits(tokenBytes: 0...100))
          == .missingDeviceToken)
    }
  }

  @Test("The longest possible frame is read")
  func longest() {
    let token = [UInt8](repeating: 0xa1, count: 65_535)
    let payload = [UInt8](repeating: 0x20, count: 65_520)
    var bytes: [UInt8] = []
    // Items of 65,538, 65,523, 7 and 4 bytes.
    bytes.append(
      framed: token.span, payload: payload.span, identifier: 7, expiration: nil, priority: 10)
    #expect(bytes.count == 5 + Limits.binaryFrameBytes)
    let limits = BinaryFrameLimits(tokenBytes: 1...65_535, framedPayloadBytes: 65_535)
    let verdict = BinaryVerdict.frame(
      BinaryFields(
        command: .framed, byteCount: bytes.count, token: token, payload: payload, identifier: 7,
        expiration: nil, priority: 10))
    #expect(BinaryVerdict(bytes, limits) == verdict)
    #expect(BinaryVerdict(bytes.dropLast(), limits) == .incomplete)
    #expect(BinaryVerdict(bytes) == .fault(.tokenLength(byteCount: 65_535), .framed, 7))
  }
}
