import ApusModel
package import ApusStore
import Glibc
import Synchronization

// Opens the store of a data directory, detects a missing or damaged one, and repairs it when the operator accepts the
// loss.

extension DataDirectory {
  var hasStore: Bool { !isInDatabase && Files.exists("\(storePath)/FORMAT") }

  /// Whether the directory had a store of its own that is now missing.
  package var lacksItsStore: Bool { Files.exists(storeMark) && !isInDatabase && !hasStore }

  /// Opens the store, or creates it if the directory never had one.
  package func openStore(_ options: RocksOptions) throws -> RocksStore {
    try requireEmbedded()
    guard !lacksItsStore else {
      throw DirectoryProblem(
        "\(storePath) is missing or empty, but this data directory has had a store: mount its volume or restore a "
          + "backup; `apus store --accept-loss` makes a new store and loses all notifications and device tokens"
      )
    }
    let store: RocksStore
    do throws(StoreError) { store = try RocksStore(path: storePath, options: options) } catch {
      guard case .corrupted(_, let detail) = error else { throw error }
      let survey = StoreSurvey(path: storePath)
      let remedy =
        survey.damagedManifest == nil
        ? "restore a backup, or run `apus store --accept-loss`, which keeps a copy and continues with what can be read"
        : manifestRemedy
      throw DirectoryProblem(
        "the store \(storePath) is damaged (\(detail)): \(remedy)" + Self.lines(survey.findings))
    }
    if !Files.exists(storeMark) { _ = try DurableFile.create([], at: storeMark) }
    return store
  }

  private var manifestRemedy: String {
    "restore a backup, or move \(storePath) away and run `apus store --accept-loss`, which makes a new store and loses "
      + "all notifications and device tokens"
  }

  private static func lines(_ findings: [String]) -> String {
    findings.map { "\n  \($0)" }.joined()
  }

  /// The number of stored notifications, after checking that every file exists and every record can be read. A service
  /// with an embedded store must not be running: opening the store replays its log.
  package func storedNotificationCount() throws -> Int {
    if isInDatabase { return try Self.notificationCount(in: followStore().store) }
    let store = try openStore(RocksOptions())
    defer { store.close() }
    return try Self.notificationCount(in: store)
  }

  private static func notificationCount(in store: any StoreReader) throws(StoreError) -> Int {
    var count = 0
    try store.scan(.mailbox, prefix: Span(), from: Span()) { key, _ in
      if (try? MailboxKey(decoding: key)) != nil { count += 1 }
      return true
    }
    return count
  }

  /// The result of ``acceptLoss(nowSeconds:)``.
  package struct StoreRepair: Sendable {
    /// The directory with the copy of the damaged files; nil if there were none.
    package var copy: String?
    /// The number of notifications now stored; nil if the next start creates a new store.
    package var notifications: Int?
    /// What is lost from the logs, and the engine's messages about what it left out.
    package var messages: [String]
  }

  /// Copies the whole store, then keeps what can be read of it. Changes nothing if the store is open elsewhere, or if
  /// its MANIFEST is damaged: without the list of tables nobody can tell which of them belong to the store.
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
    // Held until the repair is done: a service that starts meanwhile must not use what is being changed.
    let lock = hasStore ? try StoreLock(path: storePath) : nil
    defer { withExtendedLifetime(lock) {} }
    let survey = StoreSurvey(path: storePath)
    if let name = survey.damagedManifest {
      throw DirectoryProblem(
        "the list of tables of the store \(storePath), \(name), is damaged, so nothing of it can be kept: "
          + manifestRemedy + Self.lines(survey.findings))
    }
    let findings = survey.findings
    let copy = "\(storePath).damaged-\(nowSeconds)"
    try copyStore(to: copy)
    let messages = Collected()
    var options = RocksOptions()
    options.onMessage = { messages.add($0) }
    do throws(StoreError) {
      let (store, lost) = try RocksStore.openAcceptingLoss(
        path: storePath, options: options, lock: lock)
      defer { store.close() }
      let count = try Self.notificationCount(in: store)
      let tables = lost.map { "\($0.name): its contents are lost: \($0.reason)" }
      return StoreRepair(
        copy: copy, notifications: count,
        messages: findings + tables + Self.shortfall(of: count, in: store) + messages.lines)
    } catch {
      guard case .corrupted(_, let detail) = error else { throw error }
      // Even the engine's list of tables (MANIFEST) cannot be read.
      try removeStore()
      try DurableFile.remove(storeMark)
      return StoreRepair(
        copy: copy, notifications: nil, messages: findings + messages.lines + [detail])
    }
  }

  /// A message with the number of lost notifications, if the store's counters show more pending than are stored.
  private static func shortfall(of count: Int, in store: RocksStore) -> [String] {
    // The counters also count as pending what only a session held, and what was never to be stored.
    guard let counters = try? store.readCounters(), let superseded = try? store.readSuperseded()
    else { return [] }
    let pending = counters.reduce(0) { $0 + Int($1.counters.pendingInStore) } - superseded.count
    guard pending > count else { return [] }
    return ["lost notifications, by the store's counters: \(pending - count) of \(pending)"]
  }

  /// When the engine opens a store, it writes new files and never changes existing ones, so hard links are a sufficient
  /// copy, regardless of size. Journals must be copied because they are appended to, as must all files if the store is
  /// a separate volume.
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

  /// Files only: the root of a volume contains the folder `lost+found`.
  private func storeFiles() throws -> [String] {
    try Files.names(in: storePath).filter { Files.isFile("\(storePath)/\($0)") }
  }
}

/// Collects the engine's messages while it opens a store; the engine may call it on any thread.
private final class Collected: Sendable {
  private let all = Mutex<[String]>([])

  func add(_ line: String) { all.withLock { $0.append(line) } }
  var lines: [String] { all.withLock { $0 } }
}
