import ApusModel
package import ApusStore
import Glibc
import Synchronization

// A data directory's store, as the operator meets it: whether there is the one that was there before, and what to do
// when there is not.

extension DataDirectory {
  /// Says that this directory has had a store. Without it an unmounted volume would look like a new service, which
  /// tells providers that all their tokens are dead.
  private var storeMark: String { "\(path)/store.made" }
  private var storeFormatFile: String { "\(storePath)/FORMAT" }

  /// Whether the store that was there is not.
  package var lacksItsStore: Bool { Files.exists(storeMark) && !Files.exists(storeFormatFile) }

  /// Opens the store, or makes it where there never was one.
  package func openStore(_ options: RocksOptions) throws -> RocksStore {
    guard !lacksItsStore else {
      throw DirectoryProblem(
        "\(storePath) is missing or empty, and this data directory has had a store: mount what holds it or restore a "
          + "backup; `apus store --accept-loss` begins without the notifications and device tokens that were in it"
      )
    }
    let store: RocksStore
    do throws(StoreError) { store = try RocksStore(path: storePath, options: options) } catch {
      guard case .corrupted(_, let detail) = error else { throw error }
      let findings = StoreSurvey(path: storePath).findings.map { "\n  \($0)" }.joined()
      throw DirectoryProblem(
        "the store \(storePath) is damaged (\(detail)): restore a backup, or run `apus store --accept-loss`, which "
          + "keeps a copy and goes on with what can be read" + findings)
    }
    if !Files.exists(storeMark) { _ = try DurableFile.create([], at: storeMark) }
    return store
  }

  /// Notifications that wait in the store, of which every file was there and every record could be read. The service
  /// must not run: opening the store replays its log.
  package func storedNotificationCount() throws -> Int {
    let store = try openStore(RocksOptions())
    defer { store.close() }
    return try Self.notificationCount(in: store)
  }

  private static func notificationCount(in store: RocksStore) throws(StoreError) -> Int {
    var count = 0
    try store.scan(.mailbox, prefix: Span(), from: Span()) { key, _ in
      if (try? MailboxKey(decoding: key)) != nil { count += 1 }
      return true
    }
    return count
  }

  /// What `acceptLoss` did.
  package struct StoreRepair: Sendable {
    /// Where the damaged files are; nil where there were none.
    package var copy: String?
    /// Notifications that wait in the store now; nil where a new one is made with the next start.
    package var notifications: Int?
    /// What of the logs is lost, and what the engine said of what it left out.
    package var messages: [String]
  }

  /// Goes on with what can be read of the store, after a copy was made of all of it. The service must not run.
  ///
  /// - Parameter nowSeconds: Unix seconds, for the copy's name.
  package func acceptLoss(nowSeconds: Int64) throws -> StoreRepair {
    try changing { try repair(nowSeconds: nowSeconds) }
  }

  private func repair(nowSeconds: Int64) throws -> StoreRepair {
    guard !lacksItsStore, Files.exists(storePath) else {
      try DurableFile.remove(storeMark)
      return StoreRepair(copy: nil, notifications: nil, messages: [])
    }
    let copy = "\(storePath).damaged-\(nowSeconds)"
    try copyStore(to: copy)
    let findings = StoreSurvey(path: copy).findings
    let messages = Collected()
    var options = RocksOptions()
    options.onMessage = { messages.add($0) }
    do throws(StoreError) {
      let (store, lost) = try RocksStore.openAcceptingLoss(path: storePath, options: options)
      defer { store.close() }
      let count = try Self.notificationCount(in: store)
      let tables = lost.map { "\($0.name): what was in it is lost: \($0.reason)" }
      return StoreRepair(
        copy: copy, notifications: count,
        messages: findings + tables + Self.shortfall(of: count, in: store) + messages.lines)
    } catch {
      guard case .corrupted(_, let detail) = error else { throw error }
      // Not even the engine's list of its tables can be read.
      try removeStore()
      try DurableFile.remove(storeMark)
      return StoreRepair(
        copy: copy, notifications: nil, messages: findings + messages.lines + [detail])
    }
  }

  /// How many notifications are lost by the counters beside them, where these are more than there are.
  private static func shortfall(of count: Int, in store: RocksStore) -> [String] {
    // What only a session had is counted as pending too, and so is what nobody was to store.
    guard let counters = try? store.readCounters(), let superseded = try? store.readSuperseded()
    else { return [] }
    let pending =
      counters.reduce(0) { $0 + Int($1.counters.pending) - Int($1.counters.unstoredCount) }
      - superseded.count
    guard pending > count else { return [] }
    return ["\(pending) notifications waited by the store's counters: \(pending - count) are lost"]
  }

  /// The engine writes new files when it opens a store, and never changes those that were there. So links are a copy,
  /// however long the logs are. A journal goes on in its file, and the store may be a volume of its own.
  private func copyStore(to copy: String) throws {
    try Files.makeDirectory(copy)
    for name in try storeFiles() where name != "LOCK" {
      let (from, to) = ("\(storePath)/\(name)", "\(copy)/\(name)")
      if !LedgerJournals.isJournal(name), unsafe link(from, to) == 0 { continue }
      try Files.copy(from, to: to)
    }
    try Files.syncFolder(of: "\(copy)/FORMAT")
  }

  private func removeStore() throws {
    for name in try storeFiles() { try DurableFile.remove("\(storePath)/\(name)") }
  }

  /// Without folders: the root of a volume has `lost+found`.
  private func storeFiles() throws -> [String] {
    try Files.names(in: storePath).filter { Files.isFile("\(storePath)/\($0)") }
  }
}

/// What the engine says while a store is opened, on any of its threads.
private final class Collected: Sendable {
  private let all = Mutex<[String]>([])

  func add(_ line: String) { all.withLock { $0.append(line) } }
  var lines: [String] { all.withLock { $0 } }
}
