import ApusModel
import ApusThread

/// The connection that writes, and what is known of the groups that it sent. Used by the commit thread only.
///
/// Each group is one transaction whose first statement gives its number to the lane. So after a lost connection the
/// lane tells whether the group in progress was committed: nothing is ever in doubt for longer than the database is
/// away.
final class PostgresWriter {
  private let address: PostgresAddress
  private let tenure: PostgresTenure
  private let options: PostgresOptions
  private var connection: PostgresConnection?
  private var session: Int64 = 0
  /// The number of the last group that is known to be committed.
  private(set) var committed: Int64 = 0
  /// Whether the group after it may be committed as well.
  private var isInDoubt = false
  private var isFirst = true
  private var folded = FoldedWrites()
  private var values = PostgresValues()

  init(_ address: PostgresAddress, _ tenure: PostgresTenure, _ options: PostgresOptions) {
    self.address = address
    self.tenure = tenure
    self.options = options
  }

  /// Why groups can never be written again.
  enum Loss: Sendable, Hashable {
    case takenOver(by: String)
    case wentBack(expected: Int64, found: Int64)
  }

  enum Outcome {
    case committed
    /// Nothing was written.
    case refused(PostgresFault)
    case inDoubt(PostgresFault)
    case lost(Loss)
  }

  /// Commits a batch, and tries again while the database is away, until `deadline`.
  ///
  /// - Parameter bytes: A batch in the format of `WriteGroup`.
  func write(_ bytes: Span<UInt8>, count: Int, until deadline: Deadline) -> Outcome {
    folded.fold(bytes, count: count)
    var pause = options.retryMilliseconds
    var isSent = false
    while true {
      let outcome = attempt(bytes, isSent: &isSent, until: deadline)
      switch outcome {
      case .committed, .lost: return outcome
      case .refused, .inDoubt:
        guard Deadline.after(milliseconds: pause) < deadline else { return outcome }
        ApusThread.pause(milliseconds: pause)
        pause = min(2 * pause, options.maximumRetryMilliseconds)
      }
    }
  }

  /// - Parameter isSent: Whether an earlier attempt may have committed the batch.
  private func attempt(
    _ bytes: Span<UInt8>, isSent: inout Bool, until deadline: Deadline
  ) -> Outcome {
    do throws(PostgresFault) {
      if connection == nil {
        switch try connect() {
        case .lost(let loss): return .lost(loss)
        case .hasAll(let wasDoubtfulCommitted):
          if isSent, wasDoubtfulCommitted { return .committed }
          isSent = false
        }
      }
    } catch {
      // Whatever the server said of this connection, it says nothing of the last one's group.
      return isInDoubt ? .inDoubt(error) : .refused(error)
    }
    guard let connection else { return .refused(.connection("there is no connection")) }
    do throws(PostgresFault) {
      isInDoubt = true
      isSent = true
      try send(bytes, on: connection)
      try connection.finish(
        withinMilliseconds: max(1, deadline.milliseconds - monotonicMilliseconds())
      ) { _, _ in }
      committed += 1
      isInDoubt = false
      return .committed
    } catch {
      if error.isRolledBack { (isInDoubt, isSent) = (false, false) }
      // After a failure of the fence the next connection finds out who has the lane.
      if error.isOfFence || connection.isBroken { self.connection = nil }
      return isInDoubt ? .inDoubt(error) : .refused(error)
    }
  }

  enum Connecting {
    case lost(Loss)
    /// Everything is known; and whether the group in doubt had been committed.
    case hasAll(wasDoubtfulCommitted: Bool)
  }

