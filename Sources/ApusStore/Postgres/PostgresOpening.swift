import ApusModel
import ApusThread

/// A process's right to write into a database: the result of ``PostgresOpening``.
struct PostgresTenure: Sendable {
  let node: String
  /// Of a cluster's devices.
  let part: Int
  let incarnation: Int64
  /// That of the process before.
  let predecessor: Int64
  /// When the lease was asked for, by `bootMilliseconds`.
  let takenMilliseconds: UInt64
  /// How far the database was at that time.
  let progress: DatabaseProgress
  /// The database's id: 16 bytes, made with its tables.
  let databaseID: [UInt8]

  /// The name of the lease.
  var lease: String { PostgresStatements.schema(part) }

  /// What `pg_stat_activity` shows as the application of the process's connections.
  var connectionName: String { Self.connectionName(node, part, incarnation) }

  /// Each part counts its own incarnations.
  static func connectionName(_ node: String, _ part: Int, _ incarnation: Int64) -> String {
    part == 0 ? "apus/\(node)/\(incarnation)" : "apus/\(node)/\(part)-\(incarnation)"
  }
}

/// Takes a database over from an earlier process, or of several parts of a cluster's devices the first that is free.
///
/// The order matters: no write of the earlier process may take effect after this one's first read. So its lane is taken
/// first, which waits for its open transaction; only then, in a new statement, is anything read.
struct PostgresOpening {
  let address: PostgresAddress
  let options: PostgresOptions

  /// The only lane of a service that runs on one node.
  static let lane: Int32 = 0
  /// Milliseconds for a statement of the opening.
  static let statementMilliseconds: Int64 = 10_000
  /// Milliseconds for which an earlier process's open transaction is waited for before its connections are ended.
  fileprivate static let transactionMilliseconds: Int64 = 200
  private static let pollMilliseconds: Int64 = 250

  /// Waits for a database that is not reached; a standby for as long as it may.
  func open() throws(StoreError) -> PostgresTenure {
    let deadline = Deadline.after(milliseconds: options.openingMilliseconds)
    var pause = options.retryMilliseconds
    while true {
      do throws(StoreError) { return try openNow() } catch {
        let mayWait = options.standby != nil || Deadline.after(milliseconds: pause) < deadline
        guard case .database = error, mayWait else { throw error }
        if options.standby?.permission() == .giveUp { throw .closed }
        options.onEvent(.stillFailing(error, retryMilliseconds: pause))
        ApusThread.pause(milliseconds: pause)
        pause = min(2 * pause, options.maximumRetryMilliseconds)
      }
    }
  }

  private func openNow() throws(StoreError) -> PostgresTenure {
    let parts = options.parts ?? options.part..<options.part + 1
    // The leases of all parts are in the schema of part 0.
    let main = try Candidate(address, options, 0)
    var candidates = parts.contains(0) ? [main] : []
    for part in parts where part > 0 { candidates.append(try Candidate(address, options, part)) }
    while true {
      let (place, seen) = try waitForLease(&candidates)
      // Nil if its holder has renewed it since, or another process took it.
      if let tenure = try candidates[place].takeOver(seen, databaseID: main.databaseID) {
        return tenure
      }
    }
  }

  /// Returns once no living process has one of the leases: it was released, its process has no connection any more, or
  /// its counter stood still. A standby waits for that; others are refused.
  private func waitForLease(
    _ candidates: inout [Candidate]
  ) throws(StoreError) -> (place: Int, seen: PostgresLease?) {
    while true {
      var free: (place: Int, seen: PostgresLease?)?
      var (hasNews, mayRunTwice) = (false, false)
      for place in candidates.indices {
        switch try candidates[place].look() {
        case .free(let seen):
          // After a crash a node goes on with the part that it had.
          if free == nil || seen?.holder == options.node { free = (place, seen) }
        case .held: hasNews = true
        case .unknown(let holder): mayRunTwice = mayRunTwice || holder == options.node
        }
      }
      let holders = candidates.compactMap(\.holder)
      if hasNews, holders.count == candidates.count {
        options.standby?.onHolder(Set(holders).sorted().joined(separator: ", "))
      }
      switch options.standby?.permission() ?? .takeOver {
      case .takeOver: if let free, !mayRunTwice { return free }
      case .wait: break
      case .giveUp: throw .closed
      }
      pause(milliseconds: Self.pollMilliseconds)
    }
  }
}

/// The lease of one part of the devices, while a process waits for it.
private struct Candidate {
  enum Finding {
    case free(PostgresLease?)
    /// Its holder was found alive.
    case held
    /// It is not known whether its holder lives.
    case unknown(String?)
  }

  private let options: PostgresOptions
  private let tables: PostgresTables
  private let connection: PostgresConnection
  private var vigil: LeaseVigil
  let databaseID: [UInt8]
  /// The node that was last found alive with the lease.
  private(set) var holder: String?

  init(
    _ address: PostgresAddress, _ options: PostgresOptions, _ part: Int
  ) throws(StoreError) {
    var options = options
    options.part = part
    self.options = options
    tables = PostgresTables(address: address, part: part)
    let opened = try tables.attempt { () throws(PostgresFault) in
      try Self.connect(address, options, "opening")
    }
    connection = opened
    try tables.requireSafe(opened, allowsSingleServer: options.allowsSingleServer)
    databaseID = try tables.prepare(opened)
    vigil = LeaseVigil(stillMilliseconds: options.leaseMilliseconds)
  }

