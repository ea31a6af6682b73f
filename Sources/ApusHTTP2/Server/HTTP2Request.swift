package import ApusModel

/// One request on a connection, from its first header to the last byte of its answer. Comes from a pool.
///
/// The application has it from ``HTTP2ServerSession/nextRequest()`` until it gives it back with
/// ``HTTP2ServerSession/release(_:)``, before or after answering.
@safe package final class HTTP2Request {
  /// What the callbacks write, a dozen times a request. Behind a pointer, because a class's own stored properties are
  /// checked for exclusive access at run time, which cost more than all the rest of this module.
  let record: UnsafeMutablePointer<RequestRecord>

  /// The stream; odd and positive.
  package var streamID: Int32 { unsafe record.pointee.streamID }

  /// The request itself, lent to a function as a whole, which looks at its fields where they lie. `content.fields` is
  /// not to be an argument by itself: the optimiser of Swift 6.3 takes the fields out of what is lent, and releases
  /// them a second time. `fields` is for that.
  ///
  /// An address and not a yield, whose frame is a block from the heap each time.
  package var content: RequestRecord {
    unsafeAddress { unsafe UnsafePointer(record) }
  }
  /// The listed fields. Values are as they came, apart from NUL, CR and LF, which no value can have.
  package var fields: RequestFields {
    _read { yield unsafe record.pointee.fields }
  }
  /// The body; of one longer than `Limits.voipPayloadBytes` only that much and one byte more.
  package var body: ByteStore {
    _read { yield unsafe record.pointee.body }
  }
  /// The first value of a listed field; empty when it did not come. The same bytes as in `fields`, which nothing
  /// changes while the application has the request: the session writes on only in `receive`.
  @_lifetime(borrow self)
  package func value(_ name: HeaderName) -> Span<UInt8> {
    let bytes = unsafe record.pointee.valueBytes(name)
    return unsafe _overrideLifetime(Span(_unsafeElements: bytes), borrowing: self)
  }
  /// The same bytes as in `body`, likewise.
  package var bodyBytes: Span<UInt8> {
    @_lifetime(borrow self)
    get {
      let bytes = unsafe record.pointee.bodyBytes
      return unsafe _overrideLifetime(Span(_unsafeElements: bytes), borrowing: self)
    }
  }
  /// Bytes that the body really had (up to `Limits.discardedBodyBytes` more or less: longer ones are cut off).
  package var bodyByteCount: Int { unsafe record.pointee.bodyByteCount }
  /// Whether all fields together, listed or not, took more than `Limits.headerListBytes` (RFC 9113, section 6.5.2:
  /// name, value and 32 each). Some values are missing then; the answer is 431.
  package var headerListTooLarge: Bool { unsafe record.pointee.headerListTooLarge }
  /// When the first header came.
  package var startedMilliseconds: UInt64 { unsafe record.pointee.startedMilliseconds }

  /// The body of the answer, until the peer's window took it.
  var answer = ByteStore(capacity: 128)
  var answerOffset = 0
  var answeredMilliseconds: UInt64 = 0
  /// Bytes of the answer's body that the peer takes before its next WINDOW_UPDATE; below 0 after it made its windows
  /// smaller (RFC 9113, section 6.9.2).
  var sendWindowBytes = 0
  /// Bytes of DATA frames since our last WINDOW_UPDATE.
  var unannouncedBytes = 0

  /// Whether its connection had shown no valid credential when it came; for the pool.
  var isOfStranger = false
  /// Place among the session's open requests; -1 when the stream is closed.
  var slot = -1
  /// Next in the session's queue.
  var next: HTTP2Request?
  var state: State = []

  /// Where a request is and what it went through.
  struct State: OptionSet {
    var rawValue: UInt8

    static let queued = State(rawValue: 1)
    static let withApplication = State(rawValue: 2)
    /// END_STREAM was seen, or the rest is not waited for.
    static let complete = State(rawValue: 4)
    /// END_STREAM was seen.
    static let ended = State(rawValue: 8)
    static let answered = State(rawValue: 16)
    /// Answered before END_STREAM was seen.
    static let answeredEarly = State(rawValue: 32)
  }

  init() {
    unsafe record = .allocate(capacity: 1)
    unsafe record.initialize(to: RequestRecord())
  }

  deinit {
    unsafe record.deinitialize(count: 1)
    unsafe record.deallocate()
  }

  /// Whether the stream can still be answered. False after the client took it back.
  package var isOpen: Bool { slot >= 0 && !state.contains(.answered) }

  var isInUse: Bool { slot >= 0 || !state.isDisjoint(with: [.queued, .withApplication]) }

  /// The time that an answer may take begins anew.
  package func restart(nowMilliseconds: UInt64) {
    unsafe record.pointee.startedMilliseconds = nowMilliseconds
  }

  func prepare(streamID: Int32, slot: Int, sendWindowBytes: Int, nowMilliseconds: UInt64) {
    self.slot = slot
    state = []
    self.sendWindowBytes = sendWindowBytes
    unannouncedBytes = 0
    unsafe record.pointee.prepare(streamID: streamID, nowMilliseconds: nowMilliseconds)
  }
}

/// The request itself.
package struct RequestRecord: ~Copyable {
  var streamID: Int32 = 0
  var startedMilliseconds: UInt64 = 0
  package fileprivate(set) var fields = RequestFields()
  var body = ByteStore(capacity: 1024)
  var bodyByteCount = 0
  var headerListTooLarge = false
  var shape = RequestShape()

  init() {}

  mutating func prepare(streamID: Int32, nowMilliseconds: UInt64) {
    self.streamID = streamID
    startedMilliseconds = nowMilliseconds
    fields.removeAll()
    body.removeAll()
    bodyByteCount = 0
    headerListTooLarge = false
    shape = RequestShape()
  }

  /// Where a value lies: good until the record is next written to.
  func valueBytes(_ name: HeaderName) -> UnsafeBufferPointer<UInt8> {
    unsafe Self.bytes(of: name, in: fields)
  }

  private static func bytes(
    of name: HeaderName, in fields: borrowing RequestFields
  ) -> UnsafeBufferPointer<UInt8> {
    unsafe fields.value(name).withUnsafeBufferPointer { unsafe $0 }
  }

  /// Where the body lies: the same.
  var bodyBytes: UnsafeBufferPointer<UInt8> {
    unsafe body.span.withUnsafeBufferPointer { unsafe $0 }
  }

  /// Takes one field; false when the request must be reset as malformed.
  mutating func add(_ field: borrowing HeaderField) -> Bool {
    guard shape.add(field) else { return false }
    if shape.listBytes > Limits.headerListBytes {
      headerListTooLarge = true
    } else if let listed = field.listed, !fields.add(listed, value: field.value) {
      headerListTooLarge = true
    }
    return true
  }

  mutating func append(_ bytes: Span<UInt8>) {
    bodyByteCount += bytes.count
    let room = Limits.voipPayloadBytes + 1 - body.count
    guard room > 0 else { return }
    body.append(bytes.count <= room ? bytes : bytes.extracting(first: room))
  }
}
