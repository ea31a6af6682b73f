package import ApusModel

/// Lines that were written together: the value of one row.
///
/// A version byte, the Unix milliseconds from which the first line's time counts (8 bytes), then the lines. Most bytes
/// of a line identify its notification, so they are written once: a line *introduces* a notification, and later lines
/// of the chunk refer to it. Numbers are varints, seven bits per byte, the least significant first, the top bit set on
/// all but the last; signed ones are zigzag: 0, -1, 1, -2 are 0, 1, 2, 3. Other numbers are big-endian.
///
/// A line:
///
/// - head (1): the state in bits 0 to 4, then the bits of ``Head``
/// - with `hasTime`: milliseconds since the previous line, signed; otherwise 0
/// - with `hasCause`: the cause (1); otherwise 0
/// - without `introduces`: the number of introductions after that of the notification; 0 is the latest one
/// - with `introduces`: the order of acceptance, as a signed difference to that of the latest one (to 0 for the
///   first), notification id (16), unique id (16), device (8), the token's first eight bytes, and the kind's length
///   (1): 0 if the kind is that of the latest introduction, or 8, and the kind: app (4), environment and suffix (1),
///   push type (1, 0xff for none), priority (1), provider interface (1)
///
/// So the first line of a notification takes 51 or 52 bytes, and each further one 2 to 4.
package enum LedgerChunk {
  static let version: UInt8 = 2
  /// Bytes before the first line.
  static let headerByteCount = 9
  /// The longest line: head, time, cause, then the order, four identities and the kind with its length.
  static let maximumLineBytes = 1 + 10 + 1 + 10 + 48 + 9
  static let kindByteCount = 8
  static let noPushType: UInt8 = 0xff
  static let stateMask: UInt8 = 0x1f

  /// Bits of a line's first byte, besides its state.
  enum Head {
    static let introduces: UInt8 = 0x20
    static let hasTime: UInt8 = 0x40
    static let hasCause: UInt8 = 0x80
  }

  /// Calls `body` with each line. Lines before a fault were passed to it when this throws.
  package static func forEach(
    in value: Span<UInt8>, _ body: (LedgerRecord) -> Void
  ) throws(RecordError) {
    var reader = LedgerChunkReader()
    try reader.begin(value)
    while reader.cursor.position < value.count { body(try reader.next(in: value)) }
  }
}

/// Reads the lines of one chunk in order.
struct LedgerChunkReader {
  private(set) var cursor = RecordCursor()
  private var milliseconds: Int64 = 0
  private var introduced: [NotificationFacts] = []

  mutating func begin(_ value: Span<UInt8>) throws(RecordError) {
    let version: UInt8 = try cursor.integer("version", in: value)
    guard version == LedgerChunk.version else { throw .unknownVersion(version) }
    milliseconds = try cursor.integer("time", in: value)
  }

  mutating func next(in value: Span<UInt8>) throws(RecordError) -> LedgerRecord {
    let head: UInt8 = try cursor.integer("head", in: value)
    guard let state = DeliveryState(rawValue: head & LedgerChunk.stateMask) else {
      throw .malformed(field: "state")
    }
    if head & LedgerChunk.Head.hasTime != 0 {
      milliseconds &+= try cursor.signedVarint("time", in: value)
    }
    var cause: UInt8 = 0
    if head & LedgerChunk.Head.hasCause != 0 { cause = try cursor.integer("cause", in: value) }
    let facts: NotificationFacts
    if head & LedgerChunk.Head.introduces != 0 {
      facts = try introduction(in: value)
      introduced.append(facts)
    } else {
      let back = try cursor.varint("reference", in: value)
      guard back < UInt64(introduced.count) else { throw .malformed(field: "reference") }
      facts = introduced[introduced.count - 1 - Int(back)]
    }
    return LedgerRecord(
      milliseconds: milliseconds, event: LedgerEvent(state: state, causeCode: cause, facts: facts))
  }

  private mutating func introduction(
    in value: Span<UInt8>
  ) throws(RecordError) -> NotificationFacts {
    let latest = introduced.last
    let difference = try cursor.signedVarint("order", in: value)
    let order = (latest?.order ?? 0) &+ UInt64(bitPattern: difference)
    var facts = try cursor.identity(order: order, in: value)
    let kindLength: UInt8 = try cursor.integer("kind", in: value)
    switch Int(kindLength) {
    case 0:
      guard let latest else { throw .malformed(field: "kind") }
      facts.topic = latest.topic
      facts.environment = latest.environment
      facts.pushType = latest.pushType
      facts.priority = latest.priority
      facts.interface = latest.interface
    case LedgerChunk.kindByteCount: try cursor.readKind(of: &facts, in: value)
    default: throw .malformed(field: "kind")
    }
    return facts
  }
}

extension RecordCursor {
  /// An unsigned varint of at most 64 bits.
  mutating func varint(
    _ field: StaticString, in bytes: Span<UInt8>
  ) throws(RecordError) -> UInt64 {
    var value: UInt64 = 0
    var shift: UInt64 = 0
    while true {
      let byte: UInt8 = try integer(field, in: bytes)
      // The tenth byte has one bit of the number.
      guard shift < 63 || byte <= 1 else { throw .malformed(field: "\(field)") }
      value |= UInt64(byte & 0x7f) << shift
      if byte & 0x80 == 0 { return value }
      shift += 7
    }
  }

  /// A varint in zigzag encoding.
  mutating func signedVarint(
    _ field: StaticString, in bytes: Span<UInt8>
  ) throws(RecordError) -> Int64 {
    let value = try varint(field, in: bytes)
    return Int64(bitPattern: value >> 1) ^ -Int64(bitPattern: value & 1)
  }
}
