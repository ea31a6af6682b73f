import ApusCore
package import ApusStore

// From the data directory to the database.

extension SharedFiles {
  /// Removals that are listed for nodes that were away; nodes that were away for longer read everything again.
  static let listedVersions: Int64 = 10_000

  /// Who changes shared files.
  enum Author {
    /// A command, the administration or the enrolment of any node.
    case anybody
    /// The service of a node that serves.
    case service
  }

  /// Makes a change of the directory one of all nodes: others wait meanwhile, and see all of it or nothing.
  ///
  /// Call it while the directory is locked.
  func change<Value>(by author: Author, _ body: () throws -> Value) throws -> Value {
    let database: ClusterDatabase
    do {
      database = try directory.clusterDatabase(node: member.node.text, purpose: "change")
    } catch let error as StoreError {
      throw DirectoryProblem(
        "nothing was changed, because the database that the nodes share is not reached: \(error)")
    }
    guard let shared = try database.lockDirectory() else { throw notACluster }
    let holders = author == .service ? try database.holders() : []
    if let holder = holders.first, !holders.contains(member.node.text) {
      try database.giveUp()
      throw DirectoryProblem(
        "nothing was changed, because the node \(holder) has taken over")
    }
    try pull(database, shared)
    let journal = FileJournal()
    let value: Value
    do {
      value = try FileJournal.$current.withValue(journal) { try body() }
    } catch {
      undo(journal, database)
      throw error
    }
    try push(journal, by: author, after: shared, database)
    return value
  }

  private var notACluster: DirectoryProblem {
    DirectoryProblem(
      "\(directory.clusterPath) says that this is a node of a cluster, and the database is not one of a cluster"
    )
  }

  private func push(
    _ journal: FileJournal, by author: Author, after shared: SharedVersion,
    _ database: ClusterDatabase
  ) throws {
    let version = shared.version + 1
    var parts: [SharedPart] = []
    for (path, note) in journal.notes {
      guard let path = sharedPath(path) else { continue }
      parts.append(try part(path, note, version, database))
    }
    guard !parts.isEmpty else { return try database.giveUp() }
    do {
      try database.commit(
        parts, version: version, forgotten: max(0, version - Self.listedVersions),
        by: author == .service ? member.node.text : nil)
    } catch {
      takeBack(journal, database)
      throw DirectoryProblem(
        "it is not known whether the change was made, because the database did not confirm it: look, and repeat it if "
          + "it was not (\(error))")
    }
    try setVersion(version)
  }

  /// A part that makes the database's file what the directory's is.
  private func part(
    _ path: String, _ note: FileJournal.Note, _ version: Int64, _ database: ClusterDatabase
  ) throws -> SharedPart {
    var part = SharedPart(
      path: path, version: version, isPrivate: DataDirectory.isPrivate(path), content: nil)
    let place = place(path)
    guard Files.exists(place) else { return part }
    let content = try Files.readWhole(place)
    if case .appended(let start) = note, start > 0, start <= content.count,
      let last = try database.lastPart(of: path),
      Int(last.start) + last.byteCount - Self.sealingOverhead == start
    {
      part.start = Int64(start)
    }
    return sealed(Array(content[Int(part.start)...]), as: part)
  }

  /// Takes back what a change wrote that failed.
  private func undo(_ journal: FileJournal, _ database: ClusterDatabase) {
    do {
      try restore(journal, database)
      try database.giveUp()
    } catch {
      // The next pull reads everything.
      try? setVersion(0)
    }
  }

  /// Makes what a change wrote what the database has of it, after a commit that was not confirmed. The service must not
  /// act on what no other node will ever see.
  private func takeBack(_ journal: FileJournal, _ database: ClusterDatabase) {
    do {
      try database.giveUp()
      try restore(journal, database)
    } catch {
      // It is not known what the database has. The next pull finds out.
      try? setVersion(0)
    }
  }

  private func restore(_ journal: FileJournal, _ database: ClusterDatabase) throws {
    for path in journal.notes.keys {
      guard let path = sharedPath(path) else { continue }
      try restore(path, database)
    }
  }

  /// Writes all files into a database that has none, and returns their number.
  package func publish(_ database: ClusterDatabase) throws -> Int {
    guard let shared = try database.lockDirectory() else { throw notACluster }
    let version = shared.version + 1
    let parts = try paths().map { path in
      sealed(
        try Files.readWhole(place(path)),
        as: SharedPart(
          path: path, version: version, isPrivate: DataDirectory.isPrivate(path), content: nil))
    }
    try database.commit(parts, version: version, forgotten: 0)
    try setVersion(version)
    return parts.count
  }
}

extension DataDirectory {
  /// A connection to the tables of the cluster's database.
  package func clusterDatabase(node: String, purpose: String) throws -> ClusterDatabase {
    guard case .database(let address) = try storePlace() else {
      throw DirectoryProblem(
        "\(path) does not say which database its cluster has: restore store.made and store.url, or join again"
      )
    }
    return try ClusterDatabase(address, node: node, purpose: purpose)
  }

  /// Makes an empty directory ready for a node that joins: everything that nodes do not share.
  package func prepareNode(_ address: PostgresAddress, databaseID: [UInt8]) throws {
    try Files.makeDirectory(path)
    try locked {
      try makeRevocationFolder()
      try writeFormat()
      try remember(address, id: Self.text(databaseID))
    }
  }
}
