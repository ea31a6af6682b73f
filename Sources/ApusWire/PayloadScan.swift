internal import ApusModel

/// The properties of a payload that the service needs, found in the pass that validates it.
///
/// The whole text is checked against RFC 8259 and RFC 3629 without building a tree. If a key repeats, the last one
/// counts, as in most parsers; a key spelled with escapes is the same key; a lone surrogate in an escape is accepted,
/// as the grammar allows (RFC 8259, section 8.2). Keys: "Generating a remote notification".
package struct PayloadScan: Sendable, Hashable {
  /// One bit per property: a byte is copied at once with the scanner's state, whereas seven flags are copied one by
  /// one.
  private var answers: UInt8 = 0

  /// The payload has `aps`, and it is an object.
  package var hasAPS: Bool {
    get { self[0] }
    set { self[0] = newValue }
  }
  /// The payload has `mdm`, the only key of a push to a managed device.
  package var hasMDM: Bool {
    get { self[1] }
    set { self[1] = newValue }
  }
  /// `aps` has `alert`, other than null; the next two likewise.
  package var hasAlert: Bool {
    get { self[2] }
    set { self[2] = newValue }
  }
  package var hasBadge: Bool {
    get { self[3] }
    set { self[3] = newValue }
  }
  package var hasSound: Bool {
    get { self[4] }
    set { self[4] = newValue }
  }
  /// `content-available` is the number 1.
  package var contentAvailable: Bool {
    get { self[5] }
    set { self[5] = newValue }
  }

  private subscript(bit: UInt8) -> Bool {
    @inline(__always) get { answers &>> bit & 1 != 0 }
    @inline(__always) set {
      answers = answers & ~(1 &<< bit) | (newValue ? 1 : 0) &<< bit
    }
  }

  /// Whether the push only wakes the app, as a background push must: `content-available`, and nothing that the user
  /// would notice.
  package var onlyContentAvailable: Bool {
    contentAvailable && !hasAlert && !hasBadge && !hasSound
  }

  /// Scans a payload.
  package init(_ payload: Span<UInt8>) throws(JSONFault) {
    var scanner = PayloadScanner()
    try scanner.scan(payload)
    self = scanner.found
  }

  fileprivate init() {}

  /// Forgets the values of an earlier `aps`.
  fileprivate mutating func resetAPS() {
    let mdm = hasMDM
    self = PayloadScan()
    hasMDM = mdm
  }
}

/// The keys that the scan looks for.
private enum PayloadKey {
  case other
  case aps
  case mdm
  case alert
  case badge
  case sound
  case contentAvailable
}

/// The kinds of value that the keys distinguish.
private enum ValueKind {
  case null
  case one
  case object
  case other
}

/// The one pass: reads a payload value by value.
struct PayloadScanner {
  var found = PayloadScan()
  private var lexer = JSONLexer()
  private var depth = 0
  /// One bit per open container, the innermost lowest: set for an object. `Limits.payloadDepth` fits.
  private var objects: UInt64 = 0
  /// The container of depth 2 is the value of `aps`.
  private var insideAPS = false
  /// The key whose value comes next.
  private var key = PayloadKey.other

  /// One loop, in which everything is called from one place: it all becomes one function, and its state stays in
  /// registers. This requires `@inline(always)`; the older `@inline(__always)` inlines too much.
  mutating func scan(_ bytes: Span<UInt8>) throws(JSONFault) {
    try begin(bytes)
    while try step(bytes) != .end {}
    try end(bytes)
  }

  /// Where a step ended.
  enum Position {
    /// Directly after a comma. The scanner's state depends on everything read so far, and on nothing after it.
    case behindComma
    case insideContainer
    /// After the outermost value.
    case end
  }

  @inline(always)
  mutating func begin(_ bytes: Span<UInt8>) throws(JSONFault) {
    let first = lexer.next(bytes)
    guard lexer.offset < bytes.count else { throw .empty }
    guard first == 0x7b else { throw .notObject }
  }

  /// Reads a value, or the beginning of a container, and the separators after it.
  @inline(always)
  mutating func step(_ bytes: Span<UInt8>) throws(JSONFault) -> Position {
    if isInObject { try member(bytes) }
    let isOpen = try value(bytes)
    // An empty container ends where its first member would begin.
    if isOpen, lexer.next(bytes) != closing { return .insideContainer }
    try separators(bytes)
    return depth > 0 ? .behindComma : .end
  }

  @inline(always)
  mutating func end(_ bytes: Span<UInt8>) throws(JSONFault) {
    _ = lexer.next(bytes)
    guard lexer.offset == bytes.count else { throw .trailingBytes(offset: lexer.offset) }
  }

  /// The offset of the next byte to read.
  var offset: Int { lexer.offset }

  private var isInObject: Bool { objects & 1 != 0 }

  private var closing: UInt8 { isInObject ? 0x7d : 0x5d }

