import ApusModel
import ApusStore
import ApusTrust
import ApusWire

/// Moves the rows of a data directory between its own engine and a database. The service must not run.
package struct StoreCopy {
  private let directory: DataDirectory
  private let options: PostgresOptions
  private let nowSeconds: Int64

  /// - Parameter allowsSingleServer: Whether a database without a synchronous standby is good enough.
  package init(_ directory: DataDirectory, allowsSingleServer: Bool, nowSeconds: Int64) {
    var options = PostgresOptions()
    options.allowsSingleServer = allowsSingleServer
    self.directory = directory
    self.options = options
    self.nowSeconds = nowSeconds
  }

  package struct Report: Sendable {
    /// The number of rows copied.
    package var rows = 0
    /// Where the embedded store is kept that is not used any more; nil if there was none.
    package var old: String?
  }

  private static let groupBytes = 1 << 20

  /// - Throws: Why nothing was changed. The target may then have some of the rows, and no service uses it.
  package func run(from source: StorePlace, to target: StorePlace) throws -> Report {
    let parts = try directory.currentPartCount()
    if parts > 1 {
      throw DirectoryProblem(
        "the devices of the cluster are divided into \(parts) parts, and one store has no room for several: "
          + "stay with the database")
    }
    return switch (source, target) {
    case (.embedded, .database(let address)): try copyOut(to: address)
    case (.database(let address), .embedded): try copyBack(from: address)
    default: throw DirectoryProblem("rows are copied between the embedded store and a database")
    }
  }

  private func copyOut(to address: PostgresAddress) throws -> Report {
    guard try directory.storePlace() == .embedded else {
      throw DirectoryProblem("\(directory.path) has no embedded store")
    }
    let source = try directory.openStore(RocksOptions())
    defer { source.close() }
    let target = try PostgresStore(address, options)
    defer { target.close() }
    guard try target.isEmpty() else {
      throw DirectoryProblem(
        "\(address) has rows already: use another database, or empty it with DROP SCHEMA apus CASCADE"
      )
    }
    var report = try copy(source, target)
    try copyJournals(from: directory.storePath, to: directory.journalPath(ofPart: 0))
    try directory.remember(address, id: DataDirectory.text(target.databaseID))
    source.close()
    report.old = try moveAside()
    return report
  }

  private func copyBack(from address: PostgresAddress) throws -> Report {
    let source = try directory.openDatabase(address, options)
    defer { source.close() }
    let old = try moveAside()
    let target = try RocksStore(path: directory.storePath)
    var report = Report()
    do {
      defer { target.close() }
      report = try copy(source, target)
    }
    report.old = old
    try copyJournals(from: directory.journalPath(ofPart: 0), to: directory.storePath)
    try directory.rememberEmbedded()
    try source.markMoved()
    return report
  }

  /// Gives an embedded store that is not used any more another name, which is returned.
  private func moveAside() throws -> String? {
    guard Files.exists(directory.storePath) else { return nil }
    let old = "\(directory.storePath).copied-\(nowSeconds)"
    try Files.move(directory.storePath, to: old)
    try Files.syncFolder(of: old)
    return old
  }

  /// After a crash they have lines that the store has not.
  private func copyJournals(from folder: String, to other: String) throws {
    guard Files.exists(folder) else { return }
    try Files.makeDirectory(other)
    for name in try Files.names(in: folder) where LedgerJournals.isJournal(name) {
      Files.remove("\(other)/\(name)")
      try Files.copy("\(folder)/\(name)", to: "\(other)/\(name)")
    }
  }

  /// Copies all rows, and then compares them.
  private func copy(
    _ source: any DurableStore, _ target: any DurableStore
  ) throws -> Report {
    var report = Report()
    for family in StoreFamily.allCases {
      report.rows += try copy(family, source, target)
    }
    for family in StoreFamily.allCases {
      guard try Self.digest(family, of: source) == Self.digest(family, of: target) else {
        throw DirectoryProblem("the copied rows of \(family.name) differ: the copy is not used")
      }
    }
    return report
  }

  private func copy(
    _ family: StoreFamily, _ source: any DurableStore, _ target: any DurableStore
  ) throws -> Int {
    var count = 0
    var group = target.makeGroup()
    var failure: StoreError?
    try source.scan(family, prefix: Span()) { key, value in
      group.put(family, key: key, value: value)
      count += 1
      guard group.byteCount >= Self.groupBytes else { return true }
      do throws(StoreError) { try target.write(&group) } catch { failure = error }
      return failure == nil
    }
    if let failure { throw failure }
    try target.write(&group)
    return count
  }

  /// The digest of a table's rows in their order, each with the lengths of its key and its value.
  private static func digest(
    _ family: StoreFamily, of store: any DurableStore
  ) throws -> SHA256Digest {
    var hasher = SHA256Hasher()
    try store.scan(family, prefix: Span()) { key, value in
      for bytes in [key.count, value.count] {
        var length: [UInt8] = []
        length.append(bigEndian: UInt32(bytes))
        hasher.add(length.span)
      }
      hasher.add(key)
      hasher.add(value)
      return true
    }
    return hasher.finish()
  }
}
