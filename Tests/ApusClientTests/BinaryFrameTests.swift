import ApusModel
import ApusWire
import Testing

@testable import ApusClient

/// The bytes that a client of the binary interface writes, compared with the documented formats.
@Suite("Frames of the binary client")
struct BinaryFrameTests {
  private static let token = (UInt8(0)..<32).map { $0 }
  private static let payload = Array(#"{"aps":{"alert":"hi"}}"#.utf8)
  private static let expiration: [UInt8] = [0x5f, 0x5e, 0x10, 0x00]

  private var push: PushRequest {
    var push = PushRequest(
      token: "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F",
      topic: "com.example.app", payload: Self.payload)
    push.expirationSeconds = 0x5f5e_1000
    return push
  }

  private func encode(
    _ command: BinaryCommand, topics: [String] = ["com.example.app"],
    _ change: (inout PushRequest) -> Void = { _ in }
  ) throws -> [UInt8] {
    var encoder = FrameEncoder(command: command, topics: topics)
    var push = push
    change(&push)
    var bytes: [UInt8] = []
    try encoder.append(push, to: &bytes)
    return bytes
  }

  @Test("Command 0 is a token and a payload with their lengths")
  func simple() throws {
    let bytes = try encode(.simple) { $0.expirationSeconds = nil }
    #expect(bytes == [0, 0, 0x20] + Self.token + [0, 0x16] + Self.payload)
  }

  @Test("Command 1 puts an identifier and an expiration first")
  func enhanced() throws {
    let bytes = try encode(.enhanced)
    #expect(
      bytes == [1, 0, 0, 0, 0] + Self.expiration + [0, 0x20] + Self.token + [0, 0x16]
        + Self.payload)
  }

  @Test(
    "Command 2 has the items 1 to 5 in order",
    arguments: [(Priority.immediate, UInt8(10)), (.powerSaving, 5), (nil, 10)])
  func framed(priority: Priority?, byte: UInt8) throws {
    let bytes = try encode(.framed) { $0.priority = priority }
    let items: [UInt8] =
      [1, 0, 0x20] + Self.token + [2, 0, 0x16] + Self.payload + [3, 0, 4, 0, 0, 0, 0]
      + [4, 0, 4] + Self.expiration + [5, 0, 1, byte]
    #expect(bytes == [2, 0, 0, 0, 0x4e] + items)
  }

