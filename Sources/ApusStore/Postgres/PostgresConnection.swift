import ApusModel
import ApusThread
import CPostgres
import Glibc

/// A connection to the database, in pipeline mode. Used by one thread at a time.
///
/// Statements are queued by `send` and `execute`, and their results arrive with `finish`: one transaction, which
/// PostgreSQL commits before the last result if none of them failed.
@safe final class PostgresConnection {
  private let handle: OpaquePointer
  private let statements: PostgresStatements
  /// Whether a warning arrived that makes the outcome of a commit uncertain: the wait for the standby was cancelled.
  private let notices = Notices()
  /// After a lost connection or a deadline.
  private(set) var isBroken = false

  private final class Notices {
    var isUncertain = false
  }

  /// Connects and applies the settings. Blocks for up to two seconds for each host of the address, which are tried in
  /// their order.
  ///
  /// - Parameters:
  ///   - part: The part of a cluster's devices whose tables the statements are about.
  ///   - name: What `pg_stat_activity` shows as the connection's application.
  ///   - prepares: The statements that will be used by `send`.
  ///   - withinMilliseconds: For the settings and the preparation.
  init(
    _ address: PostgresAddress, part: Int = 0, name: String,
    prepares: [PostgresStatements.Statement] = [],
    withinMilliseconds limit: Int64
  ) throws(PostgresFault) {
    if let reason = PostgresLibrary.fault { throw .library(reason) }
    statements = .of(part: part)
    unsafe handle = try Self.connect(address, name)
    // Set before anything can throw, so that `deinit` need not know how far this came.
    unsafe cpq_set_nonblocking(handle, 1)
    unsafe cpq_set_notice_receiver(
      handle, receiveNotice, Unmanaged.passUnretained(notices).toOpaque())
    guard unsafe cpq_enter_pipeline_mode(handle) == 1 else { throw lost() }
    for text in statements.settings { try execute(text) }
    for statement in prepares { try prepare(statement) }
    try finish(withinMilliseconds: limit) { _, _ in }
  }

  deinit { unsafe cpq_finish(handle) }

  var serverVersion: Int { Int(unsafe cpq_server_version(handle)) }
  var backendPID: Int { Int(unsafe cpq_backend_pid(handle)) }

  private static func connect(
    _ address: PostgresAddress, _ name: String
  ) throws(PostgresFault) -> OpaquePointer {
    // What stands before the address is a default, and what stands behind it holds. The time is for each host.
    let pairs = [
      ("connect_timeout", "2"), ("target_session_attrs", "read-write"), ("dbname", address.text),
      ("application_name", name),
      ("keepalives_idle", "10"), ("keepalives_interval", "2"), ("keepalives_count", "3"),
      ("tcp_user_timeout", "15000"), ("client_encoding", "UTF8"),
    ]
    let keywords = unsafe pairs.map { unsafe strdup($0.0) }
    let values = unsafe pairs.map { unsafe strdup($0.1) }
    defer { unsafe (keywords + values).forEach { unsafe free($0) } }
    let handle: OpaquePointer? = unsafe (keywords.map { unsafe UnsafePointer($0) } + [nil])
      .withUnsafeBufferPointer { keywords in
        unsafe (values.map { unsafe UnsafePointer($0) } + [nil]).withUnsafeBufferPointer { values in
          unsafe cpq_connect(keywords.baseAddress, values.baseAddress, 1)
        }
      }
    guard let handle = unsafe handle else { throw .connection("out of memory") }
    guard unsafe cpq_status(handle) == CONNECTION_OK else {
      defer { unsafe cpq_finish(handle) }
      throw .connection(unsafe message(handle))
    }
    return unsafe handle
  }

  private static func message(_ handle: OpaquePointer) -> String {
    unsafe cpq_error_message(handle).map { unsafe String(cString: $0).trimmed } ?? "no reason given"
  }

  /// Waits until the socket is ready; false once the deadline has passed.
  private static func wait(_ socket: Int32, _ events: Int16, until deadline: Deadline) -> Bool {
    while true {
      let left = deadline.milliseconds - monotonicMilliseconds()
      guard left > 0 else { return false }
      var descriptor = pollfd(fd: socket, events: events, revents: 0)
      let result = unsafe poll(&descriptor, 1, Int32(clamping: left))
      if result > 0 { return true }
      if result < 0, errno != EINTR { return true }
    }
  }

