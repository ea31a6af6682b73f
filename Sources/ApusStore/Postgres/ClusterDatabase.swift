package import ApusModel

/// A part of a file that all nodes of a cluster share, as the database has it.
package struct SharedPart: Sendable, Equatable {
  /// Below the data directory: "authority/devices.key".
  package var path: String
  /// The byte of the file at which the part begins; 0 for a file in one part.
  package var start: Int64
  /// That of the directory when the part was written.
  package var version: Int64
  package var isPrivate: Bool
  /// Encrypted; nil if the file was removed.
  package var content: [UInt8]?

  package init(
    path: String, start: Int64 = 0, version: Int64 = 0, isPrivate: Bool, content: [UInt8]?
  ) {
    self.path = path
    self.start = start
    self.version = version
    self.isPrivate = isPrivate
    self.content = content
  }
}

/// The state of the shared files as a whole.
package struct SharedVersion: Sendable, Equatable {
  /// Grows with each change.
  package var version: Int64
  /// Removals up to this version are not listed any more.
  package var forgotten: Int64
  /// Tells the cluster key from a wrong one.
  package var proof: [UInt8]
  /// The number of parts into which the devices are divided.
  package var parts: Int
}

/// A connection to the tables of a cluster: its nodes, its shared files and its invitations. For one thread.
///
/// Every call may fail with `StoreError.database`; then the connection is lost, and a change that was in progress may
/// have been made.
package final class ClusterDatabase {
  private let tables: PostgresTables
  private let connection: PostgresConnection
  /// The database's id: 16 bytes, made with its tables.
  package let databaseID: [UInt8]

  /// Milliseconds within which the server must answer a statement.
  private static let answerMilliseconds: Int64 = 5000
  private static let partsAtOnce: Int64 = 200
  /// How long others may hold the shared files.
  private static let lockMilliseconds: Int64 = 15_000

  /// - Parameters:
  ///   - node: Whose connection it is.
  ///   - purpose: What for, as `pg_stat_activity` shows it: "command", "follower".
  /// - Throws: Also `.newerVersion`, or `.unsuitableDatabase` if there are no tables of a cluster.
  package init(
    _ address: PostgresAddress, node: String, purpose: String
  ) throws(StoreError) {
    tables = PostgresTables(address: address, part: 0)
    connection = try tables.attempt { () throws(PostgresFault) in
      try PostgresConnection(
        address, name: "apus-cluster/\(node)/\(purpose)",
        withinMilliseconds: Self.answerMilliseconds)
    }
    databaseID = try tables.requireNewest(connection)
  }

  /// The nodes as a database has them whose tables may be older than this program's, and stay so; none if it has no
  /// tables of a cluster.
  package static func nodes(
    of address: PostgresAddress, asNode node: String
  ) throws(StoreError) -> [ClusterNode] {
    let tables = PostgresTables(address: address, part: 0)
    return try tables.attempt { () throws(PostgresFault) in
      let connection = try PostgresConnection(
        address, name: "apus-cluster/\(node)/versions",
        withinMilliseconds: Self.answerMilliseconds)
      let hasNodes = try connection.ask(
        .nodesExist, withinMilliseconds: Self.answerMilliseconds
      ) { $0.count > 0 }
      guard hasNodes else { return [] }
      return try connection.ask(.nodes, withinMilliseconds: Self.answerMilliseconds) {
        Self.nodes($0)
      }
    }
  }

  private func ask<Result>(
    _ statement: PostgresStatements.Statement, _ values: PostgresValues.Value...,
    withinMilliseconds limit: Int64 = answerMilliseconds,
    _ read: (borrowing PostgresRows) -> Result
  ) throws(StoreError) -> Result {
    var parameters = PostgresValues()
    for value in values { parameters.append(value) }
    return try tables.attempt { () throws(PostgresFault) in
      try connection.ask(statement, parameters, withinMilliseconds: limit, read)
    }
  }

  // MARK: Nodes

  /// False if there is a node of that name.
  package func add(_ node: String, address: String, version: String) throws(StoreError) -> Bool {
    try ask(.nodeAdd, .text(node), .text(address), .text(version)) { $0.count > 0 }
  }

  /// False if there is none.
  package func remove(_ node: String) throws(StoreError) -> Bool {
    try ask(.nodeRemove, .text(node)) { $0.count > 0 }
  }

  /// False if there is no such node.
  package func setDraining(_ isDraining: Bool, _ node: String) throws(StoreError) -> Bool {
    try ask(.nodeDrain, .text(node), .truth(isDraining)) { $0.count > 0 }
  }

  /// Gives a sign of life. Returns nil if the node was removed.
  ///
  /// - Parameter link: Where the node accepts links from others, as HOST:PORT; empty if it does not.
  package func sign(
    _ node: String, _ state: ClusterNode.State, version: String, link: String = ""
  ) throws(StoreError) -> ClusterOrders? {
    try ask(.nodeSign, .text(node), .text(state.rawValue), .text(version), .text(link)) { rows in
      rows.count == 0
        ? nil
        : ClusterOrders(
          isDraining: rows.integer(0, 0) != 0, filesVersion: rows.integer(0, 1),
          standbyCount: Int(rows.integer(0, 4)),
          progress: DatabaseProgress(era: rows.integer(0, 2), group: rows.integer(0, 3)),
          nodes: rows.text(0, 5).split(separator: " ").map(String.init),
          serving: Self.serving(rows.text(0, 7), of: max(1, Int(rows.integer(0, 6)))))
    }
  }

  /// - Parameter leases: A line for each: its name, the node that has it, and where that accepts links.
  private static func serving(_ leases: String, of partCount: Int) -> [ClusterOrders.Serving?] {
    var found: [ClusterOrders.Serving?] = Array(repeating: nil, count: partCount)
    for line in leases.split(separator: "\n") {
      let words = line.split(separator: " ", omittingEmptySubsequences: false).map { String($0) }
      guard words.count == 3, let part = PostgresStatements.part(ofSchema: words[0]),
        part < partCount
      else { continue }
      found[part] = ClusterOrders.Serving(node: words[1], link: words[2])
    }
    return found
  }

  /// All nodes, by name.
  package func nodes() throws(StoreError) -> [ClusterNode] {
    try ask(.nodes) { Self.nodes($0) }
  }

  private static func nodes(_ rows: borrowing PostgresRows) -> [ClusterNode] {
    (0..<rows.count).map { row in
      let (silence, lease) = (rows.integer(row, 5), rows.text(row, 6))
      return ClusterNode(
        name: rows.text(row, 0), address: rows.text(row, 1), version: rows.text(row, 2),
        state: ClusterNode.State(rawValue: rows.text(row, 3)) ?? .stopped,
        isDraining: rows.integer(row, 4) != 0, silentMilliseconds: silence < 0 ? nil : silence,
        part: PostgresStatements.part(ofSchema: lease))
    }
  }

  // MARK: Shared files

  /// Makes the database one of a cluster; false if it is one.
  ///
  /// - Parameter parts: The number of parts into which the devices are divided.
  package func makeDirectory(proof: [UInt8], parts: Int) throws(StoreError) -> Bool {
    try ask(.directoryMake, .bytes(proof), .shortInteger(Int32(parts))) { $0.count > 0 }
  }

  /// Nil if the database is not one of a cluster.
  package func directory() throws(StoreError) -> SharedVersion? {
    try ask(.directory) { Self.directory($0) }
  }

  private static func directory(_ rows: borrowing PostgresRows) -> SharedVersion? {
    guard rows.count > 0 else { return nil }
    return SharedVersion(
      version: rows.integer(0, 0), forgotten: rows.integer(0, 1), proof: rows.bytes(0, 2).copied(),
      parts: Int(rows.integer(0, 3)))
  }

  /// Begins a change: nobody else changes shared files until ``commit(_:version:forgotten:)`` or ``giveUp()``.
  package func lockDirectory() throws(StoreError) -> SharedVersion? {
    try tables.attempt { () throws(PostgresFault) in
      try connection.execute("BEGIN")
      try connection.execute(.directoryLock)
      var found: SharedVersion?
      try connection.finish(withinMilliseconds: Self.lockMilliseconds) { place, rows in
        if place == 1 { found = Self.directory(rows) }
      }
      return found
    }
  }

  /// The nodes that serve, or did last; none if none ever did.
  package func holders() throws(StoreError) -> [String] {
    try ask(.leases) { rows in (0..<rows.count).map { rows.text($0, 4) } }
  }

  /// Calls `visit` for each part that was written after `version`, in the order in which they were.
  package func parts(
    after version: Int64, _ visit: (SharedPart) throws -> Void
  ) throws {
    var last = SharedPart(
      path: "\u{10ffff}", start: .max, version: version, isPrivate: true, content: nil)
    while true {
      let found = try ask(
        .filesChanged, .integer(last.version), .text(last.path), .integer(last.start),
        .integer(Self.partsAtOnce)
      ) { Self.parts($0) }
      for part in found { try visit(part) }
      guard let end = found.last, found.count == Self.partsAtOnce else { return }
      last = end
    }
  }

  /// The files that have more than one part.
  package func pathsInParts() throws(StoreError) -> [String] {
    try ask(.filesInParts) { rows in (0..<rows.count).map { rows.text($0, 0) } }
  }

  /// All parts of a file, in their order; one without content if it was removed, none if it never was.
  package func parts(of path: String) throws(StoreError) -> [SharedPart] {
    try ask(.fileParts, .text(path)) { Self.parts($0) }
  }

  private static func parts(_ rows: borrowing PostgresRows) -> [SharedPart] {
    (0..<rows.count).map { row in
      let content = rows.bytes(row, 4).copied()
      return SharedPart(
        path: rows.text(row, 0), start: rows.integer(row, 1), version: rows.integer(row, 2),
        isPrivate: rows.integer(row, 3) != 0, content: content.isEmpty ? nil : content)
    }
  }

  /// Where the last part of a file begins, and how long it is, encrypted; nil if there is no such file.
  package func lastPart(of path: String) throws(StoreError) -> (start: Int64, byteCount: Int)? {
    try ask(.fileSizes, .text(path)) { rows in
      let last = rows.count - 1
      return rows.count == 0 || rows.integer(last, 1) == 0
        ? nil : (rows.integer(last, 0), Int(rows.integer(last, 1)))
    }
  }

  /// Writes parts, as `version` of the shared files, and ends the change that ``lockDirectory()`` began.
  ///
  /// - Parameters:
  ///   - forgotten: Removals up to this version are not kept any more.
  ///   - holder: The node that must have a lease; nil if that does not matter. It is looked at here, and not where
  ///     the change begins, so that a node which is frozen in the middle keeps nobody from taking over.
  package func commit(
    _ parts: [SharedPart], version: Int64, forgotten: Int64, by holder: String? = nil
  ) throws(StoreError) {
    try tables.attempt { () throws(PostgresFault) in
      if let holder {
        try connection.execute(
          .leaseHeld, PostgresValues(.text(holder)))
      }
      for part in parts {
        guard let content = part.content else {
          try connection.execute(.fileCut, PostgresValues(.text(part.path)))
          try connection.execute(
            .fileRemove, PostgresValues(.text(part.path), .integer(version)))
          continue
        }
        if part.start == 0 {
          try connection.execute(.fileCut, PostgresValues(.text(part.path)))
        }
        try connection.execute(
          .filePut,
          PostgresValues(
            .text(part.path), .integer(part.start), .integer(version), .truth(part.isPrivate),
            .bytes(content)))
      }
      try connection.execute(.filesForget, PostgresValues(.integer(forgotten)))
      try connection.execute(
        .directoryRaise, PostgresValues(.integer(version), .integer(forgotten)))
      try connection.execute("COMMIT")
      try connection.finish(withinMilliseconds: Self.answerMilliseconds) { _, _ in }
    }
  }

  /// Ends a change without one.
  package func giveUp() throws(StoreError) {
    try tables.attempt { () throws(PostgresFault) in
      try connection.execute("ROLLBACK")
      try connection.finish(withinMilliseconds: Self.answerMilliseconds) { _, _ in }
    }
  }

  // MARK: Invitations

  /// - Parameter seconds: For how long it is valid.
  package func invite(
    _ id: [UInt8], sealed: [UInt8], seconds: Int64
  ) throws(StoreError) {
    try ask(.invitationsExpire) { _ in }
    try ask(.invitationAdd, .bytes(id), .bytes(sealed), .integer(seconds)) { _ in }
  }

  /// What a valid invitation has; nil if there is none.
  package func invitation(_ id: [UInt8]) throws(StoreError) -> [UInt8]? {
    try ask(.invitation, .bytes(id)) { $0.count == 0 ? nil : $0.bytes(0, 0).copied() }
  }

  /// Uses an invitation up, and adds the node that it was for: both or none. False if the invitation is not valid, or
  /// there is a node of that name.
  package func accept(
    _ id: [UInt8], _ node: String, address: String, version: String
  ) throws(StoreError) -> Bool {
    let isAdded = try tables.attempt { () throws(PostgresFault) in
      try connection.execute("BEGIN")
      try connection.execute(.invitationTake, PostgresValues(.bytes(id)))
      try connection.execute(
        .nodeAdd, PostgresValues(.text(node), .text(address), .text(version)))
      var counts = 0
      try connection.finish(withinMilliseconds: Self.answerMilliseconds) { place, rows in
        if place > 0 { counts += rows.count }
      }
      return counts == 2
    }
    guard isAdded else {
      try giveUp()
      return false
    }
    return try tables.attempt { () throws(PostgresFault) in
      try connection.execute("COMMIT")
      try connection.finish(withinMilliseconds: Self.answerMilliseconds) { _, _ in }
      return true
    }
  }
}
