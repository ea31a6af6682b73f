import ApusLease
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
    var search = LeaseSearch(
      node: options.node, standsBy: options.standby != nil, count: candidates.count,
      options.leaseRules)
    while true {
      let (place, seen) = try waitForLease(main, candidates, &search)
      // Nil if its holder has renewed it since, or another process took it.
      if let tenure = try candidates[place].takeOver(seen, databaseID: main.databaseID) {
        return tenure
      }
    }
  }

  /// Returns once one of the leases may be taken: it was released, its process has no connection any more, or its
  /// counter stood still. A standby waits for that; others are refused.
  private func waitForLease(
    _ main: Candidate, _ candidates: [Candidate], _ search: inout LeaseSearch
  ) throws(StoreError) -> (place: Int, seen: Lease?) {
    while true {
      let leases = try main.leases()
      for (place, candidate) in candidates.enumerated() {
        let seen = leases[candidate.leaseName]
        if search.see(seen, at: place, nowMilliseconds: monotonicMilliseconds()),
          try candidate.isGone(seen)
        {
          search.isGone(at: place)
        }
      }
      let permission = options.standby?.permission() ?? .takeOver
      if permission == .giveUp { throw .closed }
      switch search.decide(mayTake: permission == .takeOver) {
      case .take(let place, let seen): return (place, seen)
      case .refused(let name):
        throw .inUse(
          place: address.description, detail: "a process called \(name) renews its lease")
      case .wait(let holders):
        if !holders.isEmpty {
          options.standby?.onHolder(Set(holders).sorted().joined(separator: ", "))
        }
      }
      pause(milliseconds: Self.pollMilliseconds)
    }
  }
}

/// The lease of one part of the devices, while a process waits for it.
private struct Candidate {
  private let options: PostgresOptions
  private let tables: PostgresTables
  private let connection: PostgresConnection
  let databaseID: [UInt8]

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

  var leaseName: String { PostgresStatements.schema(options.part) }

  /// All leases as they are now, by name. For the candidate of part 0.
  func leases() throws(StoreError) -> [String: Lease] {
    try tables.attempt { () throws(PostgresFault) in
      try connection.ask(
        .leases, withinMilliseconds: PostgresOpening.statementMilliseconds
      ) { rows in
        var found: [String: Lease] = [:]
        for row in 0..<rows.count {
          found[rows.text(row, 0)] = Lease(
            incarnation: rows.integer(row, 1), counter: rows.integer(row, 2),
            isReleased: rows.integer(row, 3) != 0, holder: rows.text(row, 4))
        }
        return found
      }
    }
  }

  /// Whether the lease's process has no connection.
  func isGone(_ lease: Lease?) throws(StoreError) -> Bool {
    let name = PostgresTenure.connectionName(
      lease?.holder ?? options.node, options.part, lease?.incarnation ?? 0)
    return try tables.attempt { () throws(PostgresFault) in
      try connection.ask(
        .connections, PostgresValues(.text(name)),
        withinMilliseconds: PostgresOpening.statementMilliseconds
      ) { $0.integer(0, 0) == 0 }
    }
  }

  /// Takes lease and lane, or returns nil if the lease is not as it was seen.
  func takeOver(
    _ seen: Lease?, databaseID: [UInt8]
  ) throws(StoreError) -> PostgresTenure? {
    let asked = bootMilliseconds()
    let incarnation = try tables.attempt { () throws(PostgresFault) in try take(seen) }
    guard let incarnation else { return nil }
    return PostgresTenure(
      node: options.node, part: options.part, incarnation: incarnation,
      predecessor: seen?.incarnation ?? 0, takenMilliseconds: asked, progress: try progress(),
      databaseID: databaseID)
  }

  private func take(_ seen: Lease?) throws(PostgresFault) -> Int64? {
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
    guard isClaimed, try takeLane(incarnation) else { return nil }
    return incarnation
  }

  /// False if another process has taken the lease since, and the lane as well.
  private func takeLane(_ incarnation: Int64) throws(PostgresFault) -> Bool {
    let limit = PostgresOpening.statementMilliseconds
    let lane = PostgresValues(
      .shortInteger(PostgresOpening.lane), .text(options.node), .integer(incarnation))
    do throws(PostgresFault) {
      // A connection of its own, because one that did not answer in time cannot be used further.
      let patient = try Self.connect(tables.address, options, "fencing")
      return try patient.ask(
        .lane, lane, withinMilliseconds: PostgresOpening.transactionMilliseconds
      ) { $0.count > 0 }
    } catch .deadline {
      // A process that was stopped in the middle of a transaction keeps its locks for as long as it is connected. It
      // has the lane, and need not be the last one that had the lease.
      let holder = try connection.ask(
        .holder, PostgresValues(.shortInteger(PostgresOpening.lane)), withinMilliseconds: limit
      ) { rows in
        PostgresTenure.connectionName(rows.text(0, 0), options.part, rows.integer(0, 1))
      }
      try connection.ask(.disconnect, PostgresValues(.text(holder)), withinMilliseconds: limit) {
        _ in
      }
      return try connection.ask(.lane, lane, withinMilliseconds: limit) { $0.count > 0 }
    }
  }
}
