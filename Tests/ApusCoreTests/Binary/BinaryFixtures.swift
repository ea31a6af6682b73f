import ApusCore
import ApusModel
import ApusWire

/// Frames written by hand, from "Binary Provider API".
enum Frames {
  /// 00 01 … 1f
  static let token: [UInt8] = Array(0..<32)
  /// `{"aps":{"alert":"hi"}}`
  static let payload = Array(#"{"aps":{"alert":"hi"}}"#.utf8)

  static func simple(payload: [UInt8] = payload) -> [UInt8] {
    [0x00, 0x00, 0x20] + token + [0x00, UInt8(payload.count)] + payload
  }

  static func enhanced(_ identifier: UInt8, token: [UInt8] = token) -> [UInt8] {
    [0x01, 0, 0, 0, identifier, 0x5f, 0x5e, 0x10, 0x00, 0x00, UInt8(token.count)] + token
      + [0x00, UInt8(payload.count)] + payload
  }

  /// Items 1 to 5.
  static func framed(
    _ identifier: UInt8, priority: UInt8 = 10, payload: [UInt8] = payload
  ) -> [UInt8] {
    let items =
      [0x01, 0x00, 0x20] + token + [0x02, 0x00, UInt8(payload.count)] + payload
      + [0x03, 0x00, 0x04, 0, 0, 0, identifier]
      + [0x04, 0x00, 0x04, 0x5f, 0x5e, 0x10, 0x00] + [0x05, 0x00, 0x01, priority]
    return [0x02, 0, 0, 0, UInt8(items.count)] + items
  }

  /// pushy's known-bad notification, with identifier 7: token and payload of length 0.
  static let knownBad: [UInt8] = [
    0x02, 0x00, 0x00, 0x00, 0x18, 0x03, 0x00, 0x04, 0x00, 0x00, 0x00, 0x07, 0x01, 0x00, 0x00,
    0x02, 0x00, 0x00, 0x04, 0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x05, 0x00, 0x01, 0x0a,
  ]
}

/// A connection driven like by a driver: everything that is admitted is submitted.
final class BinaryPeer {
  var machine: BinaryConnection
  var now: Int64 = 1000
  /// The numbers of the submitted frames.
  var submitted: [UInt32] = []
  /// Their bytes, as the connection returned them.
  var lent: [[UInt8]] = []
  var said: [String] = []

  init(confirms: Bool = false, limits: BinaryFrameLimits = BinaryFrameLimits()) {
    machine = BinaryConnection(limits: limits, confirmsAccepted: confirms)
  }

  func receive(_ input: [UInt8]) {
    var offset = 0
    while true {
      switch machine.next(input.span, at: &offset, nowSeconds: now) {
      case .wait, .over: return
      case .fault: continue
      case .frame(let frame):
        lent.append(machine.bytes(of: frame, in: input.span, before: offset).array)
        submitted.append(machine.submit(frame, nowSeconds: now))
      }
    }
  }

  var pendingCount: Int { machine.pendingCount }
  var isEnded: Bool { machine.isEnded }
  var deadlineSeconds: Int64? { machine.deadlineSeconds }

  func accept(_ index: Int) { machine.decide(submitted[index], status: nil) }

  func fail(_ index: Int) {
    machine.decide(submitted[index], status: .processingError)
  }

  /// The packets that the connection sends now, as hex.
  func effects() -> [String] {
    var effects: [String] = []
    while true {
      switch machine.nextEffect() {
      case .none: return effects
      case .confirm(let packet): effects.append(Self.hex(packet))
      case .end(let packet): effects.append(packet.map { "end " + Self.hex($0) } ?? "end")
      }
    }
  }

  private static func hex(_ packet: BinaryErrorPacket) -> String {
    var bytes: [UInt8] = []
    packet.append(to: &bytes)
    return bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
  }
}

extension Span<UInt8> {
  var array: [UInt8] { indices.map { self[$0] } }
}
