package import ApusModel

/// Builds a chunk, line by line, in reusable memory: see `LedgerChunk` for the format.
package struct LedgerChunkWriter: Sendable {
  /// The chunk, and room after it for at least one line.
  private var bytes = [UInt8](repeating: 0, count: 4096)
  private var used = 0
  package private(set) var lines = 0
  /// Of the previous line.
  private var milliseconds: Int64 = 0
  /// Of the latest introduction.
  private var order: UInt64 = 0
  private var kind: UInt64 = 0
  private var introductions: UInt32 = 0
  /// Recently introduced notifications, by the low bits of the order. Others are introduced again.
  private var recent = [Introduction](repeating: .none, count: Self.recentCount)
  /// Distinguishes the introductions of this chunk from earlier ones without clearing the table.
  private var number: UInt32 = 1

  private struct Introduction: Sendable {
    var order: UInt64
    var place: UInt32
    var chunk: UInt32

    static let none = Introduction(order: .max, place: 0, chunk: 0)
  }

  /// About as many as are in flight to devices at once: 16 bytes each.
  private static let recentCount = 2048

  package init() {}

  package var isEmpty: Bool { used == 0 }

  /// Bytes of the chunk so far.
  package var byteCount: Int { used }

  /// Appends a line; true if it introduces its notification.
  package mutating func append(_ event: LedgerEvent, milliseconds time: Int64) -> Bool {
    if used == 0 { begin(time) }
    if bytes.count - used < LedgerChunk.maximumLineBytes { grow() }
    let place = Int(truncatingIfNeeded: event.facts.order) & (Self.recentCount - 1)
    let known = recent[place]
    let introduces = known.order != event.facts.order || known.chunk != number
    var head = event.state.rawValue
    if introduces { head |= LedgerChunk.Head.introduces }
    if time != milliseconds { head |= LedgerChunk.Head.hasTime }
    if event.causeCode != 0 { head |= LedgerChunk.Head.hasCause }
    let elapsed = time &- milliseconds
    let previousOrder = order
    let previousKind = introductions == 0 ? nil : kind
    let newKind = Self.kind(of: event.facts)
    let back = introductions &- 1 &- known.place
    let start = used
    used = unsafe bytes.withUnsafeMutableBytes { room in
      // There is room for the largest line: see above.
      var output = unsafe LineOutput(at: room.baseAddress.unsafelyUnwrapped + start)
      unsafe output.put(head)
      if elapsed != 0 { unsafe output.put(signedVarint: elapsed) }
      if event.causeCode != 0 { unsafe output.put(event.causeCode) }
      if introduces {
        unsafe output.put(signedVarint: Int64(bitPattern: event.facts.order &- previousOrder))
        unsafe output.put(identities: event.facts)
        if newKind == previousKind {
          unsafe output.put(UInt8(0))
        } else {
          unsafe output.put(UInt8(LedgerChunk.kindByteCount))
          unsafe output.put(newKind)
        }
      } else {
        unsafe output.put(varint: UInt64(back))
      }
      return unsafe start + output.written
    }
    milliseconds = time
    lines += 1
    guard introduces else { return false }
    recent[place] = Introduction(order: event.facts.order, place: introductions, chunk: number)
    introductions += 1
    order = event.facts.order
    kind = newKind
    return true
  }

  /// Copies to the journal what was appended since the chunk had `first` bytes.
  func copy(from first: Int, to journal: LedgerJournal) {
    journal.append(bytes.span.extracting(first..<used), beginsChunk: first == 0)
  }

  /// Returns the finished chunk; the next line begins another one.
  package mutating func take() -> [UInt8] {
    let chunk = Array(bytes[..<used])
    used = 0
    lines = 0
    order = 0
    introductions = 0
    number &+= 1
    return chunk
  }

  private mutating func begin(_ time: Int64) {
    milliseconds = time
    unsafe bytes.withUnsafeMutableBytes { room in
      var output = unsafe LineOutput(at: room.baseAddress.unsafelyUnwrapped)
      unsafe output.put(LedgerChunk.version)
      unsafe output.put(UInt64(bitPattern: time))
    }
    used = LedgerChunk.headerByteCount
  }

  private mutating func grow() { bytes.append(contentsOf: repeatElement(0, count: bytes.count)) }

  /// App, flags, push type, priority and interface, in encoded form.
  private static func kind(of facts: NotificationFacts) -> UInt64 {
    UInt64(facts.topic.app.rawValue) << 32
      | UInt64(TopicFlags.encode(facts.topic.suffix, facts.environment)) << 24
      | UInt64(facts.pushType?.rawValue ?? LedgerChunk.noPushType) << 16
      | UInt64(facts.priority.rawValue) << 8 | UInt64(facts.interface.rawValue)
  }
}

/// Writes the bytes of one line. Its creator has ensured that there is room.
@unsafe
private struct LineOutput {
  private let start: UnsafeMutableRawPointer
  private var place: UnsafeMutableRawPointer

  init(at start: UnsafeMutableRawPointer) {
    unsafe self.start = start
    unsafe place = start
  }

  var written: Int { unsafe place - start }

  @inline(__always)
  mutating func put(_ byte: UInt8) {
    unsafe place.storeBytes(of: byte, as: UInt8.self)
    unsafe place += 1
  }

  @inline(__always)
  mutating func put(_ value: UInt64) {
    unsafe place.storeBytes(of: value.bigEndian, as: UInt64.self)
    unsafe place += 8
  }

  @inline(__always)
  mutating func put(varint value: UInt64) {
    var rest = value
    while rest >= 0x80 {
      unsafe put(UInt8(truncatingIfNeeded: rest) | 0x80)
      rest &>>= 7
    }
    unsafe put(UInt8(truncatingIfNeeded: rest))
  }

  @inline(__always)
  mutating func put(signedVarint value: Int64) {
    unsafe put(varint: UInt64(bitPattern: value &<< 1 ^ value &>> 63))
  }

  @inline(__always)
  mutating func put(identities facts: NotificationFacts) {
    unsafe put(facts.id.high)
    unsafe put(facts.id.low)
    unsafe put(facts.uniqueID.high)
    unsafe put(facts.uniqueID.low)
    unsafe put(facts.device.rawValue)
    unsafe put(facts.tokenPrefix)
  }
}
