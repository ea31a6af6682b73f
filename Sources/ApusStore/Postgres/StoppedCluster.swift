import ApusModel

/// A transaction in the main database of a cluster that does not run: until it ends, nobody takes a lease or changes
/// shared files. A process that has taken one afterwards reads what there is then.
struct StoppedCluster {
  let connection: PostgresConnection
  /// The number of parts into which the devices are divided.
  let partCount: Int
  private let tables: PostgresTables

  /// Milliseconds for which others may hold the shared files or a lease.
  private static let lockMilliseconds: Int64 = 15_000

  /// - Parameter purpose: What for, as `pg_stat_activity` shows it.
  /// - Throws: `.inUse` if a part has a process.
  init(
    _ address: PostgresAddress, _ options: PostgresOptions, purpose: String
  ) throws(StoreError) {
    let tables = PostgresTables(address: address, part: 0)
    let connection = try tables.attempt { () throws(PostgresFault) in
      try PostgresConnection(
        address, name: "apus-cluster/\(options.node)/\(purpose)",
        withinMilliseconds: options.answerMilliseconds)
    }
    var partCount = 0
    var holder: String?
    try tables.attempt { () throws(PostgresFault) in
      try connection.execute("BEGIN")
      try connection.execute(.directoryLock)
      try connection.execute(.leasesLock)
      try connection.execute(.leases)
      try connection.finish(withinMilliseconds: Self.lockMilliseconds) { place, rows in
        if place == 1, rows.count > 0 { partCount = Int(rows.integer(0, 3)) }
        guard place == 3 else { return }
        holder = (0..<rows.count).first { rows.integer($0, 3) == 0 }.map { rows.text($0, 4) }
      }
    }
    if let holder {
      throw .inUse(
        place: address.description,
        detail:
          "the node \(holder) did not give its lease back: start its service, and stop it again")
    }
    (self.tables, self.connection, self.partCount) = (tables, connection, partCount)
  }

  /// Does what must be done now and then, while other databases are busy: the server ends what is idle for ten seconds.
  func goOn() throws(StoreError) {
    try tables.attempt { () throws(PostgresFault) in
      try connection.execute(.directoryLock)
      try connection.finish(withinMilliseconds: Self.lockMilliseconds) { _, _ in }
    }
  }

  func commit(withinMilliseconds limit: Int64) throws(StoreError) {
    try tables.attempt { () throws(PostgresFault) in
      try connection.execute("COMMIT")
      try connection.finish(withinMilliseconds: limit) { _, _ in }
    }
  }
}
