import ApusCore
package import ApusStore
import ApusWire

/// Where the rows of a data directory are.
package enum StorePlace: Sendable, Hashable {
  /// In the engine below the directory.
  case embedded
  /// In a PostgreSQL database.
  case database(PostgresAddress)

  /// - Parameter text: "embedded", or the address of a database.
  package init(_ text: String) throws(DirectoryProblem) {
    guard text != "embedded" else {
      self = .embedded
      return
    }
    do throws(PostgresAddress.Problem) { self = .database(try PostgresAddress(text)) } catch {
      throw DirectoryProblem(
        error == .notAURL
          ? "\(text) is neither `embedded` nor an address (postgresql://...)" : "\(error)")
    }
  }

  /// The tables and statements of a store in a database, as SQL with comments.
  package static var schema: String { PostgresStatements.file }
}

// The file `store.made` says which store a directory has: it is empty for the embedded one, and names the id of a
// database. The file `store.url` has the database's address, with its password if that has one.

extension DataDirectory {
  /// Marks that this directory has had a store. Without it, an unmounted volume would look like a new service, and
  /// providers would be told that all their device tokens are dead.
  var storeMark: String { "\(path)/store.made" }
  /// How far the database was when this directory's service last saw it.
  package var progressFile: String { "\(path)/store.seen" }
  private var addressFile: String { "\(path)/store.url" }
  /// The journals of a service whose store is a database; those of a part of a cluster's devices.
  package func journalPath(ofPart part: Int) -> String {
    part == 0 ? "\(path)/journal" : "\(path)/journal.\(part)"
  }

  /// Keeps the journals only if they continue what the database has: in a cluster, if the last start that wrote into
  /// the database was this node's. What another node has made of it since, these journals know nothing of.
  ///
  /// - Parameters:
  ///   - start: The number of the present start.
  ///   - last: That of the one before, on whichever node.
  ///   - part: The part of the cluster's devices that the starts decided about.
  package func keepJournals(ofStart start: Int64, after last: Int64, part: Int) throws {
    guard isInCluster else { return }
    let folder = journalPath(ofPart: part)
    let written = try? Files.readText("\(folder)/start")
    if let written, written != "\(last)\n" {
      for name in try Files.names(in: folder) where LedgerJournals.isJournal(name) {
        try DurableFile.remove("\(folder)/\(name)")
      }
    }
    try Files.makeDirectory(folder)
    try Files.write("\(start)\n", to: "\(folder)/start", isPrivate: true)
  }

  private static let databaseMark = "postgresql "

  static func text(_ databaseID: [UInt8]) -> String {
    String(decoding: Hex.encode(databaseID.span), as: UTF8.self)
  }

  /// The id of the database that has the directory's rows, in hexadecimal; nil if none does.
  func markedDatabase() throws -> String? {
    guard Files.exists(storeMark) else { return nil }
    let text = try Files.readText(storeMark)
    guard text.hasPrefix(Self.databaseMark) else { return nil }
    return String(text.dropFirst(Self.databaseMark.count).prefix { $0 != "\n" })
  }

  /// Whether the directory's rows are in a database.
  package var isInDatabase: Bool { (try? markedDatabase()) != nil }

  /// Where the rows are; nil if there is no store yet.
  package func storePlace() throws -> StorePlace? {
    guard try markedDatabase() != nil else {
      return hasStore || lacksItsStore ? .embedded : nil
    }
    let text = try Files.readText(addressFile)
    do {
      return .database(try PostgresAddress(String(text.prefix { $0 != "\n" })))
    } catch {
      throw DirectoryProblem("\(addressFile): \(error)")
    }
  }

  /// Refuses the embedded store for a directory whose rows are in a database: it would be empty, or out of date.
  func requireEmbedded() throws {
    guard try markedDatabase() != nil else { return }
    throw DirectoryProblem(
      "the rows of \(path) are in a PostgreSQL database: name it with --store, or copy them back with `apus store copy`"
    )
  }

  /// Opens the store in a database, and remembers it.
  ///
  /// Refuses a database that is not the directory's: its rows belong to other keys, so that all device tokens would be
  /// dead.
  package func openDatabase(
    _ address: PostgresAddress, _ options: PostgresOptions
  ) throws -> PostgresStore {
    guard try storePlace() != .embedded else {
      throw DirectoryProblem(
        "\(path) has a store of its own: copy it with `apus store copy`, or name another directory")
    }
    var options = options
    let marked = try markedDatabase()
    if options.beginsEraAfter == nil {
      options.seen = { [self] part in marked.flatMap(progressFile(of: part).read) }
    }
    options.onProgress = { [self] id, part, found in
      progressFile(of: part).write(found, of: Self.text(id))
    }
    let store = try PostgresStore(partDatabases(main: address), options)
    do {
      let id = Self.text(store.databaseID)
      if let marked {
        guard marked == id else {
          throw DirectoryProblem(
            "\(address) is not the database with the rows of \(path): name that one, or restore a backup of it"
          )
        }
      } else {
        guard try store.isEmpty() else {
          throw DirectoryProblem(
            "\(address) has the rows of another data directory: restore that directory, or use an empty database"
          )
        }
      }
      try remember(address, id: id)
      return store
    } catch {
      store.close()
      throw error
    }
  }

  /// From now on the rows are in a database.
  func remember(_ address: PostgresAddress, id: String) throws {
    // The address first: the mark makes it valid.
    try Files.write("\(address.text)\n", to: addressFile, isPrivate: true)
    try Files.write("\(Self.databaseMark)\(id)\n", to: storeMark, isPrivate: true)
  }

  /// From now on the rows are in the engine.
  func rememberEmbedded() throws {
    try Files.write("", to: storeMark, isPrivate: true)
    Files.remove(addressFile)
  }

  /// Whether the service knows a device.
  package func hasDevices() throws -> Bool {
    var hasDevices = false
    try followStore().store.scan(.devices, prefix: Span()) { _, _ in
      hasDevices = true
      return false
    }
    return hasDevices
  }

  /// Reads the rows, wherever they are, while a service may be writing them.
  func followStore() throws -> StoreFollowing {
    switch try storePlace() {
    case .database(let address): StoreFollowing(try follow(address))
    case .embedded, nil: try StoreFollowing(storePath)
    }
  }

  private func follow(_ address: PostgresAddress) throws -> any StoreFollower {
    let parts = try currentPartCount()
    guard let member = try clusterMember(), parts > 1 else {
      return try PostgresFollower(address)
    }
    let databases = try partDatabases(main: address)
    return DividedStore(
      try (0..<parts).map { part in
        try PostgresFollower(databases.address(of: part), node: member.node.text, part: part)
      })
  }
}

extension StoreReader {
  /// Whether no table has a row.
  func isEmpty() throws(StoreError) -> Bool {
    for family in StoreFamily.allCases {
      var isEmpty = true
      try scan(family, prefix: Span()) { _, _ in
        isEmpty = false
        return false
      }
      if !isEmpty { return false }
    }
    return true
  }
}

extension StorePlace: CustomStringConvertible {
  package var description: String {
    switch self {
    case .embedded: "the embedded store"
    case .database(let address): "\(address)"
    }
  }
}
