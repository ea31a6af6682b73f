internal import ApusModel

// Numbers are big-endian. n and m are the lengths of token and payload, L that of all items.
//
// command 0 (simple)    00 n:u16 token m:u16 payload
// command 1 (enhanced)  01 identifier:4 expiration:u32 n:u16 token m:u16 payload
// command 2 (framed)    02 L:u32 item*
// item                  number:u8 length:u16 value

/// The encodings of a notification. Source: "Binary Provider API", which calls 0 and 1 legacy formats.
package enum BinaryCommand: UInt8, Sendable, Hashable, CaseIterable {
  case simple = 0
  case enhanced = 1
  case framed = 2
}

/// The items of command 2. Each occurs at most once, in any order; the first two are required.
///
/// Source: "Binary Provider API", "The format of a notification's items".
package enum BinaryItem: UInt8, Sendable, Hashable, CaseIterable {
  case deviceToken = 1
  case payload = 2
  /// Four opaque bytes.
  case identifier = 3
  /// Seconds since 1970, a u32.
  case expiration = 4
  /// A u8: 10 or 5.
  case priority = 5

  /// Bytes before an item's value.
  package static let headerBytes = 3
}

/// What a listener accepts.
package struct BinaryFrameLimits: Sendable, Hashable {
  /// The lengths of this service's tokens.
  package var tokenBytes: ClosedRange<Int>
  /// Bytes of a payload of commands 0 and 1.
  package var simplePayloadBytes: Int
  /// Bytes of a payload of command 2.
  package var framedPayloadBytes: Int
  /// Whether items that are not in Apple's table are skipped; otherwise they are a fault.
  package var skipsUnknownItems: Bool

  package init(
    tokenBytes: ClosedRange<Int> = DeviceToken.byteCount...DeviceToken.byteCount,
    simplePayloadBytes: Int = Limits.binaryPayloadBytes,
    framedPayloadBytes: Int = Limits.binaryPayloadBytes, skipsUnknownItems: Bool = false
  ) {
    self.tokenBytes = tokenBytes
    self.simplePayloadBytes = simplePayloadBytes
    self.framedPayloadBytes = framedPayloadBytes
    self.skipsUnknownItems = skipsUnknownItems
  }
}

/// One notification in a buffer. Both ranges count from the frame's first byte; nothing is copied.
package struct BinaryFrame: Sendable, Hashable {
  /// Bytes of a command 2 frame before its items.
  package static let headerBytes = 5

  package let command: BinaryCommand
  /// Bytes of the whole frame.
  package let byteCount: Int
  package let token: Range<Int>
  package let payload: Range<Int>
  /// The four opaque bytes as one number; nil for command 0, or without item 3.
  package let identifier: UInt32?
  /// Seconds since 1970; nil for command 0, or without item 4.
  package let expiration: UInt32?
  /// Any value; nil for commands 0 and 1, or without item 5.
  package let priority: UInt8?

  /// Whether the frame has command 0. A pattern match, because `==` on an enum with raw values calls into the standard
  /// library.
  @inlinable package var isSimple: Bool {
    if case .simple = command { true } else { false }
  }
}

/// The result of scanning the front of a buffer.
package enum BinaryScan: Sendable, Hashable {
  /// The bytes needed, counted from the frame's first, before the scan can go on: always more than the buffer holds.
  case incomplete(needed: Int)
  case frame(BinaryFrame)
  /// Invalid. `command` is nil for an unknown first byte, `identifier` if none was found.
  case fault(BinaryFrameFault, command: BinaryCommand?, identifier: UInt32?)
}