  @Test("A background push gets priority 5 unless the request sets another")
  func background() throws {
    #expect(try encode(.framed) { $0.pushType = .background }.last == 5)
    #expect(
      try encode(.framed) {
        $0.pushType = .background
        $0.priority = .immediate
      }.last == 10)
  }

  @Test("Without an expiration the service may store the notification as long as possible")
  func noExpiration() throws {
    let bytes = try encode(.enhanced) { $0.expirationSeconds = nil }
    #expect(Array(bytes[5..<9]) == [0x7f, 0xff, 0xff, 0xff])
    let far = try encode(.enhanced) { $0.expirationSeconds = .max }
    #expect(Array(far[5..<9]) == [0xff, 0xff, 0xff, 0xff])
    let never = try encode(.enhanced) { $0.expirationSeconds = 0 }
    #expect(Array(never[5..<9]) == [0, 0, 0, 0])
  }

  @Test("The probe that asks for an error packet has neither token nor payload")
  func probe() {
    #expect(FrameFormat(command: .simple).probe == nil)
    #expect(
      FrameFormat(command: .enhanced).probe == [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    #expect(
      FrameFormat(command: .framed).probe
        == [
          2, 0, 0, 0, 24, 1, 0, 0, 2, 0, 0, 3, 0, 4, 0, 0, 0, 0, 4, 0, 4, 0, 0, 0, 0, 5, 0, 1, 10,
        ]
    )
  }

  @Test("Records contain complete frames, numbered from 1 on each connection")
  func numbers() throws {
    for command in [BinaryCommand.enhanced, .framed] {
      let queue = SentQueueBench(
        SentQueue(
          format: FrameFormat(command: command),
          window: .init(frames: 100, bytes: 65_536, silenceMilliseconds: 1000)))
      let frame = try encode(command)
      for ticket in 0..<5 { #expect(queue.append(frame, ticket: UInt64(ticket))) }
      queue.value.connectionBegan()
      let place = command == .enhanced ? 1 : frame.count - 15
      func numbered(_ numbers: ClosedRange<UInt8>) -> [UInt8] {
        numbers.flatMap { number in
          var frame = frame
          frame[place + 3] = number
          return frame
        }
      }
      #expect(queue.takeRecord(limit: 3 * frame.count + 1) == numbered(1...3))
      #expect(queue.takeRecord(limit: 1) == numbered(4...4))
      queue.value.connectionLost()
      queue.value.connectionBegan()
      #expect(queue.takeRecord() == numbered(1...5))
      #expect(queue.takeRecord() == nil)
    }
  }

  // MARK: Pushes that cannot be sent

  struct Mistake: CustomTestStringConvertible, Sendable {
    var name: String
    var command = BinaryCommand.framed
    var code: PushRequestError.Code
    var words: String
    var change: @Sendable (inout PushRequest) -> Void
    var testDescription: String { name }
  }

  static let mistakes = [
    Mistake(name: "an empty token", code: .invalidToken, words: "0 characters") { $0.token = "" },
    Mistake(name: "half a digit", code: .invalidToken, words: "3 characters") { $0.token = "abc" },
    Mistake(name: "no digit", code: .invalidToken, words: "hexadecimal") { $0.token = "zz" },
    Mistake(name: "a long token", code: .invalidToken, words: "202 characters") {
      $0.token = String(repeating: "0", count: 202)
    },
    Mistake(name: "no payload", code: .invalidPayload, words: "0 bytes") { $0.payload = [] },
    Mistake(name: "a long payload", code: .invalidPayload, words: "1 to 2048") {
      $0.payload = [UInt8](repeating: 0x20, count: 2049)
    },
    Mistake(name: "a collapse id", code: .notCarried, words: "collapse id") {
      $0.collapseID = "a"
    },
    Mistake(name: "priority 1", code: .notCarried, words: "priority 1") {
      $0.priority = .whenActive
    },
    Mistake(
      name: "priority 5 by command 1", command: .enhanced, code: .notCarried, words: "command 1"
    ) {
      $0.priority = .powerSaving
    },
    Mistake(
      name: "an expiration by command 0", command: .simple, code: .notCarried, words: "command 0"
    ) {
      $0.expirationSeconds = 0
    },
    Mistake(name: "a time before 1970", code: .invalidExpiration, words: "-1") {
      $0.expirationSeconds = -1
    },
    Mistake(name: "another app", code: .invalidTopic, words: "com.example.app") {
      $0.topic = "com.example.other"
    },
    Mistake(name: "a call by an app's certificate", code: .notCarried, words: "voip") {
      $0.topic = nil
      $0.pushType = .voip
    },
  ]

  @Test("Values without a field on the interface are errors before sending", arguments: mistakes)
  func refused(mistake: Mistake) throws {
    let error = try #require(throws: PushRequestError.self) {
      _ = try encode(mistake.command) { push in
        if mistake.command == .simple { push.expirationSeconds = nil }
        mistake.change(&push)
      }
    }
    #expect(error.code == mistake.code)
    #expect(error.description.contains(mistake.words), "\(error)")
  }

  @Test("A VoIP certificate allows longer payloads and VoIP pushes")
  func voip() throws {
    let bytes = try encode(.framed, topics: ["com.example.app.voip"]) {
      $0.topic = nil
      $0.pushType = .voip
      $0.payload = [UInt8](repeating: 0x20, count: 4096)
    }
    #expect(bytes.count == 4096 + 61)
  }
}

/// A queue whose methods can be called inside an expectation.
final class SentQueueBench {
  var value: SentQueue

  init(_ value: SentQueue) { self.value = value }

  func copy() -> SentQueueBench { SentQueueBench(value) }

  func append(
    _ frame: [UInt8], ticket: UInt64, deadlineMilliseconds: UInt64 = .max - 1
  ) -> Bool {
    value.append(
      frame.span, ticket: ticket, id: NotificationID(high: 0, low: ticket),
      deadlineMilliseconds: deadlineMilliseconds)
  }

  /// The bytes of the next record.
  func takeRecord(limit: Int = 16_384) -> [UInt8]? {
    value.nextRecord(limit: limit).map { Array(value.frames.bytes[$0]) }
  }

  func takeSettled() -> [SentQueue.Settled] {
    var settled: [SentQueue.Settled] = []
    value.exchangeSettled(&settled)
    return settled
  }

  /// Passes in six bytes from the service.
  func received(_ bytes: [UInt8]) -> SentQueue.PacketVerdict? {
    BinaryErrorPacket(bytes.span).map { value.received($0) }
  }
}