  private func lost() -> PostgresFault {
    isBroken = true
    return .connection(unsafe Self.message(handle))
  }

  // MARK: Statements

  private static func name(
    _ statement: PostgresStatements.Statement, _ family: StoreFamily?
  ) -> String {
    family.map { "\(statement.rawValue) \($0.name)" } ?? statement.rawValue
  }

  private func prepare(_ statement: PostgresStatements.Statement) throws(PostgresFault) {
    guard statement.isOfFamily else {
      return try prepare(statements.text(statement), as: Self.name(statement, nil))
    }
    for family in StoreFamily.allCases {
      try prepare(statements.text(statement, of: family), as: Self.name(statement, family))
    }
  }

  private func prepare(_ text: String, as name: String) throws(PostgresFault) {
    guard unsafe cpq_send_prepare(handle, name, text, 0, nil) == 1 else { throw lost() }
  }

  /// Queues a prepared statement.
  func send(
    _ statement: PostgresStatements.Statement, _ family: StoreFamily? = nil,
    _ values: PostgresValues
  ) throws(PostgresFault) {
    let isSent = unsafe withPointers(values) { pointers, lengths, formats in
      unsafe cpq_send_query_prepared(
        handle, Self.name(statement, family), Int32(values.ranges.count), pointers, lengths,
        formats, 1) == 1
    }
    guard isSent else { throw lost() }
  }

  /// Queues a statement that is used seldom.
  func execute(
    _ statement: PostgresStatements.Statement, _ values: PostgresValues = PostgresValues()
  ) throws(PostgresFault) {
    try execute(statements.text(statement), values)
  }

  func execute(
    _ text: String, _ values: PostgresValues = PostgresValues()
  ) throws(PostgresFault) {
    let isSent = unsafe withPointers(values) { pointers, lengths, formats in
      unsafe cpq_send_query_params(
        handle, text, Int32(values.ranges.count), nil, pointers, lengths, formats, 1) == 1
    }
    guard isSent else { throw lost() }
  }

  private func withPointers<Result>(
    _ values: PostgresValues,
    _ body: (
      UnsafePointer<UnsafePointer<CChar>?>?, UnsafePointer<Int32>?, UnsafePointer<Int32>?
    ) -> Result
  ) -> Result {
    unsafe values.bytes.withUnsafeBytes { bytes in
      let start = unsafe bytes.bindMemory(to: CChar.self).baseAddress
      // An empty value needs an address, too: none means null.
      let pointers = unsafe values.ranges.map { range in
        unsafe start.map { unsafe $0 + range.lowerBound }
      }
      let lengths = values.ranges.map { Int32($0.count) }
      let formats = [Int32](repeating: 1, count: values.ranges.count)
      return unsafe pointers.withUnsafeBufferPointer { pointers in
        unsafe lengths.withUnsafeBufferPointer { lengths in
          unsafe formats.withUnsafeBufferPointer { formats in
            unsafe body(pointers.baseAddress, lengths.baseAddress, formats.baseAddress)
          }
        }
      }
    }
  }

  // MARK: Results

  /// Ends the transaction of the queued statements and waits for all of their results.
  ///
  /// - Parameter each: Gets the rows of each statement, with its place among the queued ones.
  /// - Throws: The first failure. After `.server` the connection can be used further and nothing was changed; after the
  ///   others it cannot, and it is unknown what was changed.
  func finish(
    withinMilliseconds limit: Int64,
    _ each: (_ statement: Int, _ rows: borrowing PostgresRows) -> Void
  ) throws(PostgresFault) {
    guard !isBroken else { throw .connection("the connection was lost") }
    guard unsafe cpq_pipeline_sync(handle) == 1 else { throw lost() }
    notices.isUncertain = false
    let deadline = Deadline.after(milliseconds: limit)
    var place = 0
    var failure: PostgresFault?
    while true {
      try waitForResult(until: deadline, limit)
      guard let result = unsafe cpq_get_result(handle) else {
        // Between the results of two statements.
        place += 1
        continue
      }
      let rows = unsafe PostgresRows(result)
      switch rows.status {
      case PGRES_PIPELINE_SYNC:
        if let failure { throw failure }
        guard !notices.isUncertain else {
          isBroken = true
          throw .connection("the wait for the standby was cancelled")
        }
        return
      case PGRES_TUPLES_OK, PGRES_COMMAND_OK:
        if failure == nil { each(place, rows) }
      case PGRES_PIPELINE_ABORTED: break
      default:
        // Without a state the message is libpq's own: the connection ended.
        guard let state = rows.state else { throw lost() }
        if failure == nil { failure = .server(state: state, message: rows.message) }
        // Errors of classes 57 and 08 end the session, others leave it usable.
        if unsafe cpq_status(handle) == CONNECTION_BAD { throw lost() }
      }
    }
  }

