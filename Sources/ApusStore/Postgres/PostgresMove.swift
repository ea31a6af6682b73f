import ApusModel

/// Moves the rows of one part of a cluster's devices to another database, while no node runs.
///
/// Tables whose rows are copied elsewhere, or are not copied completely yet, are marked as moved, and nobody uses them.
/// At every moment at most one database has tables without that mark. So an interrupted move is repeated, and a
/// database that has another address now is known from a copy. The caller records afterwards where the part is.
package struct PostgresMove {
  package struct Report: Sendable, Equatable {
    /// Where the part is now.
    package var place: PartDatabases.Place
    /// The number of rows that were copied; nil if the database had them already.
    package var rows: Int?
  }

  private let databases: PartDatabases
  private let options: PostgresOptions
  private let part: Int
  private let target: PostgresAddress

  /// How many rows are read and written by one statement.
  private static let rowsAtOnce: Int64 = 2000
  /// Milliseconds for a statement, of which the commit also waits for the standbys.
  private static let statementMilliseconds: Int64 = 120_000

  /// - Parameter part: Not part 0, which stays in the main database.
  package init(
    _ databases: PartDatabases, _ options: PostgresOptions, part: Int, to target: PostgresAddress
  ) {
    (self.databases, self.options) = (databases, options)
    (self.part, self.target) = (part, target)
  }

  /// - Throws: `.inUse` if a part has a process; `.unsuitableDatabase` if the target has other tables of that name.
  ///   Both changed nothing. After `.database`, run it again.
  package func run() throws(StoreError) -> Report {
    let cluster = try StoppedCluster(databases.main, options, purpose: "move")
    let there = try MovingTables(target, part, options)
    try there.tables.requireSafe(
      there.connection, allowsSingleServer: options.allowsSingleServer)
    if let place = databases.places[part], let found = try there.service(), !found.isMoved,
      found.id == place.id
    {
      return Report(place: .init(address: target, id: found.id))
    }
    let here = try MovingTables(databases.address(of: part), part, options)
    guard let source = try service(of: here) else {
      throw here.tables.unsuitable("it has no tables of part \(part)")
    }
    let numbers = try here.numbers()
    let state = try state(of: there, beside: here, source, numbers)
    var rows: Int?
    if case .lacksRows(let replacing) = state {
      rows = try copy(here, numbers, source.id, to: there, replacing: replacing, cluster)
    }
    try here.mark(isMoved: true)
    try there.mark(isMoved: false)
    try cluster.commit(withinMilliseconds: Self.statementMilliseconds)
    return Report(place: .init(address: target, id: source.id), rows: rows)
  }

  /// Makes tables that no node has used yet.
  private func service(of here: MovingTables) throws(StoreError) -> PostgresTables.Service? {
    if let found = try here.service() {
      if found.version < PostgresTables.version {
        _ = try here.tables.requireNewest(here.connection)
      }
      return found
    }
    guard databases.places[part] == nil else { return nil }
    _ = try here.tables.prepare(here.connection)
    return try here.service()
  }

  private enum TargetState {
    /// It has all rows: from an earlier run, because it is the same database under another address, or as a copy that
    /// other means made.
    case hasRows
    /// It has no tables, or those of a run that was interrupted.
    case lacksRows(replacing: Bool)
  }

  /// - Parameter numbers: Those of the source.
  private func state(
    of there: MovingTables, beside here: MovingTables, _ source: PostgresTables.Service,
    _ numbers: MovingTables.Numbers
  ) throws(StoreError) -> TargetState {
    let earlier = try there.service()
    if let earlier, earlier.id != source.id {
      throw there.tables.unsuitable(
        "it has tables of another part \(part): use another database, or remove them with DROP SCHEMA "
          + "\(PostgresStatements.schema(part)) CASCADE")
    }
    if source.isMoved {
      guard earlier != nil, try there.numbers() == numbers else {
        throw here.tables.unsuitable(
          "its rows of part \(part) were moved to another database already: name that one")
      }
      return .hasRows
    }
    guard let earlier, !earlier.isMoved else { return .lacksRows(replacing: earlier != nil) }
    guard try there.numbers() == numbers else {
      throw there.tables.unsuitable(
        "it has an older copy of the rows of part \(part): remove it with DROP SCHEMA "
          + "\(PostgresStatements.schema(part)) CASCADE")
    }
    return .hasRows
  }

  /// All of it, or nothing.
  private func copy(
    _ here: MovingTables, _ numbers: MovingTables.Numbers, _ id: [UInt8], to there: MovingTables,
    replacing: Bool, _ cluster: StoppedCluster
  ) throws(StoreError) -> Int {
    try there.begin(id, numbers, replacing: replacing, Self.statementMilliseconds)
    var count = 0
    for family in StoreFamily.allCases {
      var next: [UInt8] = []
      while true {
        let rows = try here.rows(family, from: next, Self.rowsAtOnce, Self.statementMilliseconds)
        if !rows.isEmpty { try there.put(family, rows, Self.statementMilliseconds) }
        try cluster.goOn()
        count += rows.count
        guard rows.count == Self.rowsAtOnce, let last = rows.last else { break }
        next = last.key + [0]
      }
    }
    try there.commit(Self.statementMilliseconds)
    return count
  }
}

