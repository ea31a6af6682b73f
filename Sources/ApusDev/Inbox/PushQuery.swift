import ApusDevice
import ApusServer

/// A filter for the list of pushes.
struct PushQuery: Sendable {
  enum Verdict: Sendable, Hashable {
    case accepted
    case refused
    /// A fault rule applied.
    case fault
    case violations
    case status(Int)
    case reason(String)

    init(_ text: String) {
      switch text {
      case "accepted": self = .accepted
      case "refused": self = .refused
      case "fault": self = .fault
      case "violations": self = .violations
      default: self = Int(text).map(Verdict.status) ?? .reason(text)
      }
    }
  }

  /// Bytes to find anywhere in the push; ASCII letters match in either case.
  var text: [UInt8] = []
  var token: String?
  var topic: String?
  var pushType: String?
  var device: String?
  var verdict: Verdict?

  func matches(_ push: CapturedPush) -> Bool {
    if let token, push.request.token.lowercased() != token.lowercased() { return false }
    if let topic, push.request.topic != topic { return false }
    if let pushType, push.request.pushType != pushType { return false }
    if let device, push.device != device, !push.recipients.contains(where: { $0.device == device })
    {
      return false
    }
    if let verdict, !matches(verdict, push) { return false }
    return text.isEmpty || contains(push)
  }

  private func matches(_ verdict: Verdict, _ push: CapturedPush) -> Bool {
    switch verdict {
    case .accepted: push.exchange.isAccepted
    case .refused: !push.exchange.isAccepted
    case .fault: push.exchange.fault != nil
    case .violations: !push.violations.isEmpty
    case .status(let status): push.exchange.status == status
    case .reason(let reason): push.exchange.reason == reason
    }
  }

  private func contains(_ push: CapturedPush) -> Bool {
    let exchange = push.exchange
    let texts = [
      push.request.token, push.request.topic, push.device, push.request.collapseID,
      exchange.apnsID, exchange.reason, exchange.explanation, exchange.fault,
      push.shown?.presentation.title ?? push.preview?.presentation.title,
      push.shown?.presentation.body ?? push.preview?.presentation.body,
    ]
    return Self.contains(push.request.payload, text)
      || texts.contains { $0.map { Self.contains(Array($0.utf8), text) } ?? false }
      || push.request.headers.contains { Self.contains(Array($0.value.utf8), text) }
  }

  static func contains(_ bytes: [UInt8], _ wanted: [UInt8]) -> Bool {
    guard let first = wanted.first, bytes.count >= wanted.count else { return wanted.isEmpty }
    let (bytes, wanted) = (bytes.span, wanted.span)
    let firstFolded = fold(first)
    for start in 0...bytes.count - wanted.count where fold(bytes[start]) == firstFolded {
      var length = 1
      while length < wanted.count, fold(bytes[start + length]) == fold(wanted[length]) {
        length += 1
      }
      if length == wanted.count { return true }
    }
    return false
  }

  private static func fold(_ byte: UInt8) -> UInt8 {
    byte &- UInt8(ascii: "A") < 26 ? byte | 0x20 : byte
  }
}