  /// Waits until a result can be taken without blocking.
  private func waitForResult(until deadline: Deadline, _ limit: Int64) throws(PostgresFault) {
    while unsafe cpq_is_busy(handle) == 1 {
      let unsent = unsafe cpq_flush(handle)
      guard unsent >= 0 else { throw lost() }
      let events = unsent == 1 ? POLLIN | POLLOUT : POLLIN
      guard Self.wait(unsafe cpq_socket(handle), Int16(events), until: deadline) else {
        isBroken = true
        throw .deadline(milliseconds: limit)
      }
      guard unsafe cpq_consume_input(handle) == 1 else { throw lost() }
    }
  }

  /// One statement in a transaction of its own. Returns what `read` makes of its rows.
  func ask<Result>(
    _ statement: PostgresStatements.Statement, _ values: PostgresValues = PostgresValues(),
    withinMilliseconds limit: Int64, _ read: (borrowing PostgresRows) -> Result
  ) throws(PostgresFault) -> Result {
    try execute(statement, values)
    var result: Result?
    try finish(withinMilliseconds: limit) { _, rows in result = read(rows) }
    guard let result else { throw .connection("the server sent no result") }
    return result
  }
}

/// Warnings of class 01 during a commit: the wait for a standby was cancelled, and the commit is only local.
private func receiveNotice(_ context: UnsafeMutableRawPointer?, _ result: OpaquePointer?) {
  guard let context = unsafe context, let result = unsafe result else { return }
  guard let state = unsafe cpq_result_state(result), unsafe String(cString: state) == "01000" else {
    return
  }
  unsafe PostgresConnection.noteUncertain(context)
}

extension PostgresConnection {
  fileprivate static func noteUncertain(_ context: UnsafeMutableRawPointer) {
    unsafe Unmanaged<Notices>.fromOpaque(context).takeUnretainedValue().isUncertain = true
  }
}

/// The result of one statement, in binary format.
@safe struct PostgresRows: ~Copyable {
  private let result: OpaquePointer

  init(_ result: OpaquePointer) { unsafe self.result = unsafe result }

  deinit { unsafe cpq_clear(result) }

  var status: ExecStatusType { unsafe cpq_result_status(result) }
  /// The SQLSTATE of an error.
  var state: String? { unsafe cpq_result_state(result).map { unsafe String(cString: $0) } }
  var message: String {
    unsafe cpq_result_message(result).map { unsafe String(cString: $0).trimmed } ?? ""
  }
  var count: Int { Int(unsafe cpq_row_count(result)) }

  /// The bytes of a field; none for null.
  @_lifetime(borrow self)
  func bytes(_ row: Int, _ column: Int) -> Span<UInt8> {
    let length = Int(unsafe cpq_length(result, Int32(row), Int32(column)))
    let start = unsafe UnsafeRawPointer(cpq_value(result, Int32(row), Int32(column)))
    let span = unsafe Span<UInt8>(
      _unsafeBytes: UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : length))
    return unsafe _overrideLifetime(span, borrowing: self)
  }

  func text(_ row: Int, _ column: Int) -> String {
    String(decoding: bytes(row, column).copied(), as: UTF8.self)
  }

  /// A number of two, four or eight bytes, or a truth value.
  func integer(_ row: Int, _ column: Int) -> Int64 {
    let bytes = bytes(row, column)
    guard bytes.count > 0 else { return 0 }
    var value: Int64 = bytes[0] & 0x80 == 0 || bytes.count == 1 ? 0 : -1
    for index in bytes.indices { value = value << 8 | Int64(bytes[index]) }
    return value
  }
}