  /// Connects, ends what an earlier connection left, and learns from the lane what was committed.
  func connect() throws(PostgresFault) -> Connecting {
    let limit = options.answerMilliseconds
    let name = "\(tenure.connectionName)/0"
    let opened = try PostgresConnection(
      address, part: options.part, name: name, prepares: PostgresStatements.ofWriters,
      withinMilliseconds: limit)
    // An earlier connection may be frozen in the middle of a transaction, whose lock the next statement waits for.
    _ = try opened.ask(.disconnect, PostgresValues(.text(name)), withinMilliseconds: limit) {
      $0.count
    }
    let lane = PostgresValues(
      .shortInteger(PostgresOpening.lane), .integer(tenure.incarnation))
    let found = try opened.ask(
      .session, lane, withinMilliseconds: options.holdMilliseconds
    ) { rows in
      rows.count == 0 ? nil : (session: rows.integer(0, 0), number: rows.integer(0, 1))
    }
    guard let found else { return .lost(try holder(opened)) }
    if isFirst { committed = found.number }
    isFirst = false
    guard found.number >= committed, found.number <= committed + (isInDoubt ? 1 : 0) else {
      return .lost(.wentBack(expected: committed, found: found.number))
    }
    let wasDoubtfulCommitted = found.number > committed
    committed = found.number
    isInDoubt = false
    session = found.session
    connection = opened
    return .hasAll(wasDoubtfulCommitted: wasDoubtfulCommitted)
  }

  private func holder(_ opened: PostgresConnection) throws(PostgresFault) -> Loss {
    let holder = try opened.ask(
      .holder, PostgresValues(.shortInteger(PostgresOpening.lane)),
      withinMilliseconds: options.answerMilliseconds
    ) { rows in
      rows.count == 0 ? nil : "\(rows.text(0, 0)), start \(rows.integer(0, 1))"
    }
    guard let holder else { return .wentBack(expected: committed, found: -1) }
    return .takenOver(by: holder)
  }

  func close() { connection = nil }

  private func send(
    _ bytes: Span<UInt8>, on connection: PostgresConnection
  ) throws(PostgresFault) {
    values.removeAll()
    values.append(.integer(committed + 1))
    values.append(.shortInteger(PostgresOpening.lane))
    values.append(.integer(tenure.incarnation))
    values.append(.integer(session))
    try connection.send(.fence, nil, values)
    for family in StoreFamily.allCases {
      try sendRanges(of: family, bytes, on: connection)
      try sendDeletes(of: family, bytes, on: connection)
      try sendPuts(of: family, bytes, on: connection)
    }
  }

  private func sendRanges(
    of family: StoreFamily, _ bytes: Span<UInt8>, on connection: PostgresConnection
  ) throws(PostgresFault) {
    var ranges: [WriteRecord.Entry] = []
    folded.forEach(family, .deleteRange) { ranges.append($0) }
    for range in ranges {
      guard let end = range.value else { continue }
      values.removeAll()
      values.append(bytes.extracting(range.key))
      values.append(bytes.extracting(end))
      try connection.send(.deleteRange, family, values)
    }
  }

  private func sendDeletes(
    of family: StoreFamily, _ bytes: Span<UInt8>, on connection: PostgresConnection
  ) throws(PostgresFault) {
    values.removeAll()
    let count = appendKeys(of: family, .delete, bytes)
    if count > 0 { try connection.send(.delete, family, values) }
  }

  private func sendPuts(
    of family: StoreFamily, _ bytes: Span<UInt8>, on connection: PostgresConnection
  ) throws(PostgresFault) {
    values.removeAll()
    guard appendKeys(of: family, .put, bytes) > 0 else { return }
    values.beginArray()
    folded.forEach(family, .put) { values.appendElement(bytes.extracting($0.value ?? 0..<0)) }
    values.endArray()
    try connection.send(.put, family, values)
  }

  /// Appends an array of the keys and returns their number.
  private func appendKeys(
    of family: StoreFamily, _ kind: WriteRecord.Kind, _ bytes: Span<UInt8>
  ) -> Int {
    var count = 0
    values.beginArray()
    folded.forEach(family, kind) {
      values.appendElement(bytes.extracting($0.key))
      count += 1
    }
    values.endArray()
    return count
  }
}
