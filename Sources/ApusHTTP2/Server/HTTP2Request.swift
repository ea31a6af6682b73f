package import ApusModel

/// One request on a connection, from its first header to the last byte of its response. From a pool.
///
/// The application has it from ``HTTP2ServerSession/nextRequest()`` until it returns it with
/// ``HTTP2ServerSession/release(_:)``, before or after answering.
@safe package final class HTTP2Request: SessionStream {
  /// The data written a dozen times per request. Behind a pointer, because a class's own stored properties are checked
  /// for exclusive access at run time, which cost more than the rest of this module.
  let record: UnsafeMutablePointer<RequestRecord>

  /// The stream; odd and positive.
  package var streamID: Int32 { unsafe record.pointee.streamID }

  /// The request itself, borrowed as a whole, so that a function can read its fields in place. Do not pass
  /// `content.fields` as an argument: the optimiser of Swift 6.3 takes the fields out of what is borrowed, and
  /// releases them a second time. Use `fields` for that.
  ///
  /// An addressor and not a `yield`, whose coroutine frame is a heap allocation each time.
  package var content: RequestRecord {
    unsafeAddress { unsafe UnsafePointer(record) }
  }
  /// The known fields. Values are as received, without NUL, CR and LF, which no value may contain.
  package var fields: RequestFields {
    _read { yield unsafe record.pointee.fields }
  }
  /// The body; of one longer than `Limits.voipPayloadBytes` only one byte more than that.
  package var body: ByteStore {
    _read { yield unsafe record.pointee.body }
  }
  /// The first value of a known field; empty if absent. The same bytes as in `fields`, which do not change while the
  /// application has the request: the session writes only in `receive`.
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
  /// The full length of the body in bytes (approximately, up to `Limits.discardedBodyBytes`: longer ones are cut off).
  package var bodyByteCount: Int { unsafe record.pointee.bodyByteCount }
  /// Whether all fields together, known or not, exceeded `Limits.headerListBytes` (RFC 9113, section 6.5.2: name,
  /// value and 32 each). Some values are missing then; the response is 431.
  package var headerListTooLarge: Bool { unsafe record.pointee.headerListTooLarge }
  /// When the first header arrived.
  package var startedMilliseconds: UInt64 { unsafe record.pointee.startedMilliseconds }

  /// The body of the response, until it was sent.
  var answer = ByteStore(capacity: 128)
  var answerOffset = 0
  var answeredMilliseconds: UInt64 = 0
  /// Bytes of the response's body that the peer accepts before its next WINDOW_UPDATE; negative after the peer reduced
  /// its windows (RFC 9113, section 6.9.2).
  var sendWindowBytes = 0
  /// Bytes of DATA frames since our last WINDOW_UPDATE.
  var unannouncedBytes = 0

  /// Whose it is; for the pool.
  var account: Int32 = -1
  /// Its index among the session's open requests; -1 once the stream is closed.
  var slot = -1
  /// The next one in the session's queue.
  var next: HTTP2Request?
  var state: State = []

  /// The location and history of a request.
  struct State: OptionSet {
    var rawValue: UInt8

    static let queued = State(rawValue: 1)
    static let withApplication = State(rawValue: 2)
    /// END_STREAM was received, or the rest is not awaited.
    static let complete = State(rawValue: 4)
    /// END_STREAM was received.
    static let ended = State(rawValue: 8)
    static let answered = State(rawValue: 16)
    /// Answered before END_STREAM was received.
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

  /// Whether the stream can still be answered. False after the client cancelled it.
  package var isOpen: Bool { slot >= 0 && !state.contains(.answered) }

  var isInUse: Bool { slot >= 0 || !state.isDisjoint(with: [.queued, .withApplication]) }

  /// Restarts the time that an answer may take.
  package func restart(nowMilliseconds: UInt64) {
    unsafe record.pointee.startedMilliseconds = nowMilliseconds
  }

  func prepare(streamID: Int32, sendWindowBytes: Int, nowMilliseconds: UInt64) {
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

  /// The location of a value: valid until the record is next modified.
  func valueBytes(_ name: HeaderName) -> UnsafeBufferPointer<UInt8> {
    unsafe Self.bytes(of: name, in: fields)
  }

  private static func bytes(
    of name: HeaderName, in fields: borrowing RequestFields
  ) -> UnsafeBufferPointer<UInt8> {
    unsafe fields.value(name).withUnsafeBufferPointer { unsafe $0 }
  }

  /// The location of the body: likewise.
  var bodyBytes: UnsafeBufferPointer<UInt8> {
    unsafe body.span.withUnsafeBufferPointer { unsafe $0 }
  }

  /// Adds one field; false if the request must be reset as malformed.
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
