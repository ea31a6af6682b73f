import ApusModel

/// The tables of a database, or of one part of a cluster's devices in it: examines the server, makes the tables, and
/// brings older ones up to date.
struct PostgresTables {
  let address: PostgresAddress
  let part: Int

  /// The version of the tables that this program makes and reads.
  static let version = 3
  private static let oldestServer = 130_000

  func attempt<Result>(
    _ body: () throws(PostgresFault) -> Result
  ) throws(StoreError) -> Result {
    do throws(PostgresFault) { return try body() } catch {
      throw .database(place: address.description, detail: "\(error)")
    }
  }

  // MARK: The server

  /// Refuses a server that would acknowledge what it can lose, and one behind a pooler that mixes sessions.
  func requireSafe(
    _ connection: PostgresConnection, allowsSingleServer: Bool
  ) throws(StoreError) {
    if connection.serverVersion < Self.oldestServer {
      throw unsuitable("it is PostgreSQL \(connection.serverVersion / 10_000), and 13 is needed")
    }
    let fault = try attempt { () throws(PostgresFault) in
      try connection.ask(.server, withinMilliseconds: PostgresOpening.statementMilliseconds) {
        rows in
        rows.integer(0, 0) == Int64(connection.backendPID)
          ? Self.fault(rows, allowsSingleServer: allowsSingleServer)
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

  func unsuitable(_ detail: String) -> StoreError {
    .unsuitableDatabase(place: address.description, detail: detail)
  }

  // MARK: Tables

  /// Makes the tables if there are none. Returns the database's id.
  func prepare(_ connection: PostgresConnection) throws(StoreError) -> [UInt8] {
    if try !hasTables(connection) { try makeTables(connection) }
    var service = try service(connection)
    try requireVersion(service)
    if service.version < Self.version {
      try migrateTables(connection)
      service = try self.service(connection)
    }
    try requirePresent(service)
    return service.id
  }

  typealias Service = (version: Int, id: [UInt8], isMoved: Bool)

  private func hasTables(_ connection: PostgresConnection) throws(StoreError) -> Bool {
    try attempt { () throws(PostgresFault) in
      try connection.ask(.schemaExists, withinMilliseconds: PostgresOpening.statementMilliseconds) {
        $0.count > 0
      }
    }
  }

  private func service(_ connection: PostgresConnection) throws(StoreError) -> Service {
    try attempt { () throws(PostgresFault) in
      try connection.ask(.service, withinMilliseconds: PostgresOpening.statementMilliseconds) {
        rows in
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
      try execute(PostgresStatements.of(part: part).schema, connection)
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
      try execute(PostgresStatements.of(part: part).migration(from: version), connection)
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
    try connection.finish(withinMilliseconds: PostgresOpening.statementMilliseconds) { _, _ in }
  }

  /// For those who only read: refuses a database without tables, with those of a later version, or with rows that were
  /// copied to another one.
  func require(_ connection: PostgresConnection) throws(StoreError) {
    try requirePresent(requireTables(connection))
  }

  private func requireTables(_ connection: PostgresConnection) throws(StoreError) -> Service {
    guard let service = try found(connection) else {
      throw unsuitable("no service has stored anything in it")
    }
    return service
  }

  private func requirePresent(_ service: Service) throws(StoreError) {
    guard !service.isMoved else {
      throw unsuitable("its rows were copied to another store, and are out of date since")
    }
  }

  /// Refuses tables that are not those with this id, and brings older ones up to date.
  func requireUsable(_ connection: PostgresConnection, id: [UInt8]) throws(StoreError) {
    let service = try requireTables(connection)
    guard service.id == id else {
      throw unsuitable("its rows are not those of part \(part) of this cluster")
    }
    try requirePresent(service)
    if service.version < Self.version { try migrateTables(connection) }
  }

  /// What the tables say of themselves; nil if there are none. Refuses those of a later version.
  func found(_ connection: PostgresConnection) throws(StoreError) -> Service? {
    guard try hasTables(connection) else { return nil }
    let service = try service(connection)
    try requireVersion(service)
    return service
  }

  /// For those who use tables of the newest version without a lease: also brings older ones up to date. Returns the
  /// database's id.
  func requireNewest(_ connection: PostgresConnection) throws(StoreError) -> [UInt8] {
    let service = try requireTables(connection)
    if service.version < Self.version { try migrateTables(connection) }
    return service.id
  }
}