/// The tables of a part in one of the two databases.
private struct MovingTables {
  /// What the tables say besides the rows. It grows with everything that is written into them.
  struct Numbers: Equatable {
    struct Lane: Equatable {
      var id: Int64
      var node: String
      var incarnation: Int64
      var session: Int64
      var number: Int64
      var isFenced: Bool
    }

    var incarnations: Int64
    var era: Int64
    var lanes: [Lane] = []
  }

  let tables: PostgresTables
  let connection: PostgresConnection
  private let statements: PostgresStatements

  init(_ address: PostgresAddress, _ part: Int, _ options: PostgresOptions) throws(StoreError) {
    tables = PostgresTables(address: address, part: part)
    statements = .of(part: part)
    connection = try tables.attempt { () throws(PostgresFault) in
      try PostgresConnection(
        address, part: part, name: "apus-cluster/\(options.node)/move",
        withinMilliseconds: options.answerMilliseconds)
    }
  }

  /// Nil if there are none.
  func service() throws(StoreError) -> PostgresTables.Service? { try tables.found(connection) }

  func numbers() throws(StoreError) -> Numbers {
    try tables.attempt { () throws(PostgresFault) in
      var numbers = Numbers(incarnations: 0, era: 0)
      try connection.execute(.numbers)
      try connection.execute(.lanes)
      try connection.finish(withinMilliseconds: PostgresOpening.statementMilliseconds) {
        place, rows in
        for row in 0..<rows.count {
          guard place > 0 else {
            (numbers.incarnations, numbers.era) = (rows.integer(row, 0), rows.integer(row, 1))
            continue
          }
          numbers.lanes.append(
            Numbers.Lane(
              id: rows.integer(row, 0), node: rows.text(row, 1), incarnation: rows.integer(row, 2),
              session: rows.integer(row, 3), number: rows.integer(row, 4),
              isFenced: rows.integer(row, 5) != 0))
        }
      }
      return numbers
    }
  }

  func mark(isMoved: Bool) throws(StoreError) {
    try tables.attempt { () throws(PostgresFault) in
      try connection.ask(
        .moved, PostgresValues(.truth(isMoved)),
        withinMilliseconds: PostgresOpening.statementMilliseconds
      ) { _ in }
    }
  }

  func rows(
    _ family: StoreFamily, from key: [UInt8], _ count: Int64, _ limit: Int64
  ) throws(StoreError) -> [(key: [UInt8], value: [UInt8])] {
    try tables.attempt { () throws(PostgresFault) in
      var found: [(key: [UInt8], value: [UInt8])] = []
      try connection.execute(
        statements.text(.scanToEnd, of: family), PostgresValues(.bytes(key), .integer(count)))
      try connection.finish(withinMilliseconds: limit) { _, rows in
        found = (0..<rows.count).map { (rows.bytes($0, 0).copied(), rows.bytes($0, 1).copied()) }
      }
      return found
    }
  }

  // MARK: Filling

  /// Begins a transaction with tables that have no rows.
  func begin(
    _ id: [UInt8], _ numbers: Numbers, replacing: Bool, _ limit: Int64
  ) throws(StoreError) {
    try tables.attempt { () throws(PostgresFault) in
      try connection.execute("BEGIN")
      try connection.execute(.schemaLock)
      if replacing { try connection.execute(.schemaDrop) }
      for command in statements.schema + statements.migration(from: 1) {
        try connection.execute(command)
      }
      try connection.execute(
        .numbersPut,
        PostgresValues(.bytes(id), .integer(numbers.incarnations), .integer(numbers.era)))
      for lane in numbers.lanes {
        try connection.execute(
          .lanePut,
          PostgresValues(
            .shortInteger(Int32(lane.id)), .text(lane.node), .integer(lane.incarnation),
            .integer(lane.session), .integer(lane.number), .truth(lane.isFenced)))
      }
      try connection.finish(withinMilliseconds: limit) { _, _ in }
    }
  }

  func put(
    _ family: StoreFamily, _ rows: [(key: [UInt8], value: [UInt8])], _ limit: Int64
  ) throws(StoreError) {
    try tables.attempt { () throws(PostgresFault) in
      try connection.execute(statements.text(.put, of: family), PostgresValues(rows: rows))
      try connection.finish(withinMilliseconds: limit) { _, _ in }
    }
  }

  func commit(_ limit: Int64) throws(StoreError) {
    try tables.attempt { () throws(PostgresFault) in
      try connection.execute("COMMIT")
      try connection.finish(withinMilliseconds: limit) { _, _ in }
    }
  }
}
