import ApusModel
import ApusWire
import Testing

/// The content of a notification, without its position.
struct BinaryFields: Hashable {
  var command: BinaryCommand
  var byteCount: Int
  var token: [UInt8]
  var payload: [UInt8]
  var identifier: UInt32?
  var expiration: UInt32?
  var priority: UInt8?
}

/// A scan's outcome, in which frames at different positions compare equal.
enum BinaryVerdict: Hashable {
  case incomplete
  case frame(BinaryFields)
  case fault(BinaryFrameFault, BinaryCommand?, UInt32?)

  init(_ bytes: [UInt8], _ limits: BinaryFrameLimits = BinaryFrameLimits()) {
    switch BinaryFrame.scan(bytes.span, limits: limits) {
    case .incomplete: self = .incomplete
    case .fault(let fault, let command, let identifier): self = .fault(fault, command, identifier)
    case .frame(let frame):
      self = .frame(
        BinaryFields(
          command: frame.command, byteCount: frame.byteCount, token: Array(bytes[frame.token]),
          payload: Array(bytes[frame.payload]), identifier: frame.identifier,
          expiration: frame.expiration, priority: frame.priority))
    }
  }
}

/// Bytes and their expected outcome.
struct BinaryCase: CustomTestStringConvertible {
  var testDescription: String
  var bytes: [UInt8]
  var verdict: BinaryVerdict

  init(_ name: String, _ digits: String, _ verdict: BinaryVerdict) {
    testDescription = name
    bytes = hex(digits)
    self.verdict = verdict
  }
}

enum BinaryFixture {
  /// 00 01 … 1f
  static let token = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
  /// `{"aps":{"alert":"hi"}}`, 22 bytes.
  static let payload = "7b22617073223a7b22616c657274223a226869227d7d"
  static let tokenItem = "01 0020 \(token)"
  static let payloadItem = "02 0016 \(payload)"
  static let identifierItem = "03 0004 000004d2"
  static let expirationItem = "04 0004 5f5e1000"
  static let priorityItem = "05 0001 0a"

  static let simple = "00 0020 \(token) 0016 \(payload)"
  static let enhanced = "01 000004d2 5f5e1000 0020 \(token) 0016 \(payload)"
  static let framed =
    "02 0000004e \(tokenItem) \(payloadItem) \(identifierItem) \(expirationItem) \(priorityItem)"
  static let framedShort = "02 00000043 \(tokenItem) \(payloadItem) \(identifierItem)"
  static let knownBad = "020000001803000400000007010000020000040004000000000500010a"

  static func fields(
    _ command: BinaryCommand, _ byteCount: Int, _ identifier: UInt32? = nil,
    _ expiration: UInt32? = nil, _ priority: UInt8? = nil
  ) -> BinaryVerdict {
    .frame(
      BinaryFields(
        command: command, byteCount: byteCount, token: hex(token), payload: hex(payload),
        identifier: identifier, expiration: expiration, priority: priority))
  }

  /// Valid notifications.
  static let good = [
    BinaryCase("command 0", simple, fields(.simple, 59)),
    BinaryCase("command 1", enhanced, fields(.enhanced, 67, 1234, 0x5f5e_1000)),
    BinaryCase("command 2", framed, fields(.framed, 83, 1234, 0x5f5e_1000, 10)),
    BinaryCase("command 2 without expiration and priority", framedShort, fields(.framed, 72, 1234)),
    BinaryCase(
      "command 2 with token and payload alone", "02 0000003c \(tokenItem) \(payloadItem)",
      fields(.framed, 65)),
    BinaryCase(
      "command 2 in pushy's order",
      "02 0000004e \(identifierItem) \(tokenItem) \(payloadItem) \(expirationItem) \(priorityItem)",
      fields(.framed, 83, 1234, 0x5f5e_1000, 10)),
    BinaryCase(
      "command 2 from its last item to its first",
      "02 0000004e \(priorityItem) \(expirationItem) \(identifierItem) \(payloadItem) \(tokenItem)",
      fields(.framed, 83, 1234, 0x5f5e_1000, 10)),
    BinaryCase(
      "identifier 0, the largest expiration, and an unknown priority",
      "02 0000004e \(tokenItem) \(payloadItem) 03 0004 00000000 04 0004 ffffffff 05 0001 ff",
      fields(.framed, 83, 0, .max, 255)),
    BinaryCase(
      "an identifier above every signed number",
      "01 fedcba98 00000000 0020 \(token) 0016 \(payload)",
      fields(.enhanced, 67, 0xfedc_ba98, 0)),
  ]

  /// Each prefix of `bytes` is either incomplete or has the outcome of all of them; and the number of bytes needed is
  /// exact.
  static func checkPrefixes(
    _ name: String, _ bytes: [UInt8], _ limits: BinaryFrameLimits = BinaryFrameLimits()
  ) {
    let whole = BinaryFrame.scan(bytes.span, limits: limits)
    var needed = 1
    for count in 1...bytes.count {
      let scan = BinaryFrame.scan(bytes.span.extracting(0..<count), limits: limits)
      guard case .incomplete(let more) = scan else {
        if count < needed { Issue.record("\(name): \(needed) bytes were not needed, but \(count)") }
        if scan != whole { Issue.record("\(name): \(count) bytes give \(scan), all \(whole)") }
        continue
      }
      let isConsistent = more > count && (count >= needed || more == needed)
      if !isConsistent { Issue.record("\(name): \(count) bytes need \(more), fewer \(needed)") }
      needed = more
    }
  }
}
