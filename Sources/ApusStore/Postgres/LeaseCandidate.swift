import ApusLease
import ApusModel
import ApusThread

/// The lease of one part of the devices, while a process waits for it.
struct LeaseCandidate {
  private let options: PostgresOptions
  private let tables: PostgresTables
  private let connection: PostgresConnection
  /// The id of the part's tables.
  let databaseID: [UInt8]

  /// Makes the part's tables where they are in the main database and there are none.
  init(
    _ databases: PartDatabases, _ options: PostgresOptions, part: Int
  ) throws(StoreError) {
    var options = options
    options.part = part
    self.options = options
    tables = PostgresTables(address: databases.address(of: part), part: part)
    let opened = try tables.attempt { [tables] () throws(PostgresFault) in
      try Self.connect(tables.address, options, "opening")
    }
    connection = opened
    try tables.requireSafe(opened, allowsSingleServer: options.allowsSingleServer)
    if let place = databases.places[part] {
      try tables.requireUsable(opened, id: place.id)
      databaseID = place.id
    } else {
      databaseID = try tables.prepare(opened)
    }
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

  /// All leases as they are now, by name. Of part 0, whose database has them.
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
  ///
  /// - Parameter main: The candidate of part 0, whose database has the lease.
  func takeOver(_ seen: Lease?, _ main: LeaseCandidate) throws(StoreError) -> PostgresTenure? {
    let asked = bootMilliseconds()
    let incarnation = try tables.attempt { () throws(PostgresFault) in
      try connection.ask(
        .incarnation, withinMilliseconds: PostgresOpening.statementMilliseconds
      ) { $0.integer(0, 0) }
    }
    guard try main.claim(leaseName, as: incarnation, seen) else { return nil }
    do throws(StoreError) {
      let hasLane = try tables.attempt { () throws(PostgresFault) in try takeLane(incarnation) }
      guard hasLane else { return nil }
      return PostgresTenure(
        node: options.node, part: options.part, incarnation: incarnation,
        predecessor: seen?.incarnation ?? 0, takenMilliseconds: asked, progress: try progress(),
        databaseID: main.databaseID)
    } catch {
      main.giveBack(leaseName, incarnation)
      throw error
    }
  }

  /// Gives a lease of the main database back.
  func giveBack(_ lease: String, _ incarnation: Int64) {
    _ = try? connection.ask(
      .release, PostgresValues(.text(lease), .integer(incarnation)),
      withinMilliseconds: options.answerMilliseconds
    ) { $0.count }
  }

  /// Takes a lease of the main database. False if it is not as it was seen.
  private func claim(
    _ lease: String, as incarnation: Int64, _ seen: Lease?
  ) throws(StoreError) -> Bool {
    try tables.attempt { () throws(PostgresFault) in
      try connection.ask(
        .claim,
        PostgresValues(
          .text(lease), .integer(incarnation), .integer(seen?.incarnation ?? 0),
          .integer(seen?.counter ?? 0), .text(options.node)),
        withinMilliseconds: PostgresOpening.statementMilliseconds
      ) { $0.count > 0 }
    }
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
