import ApusModel
import ApusThread

/// A process's right to write into a database: the result of ``PostgresOpening``.
struct PostgresTenure: Sendable {
  let node: String
  let incarnation: Int64
  /// That of the process before.
  let predecessor: Int64
  /// When the lease was asked for, by `bootMilliseconds`.
  let takenMilliseconds: UInt64
  /// How far the database was at that time.
  let progress: DatabaseProgress
  /// The database's id: 16 bytes, made with its tables.
  let databaseID: [UInt8]

  /// What `pg_stat_activity` shows as the application of the process's connections.
  var connectionName: String { Self.connectionName(node, incarnation) }

  static func connectionName(_ node: String, _ incarnation: Int64) -> String {
    "apus/\(node)/\(incarnation)"
  }
}

/// Examines a database, makes its tables if it has none, and takes it over from an earlier process.
///
/// The order matters: no write of the earlier process may take effect after this one's first read. So its lane is taken
/// first, which waits for its open transaction; only then, in a new statement, is anything read.
struct PostgresOpening {
  let address: PostgresAddress
  let options: PostgresOptions

  /// The version of the tables that this program makes and reads.
  static let version = 2
  /// The name of the lease: one process at a time writes.
  static let lease = "apus"
  /// The only lane of a service that runs on one node.
  static let lane: Int32 = 0
  private static let oldestServer = 130_000
  /// Milliseconds for a statement of the opening.
  private static let statementMilliseconds: Int64 = 10_000
  /// Milliseconds for which an earlier process's open transaction is waited for before its connections are ended.
  private static let transactionMilliseconds: Int64 = 200
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
    let connection = try attempt { () throws(PostgresFault) in
      try connect("apus/\(options.node)/opening")
    }
    try requireSafe(connection)
    let databaseID = try prepareTables(connection)
    var watch = LeaseVigil(stillMilliseconds: options.leaseMilliseconds)
    while true {
      let seen = try waitForLease(connection, &watch)
      let asked = bootMilliseconds()
      // Nil if its holder has renewed it since, or another process took it.
      let incarnation = try attempt { () throws(PostgresFault) in
        try takeOver(seen, connection)
      }
      guard let incarnation else { continue }
      return PostgresTenure(
        node: options.node, incarnation: incarnation, predecessor: seen?.incarnation ?? 0,
        takenMilliseconds: asked, progress: try progress(connection), databaseID: databaseID)
    }
  }

  /// For those who only read: refuses a database without tables, or with those of a later version.
  func requireTables() throws(StoreError) {
    let connection = try attempt { () throws(PostgresFault) in
      try connect("apus/\(options.node)/follower")
    }
    _ = try requireTables(connection)
  }

  private func requireTables(_ connection: PostgresConnection) throws(StoreError) -> Service {
    guard try hasTables(connection) else {
      throw unsuitable("no service has stored anything in it")
    }
    let service = try service(connection)
    try requireVersion(service)
    return service
  }

  /// For those who use tables of the newest version without a lease: also brings older ones up to date. Returns the
  /// database's id.
  func requireNewestTables(_ connection: PostgresConnection) throws(StoreError) -> [UInt8] {
    let service = try requireTables(connection)
    if service.version < Self.version { try migrateTables(connection) }
    return service.id
  }

  /// How far the database is, now that no earlier process writes any more.
  private func progress(_ connection: PostgresConnection) throws(StoreError) -> DatabaseProgress {
    let (statement, values) =
      options.beginsEraAfter.map { (PostgresStatements.Statement.eraRaise, [$0.era]) }
      ?? (.era, [])
    let found = try attempt { () throws(PostgresFault) in
      var parameters = PostgresValues()
      for value in values { parameters.append(.integer(value)) }
      let era = try connection.ask(
        statement, parameters, withinMilliseconds: Self.statementMilliseconds
      ) { $0.integer(0, 0) }
      let group = try connection.ask(
        .holder, PostgresValues(.shortInteger(Self.lane)),
        withinMilliseconds: Self.statementMilliseconds
      ) { $0.integer(0, 2) }
      return DatabaseProgress(era: era, group: group)
    }
    if let seen = options.seen, found < seen {
      throw .wentBack(place: address.description, expected: seen, found: found)
    }
    return found
  }

  private func connect(_ name: String) throws(PostgresFault) -> PostgresConnection {
    try PostgresConnection(address, name: name, withinMilliseconds: options.answerMilliseconds)
  }

  private func attempt<Result>(
    _ body: () throws(PostgresFault) -> Result
  ) throws(StoreError) -> Result {
    do throws(PostgresFault) { return try body() } catch {
      throw .database(place: address.description, detail: "\(error)")
    }
  }

  // MARK: The server

  /// Refuses a server that would acknowledge what it can lose, and one behind a pooler that mixes sessions.
  private func requireSafe(_ connection: PostgresConnection) throws(StoreError) {
    if connection.serverVersion < Self.oldestServer {
      throw unsuitable("it is PostgreSQL \(connection.serverVersion / 10_000), and 13 is needed")
    }
    let fault = try attempt { () throws(PostgresFault) in
      try connection.ask(.server, withinMilliseconds: Self.statementMilliseconds) { rows in
        rows.integer(0, 0) == Int64(connection.backendPID)
          ? Self.fault(rows, allowsSingleServer: options.allowsSingleServer)
          : "it is behind a connection pooler that changes the server's process between statements: connect to the "
            + "server itself, or set the pooler to sessions"
      }
    }
    if let fault { throw unsuitable(fault) }
  }

  private static func fault(_ rows: borrowing PostgresRows, allowsSingleServer: Bool) -> String? {
    if rows.text(0, 5) != "", rows.integer(0, 5) != 0 {
      return "it is a standby: name the primary's host as well"
    }
    if !["on", "remote_apply"].contains(rows.text(0, 1)) {
      return "synchronous_commit is \(rows.text(0, 1)): set it to on"
    }
    if rows.text(0, 3) != "on" { return "fsync is off: set it to on" }
    if rows.text(0, 4) != "on" { return "full_page_writes is off: set it to on" }
    if rows.text(0, 2) == "", !allowsSingleServer {
      return
        "it has no synchronous standby, so what was accepted can be lost with its machine: set "
        + "synchronous_standby_names, for example to 'ANY 1 (s1, s2)', or accept that with --single-database"
    }
    return nil
  }

  private func unsuitable(_ detail: String) -> StoreError {
    .unsuitableDatabase(place: address.description, detail: detail)
  }

  // MARK: Tables

  /// Makes the tables if there are none. Returns the database's id.
  private func prepareTables(_ connection: PostgresConnection) throws(StoreError) -> [UInt8] {
    if try !hasTables(connection) { try makeTables(connection) }
    var service = try service(connection)
    try requireVersion(service)
    if service.version < Self.version {
      try migrateTables(connection)
      service = try self.service(connection)
    }
    guard !service.isMoved else {
      throw unsuitable("its rows were copied to another store, and are out of date since")
    }
    return service.id
  }

  private typealias Service = (version: Int, id: [UInt8], isMoved: Bool)

  private func hasTables(_ connection: PostgresConnection) throws(StoreError) -> Bool {
    try attempt { () throws(PostgresFault) in
      try connection.ask(.schemaExists, withinMilliseconds: Self.statementMilliseconds) {
        $0.count > 0
      }
    }
  }

  private func service(_ connection: PostgresConnection) throws(StoreError) -> Service {
    try attempt { () throws(PostgresFault) in
      try connection.ask(.service, withinMilliseconds: Self.statementMilliseconds) { rows in
        (Int(rows.integer(0, 0)), rows.bytes(0, 1).copied(), rows.integer(0, 2) != 0)
      }
    }
  }

  private func requireVersion(_ service: Service) throws(StoreError) {
    guard service.version <= Self.version else {
      throw .newerVersion(
        path: address.description, found: service.version, supported: Self.version)
    }
  }

  private func makeTables(_ connection: PostgresConnection) throws(StoreError) {
    do throws(PostgresFault) {
      try execute(PostgresStatements.all.schema, connection)
    } catch {
      // 42P07: another process made them while this one waited for the lock.
      if case .server(state: "42P07", _) = error { return }
      throw .database(
        place: address.description,
        detail: "its tables could not be made: \(error); the role needs CREATE on the database")
    }
  }

  /// Brings the tables of an earlier version to the newest: all of it, or nothing.
  private func migrateTables(_ connection: PostgresConnection) throws(StoreError) {
    let version = try service(connection).version
    do throws(PostgresFault) {
      try execute(PostgresStatements.all.migration(from: version), connection)
    } catch {
      // 42701, 42P07: another process did it while this one waited for the lock.
      if case .server(let state, _) = error, ["42701", "42P07"].contains(state) { return }
      throw .database(
        place: address.description, detail: "its tables could not be brought up to date: \(error)")
    }
  }

  /// In one transaction, while no other process does the same.
  private func execute(
    _ commands: [String], _ connection: PostgresConnection
  ) throws(PostgresFault) {
    try connection.execute(.schemaLock)
    for command in commands { try connection.execute(command) }
    try connection.finish(withinMilliseconds: Self.statementMilliseconds) { _, _ in }
  }

  // MARK: Taking over

  private func lease(_ connection: PostgresConnection) throws(PostgresFault) -> PostgresLease? {
    try connection.ask(
      .lease, PostgresValues(.text(Self.lease)), withinMilliseconds: Self.statementMilliseconds
    ) { rows in
      rows.count == 0
        ? nil
        : PostgresLease(
          incarnation: rows.integer(0, 0), counter: rows.integer(0, 1),
          isReleased: rows.integer(0, 2) != 0, holder: rows.text(0, 3))
    }
  }

  /// Returns once no living process has the lease: it was released, its process has no connection any more, or its
  /// counter stood still. A standby waits for that; others are refused.
  private func waitForLease(
    _ connection: PostgresConnection, _ vigil: inout LeaseVigil
  ) throws(StoreError) -> PostgresLease? {
    while true {
      let seen = try attempt { () throws(PostgresFault) in try lease(connection) }
      let finding = vigil.see(seen, nowMilliseconds: monotonicMilliseconds())
      if finding == .alive { try acceptHolder(seen, &vigil) }
      var isFree = finding == .free
      if !isFree { isFree = try isGone(seen, vigil, connection) }
      switch options.standby?.permission() ?? .takeOver {
      case .takeOver: if isFree { return seen }
      case .wait: break
      case .giveUp: throw .closed
      }
      pause(milliseconds: Self.pollMilliseconds)
    }
  }

  /// What a living holder means.
  private func acceptHolder(
    _ lease: PostgresLease?, _ vigil: inout LeaseVigil
  ) throws(StoreError) {
    let holder = lease?.holder ?? options.node
    guard let standby = options.standby, holder != options.node else {
      throw .inUse(
        place: address.description,
        detail: "a process called \(holder) renews its lease")
    }
    standby.onHolder(holder)
    vigil.restart()
  }

  /// Whether the lease's process has no connection. That of another node may be about to connect again.
  private func isGone(
    _ lease: PostgresLease?, _ vigil: LeaseVigil, _ connection: PostgresConnection
  ) throws(StoreError) -> Bool {
    let holder = lease?.holder ?? options.node
    guard
      holder == options.node || vigil.observedMilliseconds >= options.absenceMilliseconds
    else { return false }
    let name = PostgresTenure.connectionName(holder, lease?.incarnation ?? 0)
    return try attempt { () throws(PostgresFault) in
      try connection.ask(
        .connections, PostgresValues(.text(name)), withinMilliseconds: Self.statementMilliseconds
      ) { $0.integer(0, 0) == 0 }
    }
  }

  /// Takes lease and lane, or returns nil if the lease is not as it was seen.
  private func takeOver(
    _ seen: PostgresLease?, _ connection: PostgresConnection
  ) throws(PostgresFault) -> Int64? {
    let limit = Self.statementMilliseconds
    let before = seen?.incarnation ?? 0
    let incarnation = try connection.ask(.incarnation, withinMilliseconds: limit) {
      $0.integer(0, 0)
    }
    let isClaimed = try connection.ask(
      .claim,
      PostgresValues(
        .text(Self.lease), .integer(incarnation), .integer(before), .integer(seen?.counter ?? 0),
        .text(options.node)),
      withinMilliseconds: limit
    ) { $0.count > 0 }
    guard isClaimed else { return nil }
    let lane = PostgresValues(
      .shortInteger(Self.lane), .text(options.node), .integer(incarnation))
    do throws(PostgresFault) {
      // A connection of its own, because one that did not answer in time cannot be used further.
      let patient = try connect("apus/\(options.node)/fencing")
      _ = try patient.ask(.lane, lane, withinMilliseconds: Self.transactionMilliseconds) {
        $0.count
      }
    } catch .deadline {
      // A process that was stopped in the middle of a transaction keeps its locks for as long as it is connected.
      let name = PostgresTenure.connectionName(seen?.holder ?? options.node, before)
      _ = try connection.ask(.disconnect, PostgresValues(.text(name)), withinMilliseconds: limit) {
        $0.count
      }
      _ = try connection.ask(.lane, lane, withinMilliseconds: limit) { $0.count }
    }
    return incarnation
  }
}