  /// Reads a value, or the beginning of a container: then the result is true.
  @inline(always)
  private mutating func value(_ bytes: Span<UInt8>) throws(JSONFault) -> Bool {
    switch lexer.next(bytes) {
    case 0x22:
      _ = try lexer.string(bytes)
      recordValue(.other)
    case 0x7b:
      recordValue(.object)
      try open(object: true)
      return true
    case 0x5b:
      recordValue(.other)
      try open(object: false)
      return true
    case 0x6e:
      try lexer.word(bytes, "null")
      recordValue(.null)
    case 0x74:
      try lexer.word(bytes, "true")
      recordValue(.other)
    case 0x66:
      try lexer.word(bytes, "false")
      recordValue(.other)
    default:
      guard lexer.offset < bytes.count else { throw .truncated }
      let start = lexer.offset
      try lexer.number(bytes)
      let isOne =
        key == .contentAvailable && Self.isOne(bytes.extracting(start..<lexer.offset))
      recordValue(isOne ? .one : .other)
    }
    return false
  }

  /// Reads a key and the colon after it.
  @inline(always)
  private mutating func member(_ bytes: Span<UInt8>) throws(JSONFault) {
    guard lexer.next(bytes) == 0x22 else { throw lexer.fault(bytes) }
    let start = lexer.offset + 1
    let escaped = try lexer.string(bytes)
    if depth == 1 || depth == 2 && insideAPS {
      let name = start..<lexer.offset - 1
      key =
        depth == 1
        ? Self.outerKey(bytes, name, escaped) : Self.innerKey(bytes, name, escaped)
    }
    guard lexer.next(bytes) == 0x3a else { throw lexer.fault(bytes) }
    lexer.offset += 1
  }

  /// Reads what follows a value: the ends of containers, and a comma unless the outermost has ended.
  @inline(always)
  private mutating func separators(_ bytes: Span<UInt8>) throws(JSONFault) {
    while depth > 0 {
      let byte = lexer.next(bytes)
      if byte == 0x2c {
        lexer.offset += 1
        return
      }
      guard byte == closing else { throw lexer.fault(bytes) }
      close()
    }
  }

  @inline(always)
  private mutating func open(object: Bool) throws(JSONFault) {
    guard depth < Limits.payloadDepth else { throw .tooDeep(offset: lexer.offset) }
    lexer.offset += 1
    depth += 1
    objects = objects &<< 1 | (object ? 1 : 0)
  }

  @inline(always)
  private mutating func close() {
    lexer.offset += 1
    objects = objects &>> 1
    if depth == 2 { insideAPS = false }
    depth -= 1
  }

  /// Records that the value of the last key is, or begins, a value of this kind.
  @inline(always)
  private mutating func recordValue(_ kind: ValueKind) {
    switch key {
    case .other: return
    case .aps:
      found.resetAPS()
      found.hasAPS = kind == .object
      insideAPS = kind == .object
    case .mdm: found.hasMDM = kind != .null
    case .alert: found.hasAlert = kind != .null
    case .badge: found.hasBadge = kind != .null
    case .sound: found.hasSound = kind != .null
    case .contentAvailable: found.contentAvailable = kind == .one
    }
    key = .other
  }

  /// Whether a number is 1, however it is spelled.
  private static func isOne(_ number: Span<UInt8>) -> Bool {
    number.equals("1") || number.count > 1 && Double(number.text) == 1
  }

  @inline(always)
  private static func outerKey(
    _ bytes: Span<UInt8>, _ name: Range<Int>, _ escaped: Bool
  ) -> PayloadKey {
    if escaped { return escapedOuterKey(bytes.extracting(name)) }
    guard name.count == 3 else { return .other }
    switch number(bytes, name) {
    case 0x61_7073: return .aps
    case 0x6d_646d: return .mdm
    default: return .other
    }
  }

  /// A key of one to eight bytes as one number, the first byte the most significant: comparing it with several names
  /// costs as much as with one.
  @inline(always)
  private static func number(_ bytes: Span<UInt8>, _ key: Range<Int>) -> UInt64 {
    // A key is usually followed by enough bytes for a single load.
    if bytes.count - key.lowerBound >= 8 {
      return bytes.eightBytes(at: key.lowerBound) &>> UInt64(64 - 8 * key.count)
    }
    var number: UInt64 = 0
    for index in key { number = number &<< 8 | UInt64(bytes[index]) }
    return number
  }

  @inline(always)
  private static func innerKey(
    _ bytes: Span<UInt8>, _ name: Range<Int>, _ escaped: Bool
  ) -> PayloadKey {
    if escaped { return escapedInnerKey(bytes.extracting(name)) }
    switch name.count {
    case 5:
      switch number(bytes, name) {
      case 0x61_6c65_7274: return .alert
      case 0x62_6164_6765: return .badge
      case 0x73_6f75_6e64: return .sound
      default: return .other
      }
    case 17:
      let isIt = bytes.extracting(name).equals("content-available")
      return isIt ? .contentAvailable : .other
    default: return .other
    }
  }

  private static func escapedOuterKey(_ text: Span<UInt8>) -> PayloadKey {
    if JSONLexer.escaped(text, is: "aps") { return .aps }
    return JSONLexer.escaped(text, is: "mdm") ? .mdm : .other
  }

  private static func escapedInnerKey(_ text: Span<UInt8>) -> PayloadKey {
    if JSONLexer.escaped(text, is: "alert") { return .alert }
    if JSONLexer.escaped(text, is: "badge") { return .badge }
    if JSONLexer.escaped(text, is: "sound") { return .sound }
    return JSONLexer.escaped(text, is: "content-available") ? .contentAvailable : .other
  }
}