  private static func connect(
    _ address: PostgresAddress, _ options: PostgresOptions, _ purpose: String
  ) throws(PostgresFault) -> PostgresConnection {
    try PostgresConnection(
      address, part: options.part, name: "apus/\(options.node)/\(purpose)",
      withinMilliseconds: options.answerMilliseconds)
  }

  /// How far the database is, now that no earlier process writes any more.
  private func progress() throws(StoreError) -> DatabaseProgress {
    let (statement, values) =
      options.beginsEraAfter.map { (PostgresStatements.Statement.eraRaise, [$0.era]) }
      ?? (.era, [])
    let found = try tables.attempt { () throws(PostgresFault) in
      var parameters = PostgresValues()
      for value in values { parameters.append(.integer(value)) }
      let era = try connection.ask(
        statement, parameters, withinMilliseconds: PostgresOpening.statementMilliseconds
      ) { $0.integer(0, 0) }
      let group = try connection.ask(
        .holder, PostgresValues(.shortInteger(PostgresOpening.lane)),
        withinMilliseconds: PostgresOpening.statementMilliseconds
      ) { $0.integer(0, 2) }
      return DatabaseProgress(era: era, group: group)
    }
    if let seen = options.seen(options.part), found < seen {
      throw .wentBack(place: tables.address.description, expected: seen, found: found)
    }
    return found
  }

  // MARK: Taking over

  private var leaseName: String { PostgresStatements.schema(options.part) }

  private func lease(_ connection: PostgresConnection) throws(PostgresFault) -> PostgresLease? {
    try connection.ask(
      .lease, PostgresValues(.text(leaseName)),
      withinMilliseconds: PostgresOpening.statementMilliseconds
    ) { rows in
      rows.count == 0
        ? nil
        : PostgresLease(
          incarnation: rows.integer(0, 0), counter: rows.integer(0, 1),
          isReleased: rows.integer(0, 2) != 0, holder: rows.text(0, 3))
    }
  }

  /// Looks at the lease once more.
  mutating func look() throws(StoreError) -> Finding {
    let seen = try tables.attempt { () throws(PostgresFault) in try lease(connection) }
    let finding = vigil.see(seen, nowMilliseconds: monotonicMilliseconds())
    if finding == .alive { try acceptHolder(seen) }
    if finding == .free { return .free(seen) }
    if try isGone(seen) { return .free(seen) }
    return finding == .alive ? .held : .unknown(seen?.holder)
  }

  /// What a living holder means.
  private mutating func acceptHolder(_ lease: PostgresLease?) throws(StoreError) {
    let name = lease?.holder ?? options.node
    guard options.standby != nil, name != options.node else {
      throw .inUse(
        place: tables.address.description, detail: "a process called \(name) renews its lease")
    }
    holder = name
    vigil.restart()
  }

  /// Whether the lease's process has no connection. That of another node may be about to connect again.
  private func isGone(_ lease: PostgresLease?) throws(StoreError) -> Bool {
    let holder = lease?.holder ?? options.node
    guard
      holder == options.node || vigil.observedMilliseconds >= options.absenceMilliseconds
    else { return false }
    let name = PostgresTenure.connectionName(
      holder, options.part, lease?.incarnation ?? 0)
    return try tables.attempt { () throws(PostgresFault) in
      try connection.ask(
        .connections, PostgresValues(.text(name)),
        withinMilliseconds: PostgresOpening.statementMilliseconds
      ) { $0.integer(0, 0) == 0 }
    }
  }

  /// Takes lease and lane, or returns nil if the lease is not as it was seen.
  func takeOver(
    _ seen: PostgresLease?, databaseID: [UInt8]
  ) throws(StoreError) -> PostgresTenure? {
    let asked = bootMilliseconds()
    let incarnation = try tables.attempt { () throws(PostgresFault) in try take(seen) }
    guard let incarnation else { return nil }
    return PostgresTenure(
      node: options.node, part: options.part, incarnation: incarnation,
      predecessor: seen?.incarnation ?? 0, takenMilliseconds: asked, progress: try progress(),
      databaseID: databaseID)
  }

  private func take(_ seen: PostgresLease?) throws(PostgresFault) -> Int64? {
    let limit = PostgresOpening.statementMilliseconds
    let before = seen?.incarnation ?? 0
    let incarnation = try connection.ask(.incarnation, withinMilliseconds: limit) {
      $0.integer(0, 0)
    }
    let isClaimed = try connection.ask(
      .claim,
      PostgresValues(
        .text(leaseName), .integer(incarnation), .integer(before),
        .integer(seen?.counter ?? 0),
        .text(options.node)),
      withinMilliseconds: limit
    ) { $0.count > 0 }
    guard isClaimed else { return nil }
    let lane = PostgresValues(
      .shortInteger(PostgresOpening.lane), .text(options.node), .integer(incarnation))
    do throws(PostgresFault) {
      // A connection of its own, because one that did not answer in time cannot be used further.
      let patient = try Self.connect(tables.address, options, "fencing")
      _ = try patient.ask(.lane, lane, withinMilliseconds: PostgresOpening.transactionMilliseconds)
      {
        $0.count
      }
    } catch .deadline {
      // A process that was stopped in the middle of a transaction keeps its locks for as long as it is connected.
      let name = PostgresTenure.connectionName(
        seen?.holder ?? options.node, options.part, before)
      _ = try connection.ask(.disconnect, PostgresValues(.text(name)), withinMilliseconds: limit) {
        $0.count
      }
      _ = try connection.ask(.lane, lane, withinMilliseconds: limit) { $0.count }
    }
    return incarnation
  }
}
