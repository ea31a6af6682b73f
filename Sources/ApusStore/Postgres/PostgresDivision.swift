package import ApusModel

/// Divides a cluster's devices into more parts: moves the rows of each device to the tables of its new part.
///
/// One transaction does all of it, so that an interrupted division has changed nothing. All parts must be in one
/// database.
package struct PostgresDivision {
  /// The part of a device among that many.
  package typealias Place = (_ device: DeviceID, _ partCount: Int) -> Int

  package struct Report: Sendable, Equatable {
    /// Rows that are in the tables of another part than before.
    package var moved = 0
    /// All rows about devices.
    package var rows = 0
  }

  private let address: PostgresAddress
  private let options: PostgresOptions
  private let partCount: Int
  /// Of each part.
  private let statements: [PostgresStatements]
  private let place: Place
  private let device: (DeviceToken) -> DeviceID?

  /// How many keys are read and moved by one statement.
  private static let keysAtOnce: Int64 = 2000
  /// Milliseconds for a statement, of which the commit also waits for the standbys.
  private static let statementMilliseconds: Int64 = 120_000

  /// - Parameters:
  ///   - partCount: The new number of parts.
  ///   - device: Whom a token was issued to; nil if it was not issued here.
  package init(
    _ address: PostgresAddress, _ options: PostgresOptions, into partCount: Int,
    place: @escaping Place, device: @escaping (DeviceToken) -> DeviceID?
  ) {
    (self.address, self.options, self.partCount) = (address, options, partCount)
    (self.place, self.device) = (place, device)
    statements = (0..<partCount).map { .of(part: $0) }
  }

  /// - Throws: `.inUse` if a part has a process; `.unsuitableDatabase` if there are as many parts already. Both changed
  ///   nothing. After `.database` the database says what happened.
  package func run() throws(StoreError) -> Report {
    for part in 0..<partCount { try prepareTables(of: part) }
    let cluster = try StoppedCluster(address, options, purpose: "division")
    let (connection, earlier) = (cluster.connection, cluster.partCount)
    guard earlier > 0, earlier < partCount else {
      throw .unsuitableDatabase(
        place: address.description, detail: "its devices are divided into \(earlier) parts already")
    }
    let broadcasts = try giveChannels(toPartsAfter: earlier, connection)
    var report = Report()
    for part in 0..<earlier {
      for family: StoreFamily in [.mailbox, .devices, .feedback] {
        try move(family, from: part, of: earlier, connection, &report)
      }
      try moveSubscriptions(from: part, of: earlier, broadcasts, connection, &report)
    }
    try raiseNumbers(connection)
    try attempt { () throws(PostgresFault) in
      try connection.execute(.directoryDivide, PostgresValues(.shortInteger(Int32(partCount))))
    }
    try cluster.commit(withinMilliseconds: Self.statementMilliseconds)
    return report
  }

  private func attempt<Result>(
    _ body: () throws(PostgresFault) -> Result
  ) throws(StoreError) -> Result {
    try PostgresTables(address: address, part: 0).attempt(body)
  }

  private func prepareTables(of part: Int) throws(StoreError) {
    let tables = PostgresTables(address: address, part: part)
    let connection = try tables.attempt { () throws(PostgresFault) in
      try PostgresConnection(
        address, part: part, name: "apus-cluster/\(options.node)/division",
        withinMilliseconds: options.answerMilliseconds)
    }
    try tables.requireSafe(connection, allowsSingleServer: options.allowsSingleServer)
    _ = try tables.prepare(connection)
  }

  // MARK: Rows

  private func move(
    _ family: StoreFamily, from part: Int, of earlier: Int, _ connection: PostgresConnection,
    _ report: inout Report
  ) throws(StoreError) {
    let keys = statements[part].text(.keys, of: family)
    var last: [UInt8] = []
    while true {
      var found: [[UInt8]] = []
      try attempt { () throws(PostgresFault) in
        try connection.execute(keys, PostgresValues(.bytes(last), .integer(Self.keysAtOnce)))
        try connection.finish(withinMilliseconds: Self.statementMilliseconds) { _, rows in
          found = (0..<rows.count).map { rows.bytes($0, 0).copied() }
        }
      }
      let leaving = try leaving(found, family, part, of: earlier, &report)
      try attempt { () throws(PostgresFault) in
        for (target, keys) in leaving where !keys.isEmpty {
          try connection.execute(
            statements[part].move(family, to: target), Self.array(keys))
        }
        try connection.finish(withinMilliseconds: Self.statementMilliseconds) { _, _ in }
      }
      guard found.count == Self.keysAtOnce, let next = found.last else { return }
      last = next
    }
  }

  /// The keys that do not belong into a part any more, by their new part.
  private func leaving(
    _ keys: [[UInt8]], _ family: StoreFamily, _ part: Int, of earlier: Int,
    _ report: inout Report
  ) throws(StoreError) -> [Int: [[UInt8]]] {
    var leaving: [Int: [[UInt8]]] = [:]
    for key in keys {
      guard let owner = try owner(family, key) else { continue }
      if let target = target(of: owner, in: part, of: earlier, &report) {
        leaving[target, default: []].append(key)
      }
    }
    return leaving
  }

  /// The part that a row moves to; nil if it stays.
  private func target(
    of owner: DeviceID, in part: Int, of earlier: Int, _ report: inout Report
  ) -> Int? {
    let target = place(owner, partCount)
    // Others are found again in that part.
    if target <= part || target >= earlier { report.rows += 1 }
    guard target != part else { return nil }
    report.moved += 1
    return target
  }

  /// The device that a row is about; nil for a row that stays where it is.
  private func owner(_ family: StoreFamily, _ key: [UInt8]) throws(StoreError) -> DeviceID? {
    do throws(RecordError) {
      return switch try RowOwner(family, key: key.span) {
      case .device(let device): device
      case .token(let token): device(token)
      case .part: nil
      }
    } catch { throw corrupted(family, error) }
  }

  // MARK: Subscriptions

  /// Gives the new parts the channels of part 0, so that they know what devices are subscribed to. Returns what the
  /// channels keep in each part.
  private func giveChannels(
    toPartsAfter earlier: Int, _ connection: PostgresConnection
  ) throws(StoreError) -> [KeptBroadcasts] {
    var broadcasts = [KeptBroadcasts](repeating: KeptBroadcasts(), count: partCount)
    var fault: RecordError?
    try attempt { () throws(PostgresFault) in
      for part in earlier..<partCount {
        try connection.execute(statements[0].channelsCopy(to: part))
      }
      for part in 0..<partCount { try connection.execute(statements[part].text(.broadcasts)) }
      try connection.finish(withinMilliseconds: Self.statementMilliseconds) { place, rows in
        let part = place - (partCount - earlier)
        guard part >= 0 else { return }
        for row in 0..<rows.count {
          do throws(RecordError) {
            try broadcasts[part].add(key: rows.bytes(row, 0), head: rows.bytes(row, 1))
          } catch { fault = error }
        }
      }
    }
    if let fault { throw corrupted(.channels, fault) }
    return broadcasts
  }

  private func corrupted(_ family: StoreFamily, _ fault: RecordError) -> StoreError {
    .corrupted(path: "\(address), \(family.name)", detail: "\(fault)")
  }

  /// Rows of subscriptions are changed when they move: see ``KeptBroadcasts``.
  private func moveSubscriptions(
    from part: Int, of earlier: Int, _ broadcasts: [KeptBroadcasts],
    _ connection: PostgresConnection, _ report: inout Report
  ) throws(StoreError) {
    let (scan, delete) = (
      statements[part].text(.scan, of: .channels), statements[part].text(.delete, of: .channels)
    )
    var first: [UInt8] = [SubscriptionRecord.kind]
    while true {
      var found: [(key: [UInt8], value: [UInt8])] = []
      try attempt { () throws(PostgresFault) in
        try connection.execute(
          scan,
          PostgresValues(
            .bytes(first), .bytes([SubscriptionRecord.kind + 1]), .integer(Self.keysAtOnce)))
        try connection.finish(withinMilliseconds: Self.statementMilliseconds) { _, rows in
          found = (0..<rows.count).map { (rows.bytes($0, 0).copied(), rows.bytes($0, 1).copied()) }
        }
      }
      var leaving: [Int: [(key: [UInt8], value: [UInt8])]] = [:]
      for row in found {
        guard let owner = try owner(.channels, row.key),
          let target = target(of: owner, in: part, of: earlier, &report)
        else { continue }
        let value = try translated(row.value, from: broadcasts[part], to: broadcasts[target])
        leaving[target, default: []].append((row.key, value))
      }
      try attempt { () throws(PostgresFault) in
        for (target, rows) in leaving {
          try connection.execute(delete, Self.array(rows.map(\.key)))
          try connection.execute(
            statements[target].text(.put, of: .channels), PostgresValues(rows: rows))
        }
        try connection.finish(withinMilliseconds: Self.statementMilliseconds) { _, _ in }
      }
      guard found.count == Self.keysAtOnce, let last = found.last else { return }
      first = last.key + [0]
    }
  }

  private func translated(
    _ value: [UInt8], from here: KeptBroadcasts, to there: KeptBroadcasts
  ) throws(StoreError) -> [UInt8] {
    do throws(RecordError) {
      return here.moved(try SubscriptionRecord(decoding: value.span), to: there).encoded()
    } catch { throw corrupted(.channels, error) }
  }

  // MARK: Numbers

  /// What each part has counted until now.
  private struct Counted {
    var numbers = CountedNumbers(firstGeneration: 1, orderCeiling: 0)
    /// Counters of any of the parts; nil if none has any.
    var example: TopicCounters?
    /// The parts without counters.
    var uncounted: Set<Int> = []
  }

  private func readCounted() throws(StoreError) -> Counted {
    var counted = Counted()
    for part in 0..<partCount {
      let rows = try PostgresFollower(address, node: options.node, part: part)
      counted.numbers = counted.numbers.merged(with: try CountedNumbers(of: rows))
      if let counters = try rows.readCounters().first?.counters {
        counted.example = counters
      } else {
        counted.uncounted.insert(part)
      }
    }
    return counted
  }

  /// What was counted in any of the parts is counted in all: rows keep their numbers wherever they are. A part without
  /// counters gets one that is 0, because its node would count again what has moved there.
  private func raiseNumbers(_ connection: PostgresConnection) throws(StoreError) {
    let counted = try readCounted()
    let numbers = [
      AcceptanceOrder.row(ceiling: counted.numbers.orderCeiling),
      FirstGeneration.row(counted.numbers.firstGeneration),
    ]
    try attempt { () throws(PostgresFault) in
      for part in 0..<partCount {
        let counters = counted.uncounted.contains(part) ? counted.example.map(Self.zero) : nil
        try connection.execute(
          statements[part].text(.put, of: .meta),
          PostgresValues(rows: numbers + (counters.map { [$0] } ?? [])))
      }
      try connection.finish(withinMilliseconds: Self.statementMilliseconds) { _, _ in }
    }
  }

  private static func zero(of counters: TopicCounters) -> (key: [UInt8], value: [UInt8]) {
    let (topic, environment) = (counters.topic, counters.environment)
    var value: [UInt8] = []
    CountersRecord.encode(TopicCounters(topic: topic, environment: environment), into: &value)
    return (CountersRecord.key(worker: 0, topic: topic, environment: environment), value)
  }

  private static func array(_ keys: [[UInt8]]) -> PostgresValues {
    var values = PostgresValues()
    values.appendArray(keys)
    return values
  }
}
