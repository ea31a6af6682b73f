package import ApusModel
import ApusThread
import Synchronization

/// The store on disk, based on RocksDB.
///
/// One directory, one process, one commit thread. After a fault the engine refuses writes for good, and the C
/// interface of 7.8 lacks `DB::Resume`: so the commit thread closes the database and tries to open it again until that
/// succeeds. Meanwhile it is open for reading, so that devices get their stored notifications.
package final class RocksStore: DurableStore {
  private let core: RocksCore

  /// Opens the store at `path`, creating it with mode 0700 if it does not exist; its parent directory must exist.
  ///
  /// Blocks while the engine reads log entries that are not in tables yet, at most `RocksOptions.logBytes`.
  ///
  /// - Parameter lock: The store's lock, if the caller has it; otherwise the store takes it.
  package init(
    path: String, options: RocksOptions = RocksOptions(), lock: StoreLock? = nil
  ) throws(StoreError) {
    let core = RocksCore(path: path, options: options, lock: lock)
    let fault = try core.open()
    self.core = core
    startThread {
      options.onThreadStart()
      core.run(recoveringFrom: fault)
    }
  }

  deinit { core.queue.close() }

  package func makeGroup() -> WriteGroup { core.queue.makeGroup() }

  package var commits: CommitFigures { core.queue.figures }

  package func commit(
    _ group: consuming WriteGroup, completion: @escaping @Sendable (StoreError?) -> Void
  ) {
    core.queue.submit(group, completion: completion)
  }

  package func get(
    _ family: StoreFamily, key: Span<UInt8>, once: Bool
  ) throws(StoreError) -> [UInt8]? {
    let database = try core.beginReading()
    defer { core.endReading() }
    return try database.get(family, key: key, once: once)
  }

  package func scan(
    _ family: StoreFamily, prefix: Span<UInt8>, from start: Span<UInt8>,
    _ visit: (_ key: Span<UInt8>, _ value: Span<UInt8>) -> Bool
  ) throws(StoreError) {
    let database = try core.beginReading()
    defer { core.endReading() }
    try database.scan(family, prefix: prefix, from: start, visit)
  }

  package func scanMailbox(
    of devices: [DeviceID],
    _ visit: (_ device: Int, _ key: Span<UInt8>, _ value: Span<UInt8>) -> Void
  ) throws(StoreError) {
    let database = try core.beginReading()
    defer { core.endReading() }
    try database.scanMailbox(of: devices, visit)
  }

  package var isAvailable: Bool { core.isAvailable }

  package var fault: StoreError? { core.fault }

  package func takeExpired(nowSeconds: Int64, limit: Int, into keys: inout [MailboxKey]) {
    core.expiryFinder.take(limit: limit, into: &keys)
  }

  package func makeCheckpoint() throws(StoreError) -> String { try core.makeCheckpoint() }

  /// Removes the copies that `makeCheckpoint` left. The store may be open.
  package static func removeCheckpoint(path: String) throws(StoreError) {
    try StoreDirectory(path: path).removeCheckpoint()
  }

  /// Merges all tables of a family now, which the engine otherwise does at its own pace. For tests and benchmarks.
  package func compact(_ family: StoreFamily) throws(StoreError) {
    let database = try core.beginReading()
    defer { core.endReading() }
    database.compact(family)
  }

  /// Bytes of table blocks in the engine's cache. For tests and benchmarks.
  package func cachedBlockBytes() throws(StoreError) -> Int {
    let database = try core.beginReading()
    defer { core.endReading() }
    return database.cachedBlockBytes
  }

  /// The number of log syncs since the store was created, and of the groups that they covered.
  package struct Counters: Sendable, Hashable {
    package var syncs: UInt64
    package var groups: UInt64

    package init(syncs: UInt64, groups: UInt64) {
      self.syncs = syncs
      self.groups = groups
    }
  }

  package var counters: Counters { core.counters }

  package func close() { core.queue.close() }
}

/// The state that the store and its commit thread share.
private final class RocksCore: @unchecked Sendable {
  let queue: CommitQueue
  private let directory: StoreDirectory
  private let options: RocksOptions
  /// One for all openings, so that its limit holds throughout a long fault.
  private let engineLog: EngineLog
  private let takesWrites = Atomic(false)
  /// The error of the last attempt to write, or to reopen the database.
  private let lastFault = Mutex<StoreError?>(nil)
  private let isClosed = Atomic(false)
  private let syncs = Atomic<UInt64>(0)
  private let groups = Atomic<UInt64>(0)
  private let readers = ReadersLock()
  let expiryFinder = ExpiryFinder()
  /// Changed by the commit thread under the writer's side of `readers`.
  private var database: RocksDatabase?
  private var progress: StoreProgressKeeper
  /// Held from the first opening on.
  private var lock: StoreLock?
  /// Whether the files were found whole since the database was last open: retries need not read them again.
  private var isSurveyed = false
  private var nextPresenceCheck = Deadline.after(milliseconds: 0)
  private static let presenceMilliseconds: Int64 = 1000
  /// The commit thread's.
  private var merger = BatchMerger()

  init(path: String, options: RocksOptions, lock: StoreLock?) {
    directory = StoreDirectory(path: path)
    self.lock = lock
    progress = StoreProgressKeeper(
      directory, lookMilliseconds: options.progressMilliseconds)
    self.options = options
    engineLog = EngineLog(onMessage: options.onMessage)
    queue = CommitQueue(
      maximumPendingBytes: options.maximumPendingBytes, mergeBytes: options.mergeBytes)
  }

  // MARK: Any thread

  var isAvailable: Bool { takesWrites.load(ordering: .relaxed) }

  var fault: StoreError? { lastFault.withLock { $0 } }

  var counters: RocksStore.Counters {
    .init(syncs: syncs.load(ordering: .relaxed), groups: groups.load(ordering: .relaxed))
  }

  func beginReading() throws(StoreError) -> RocksDatabase {
    guard readers.tryRead() else { throw .unavailable }
    guard let database else {
      readers.unlock()
      throw isClosed.load(ordering: .relaxed) ? .closed : .unavailable
    }
    return database
  }

  func endReading() { readers.unlock() }

  func makeCheckpoint() throws(StoreError) -> String {
    let database = try beginReading()
    defer { endReading() }
    guard database.takesWrites else { throw .unavailable }
    try directory.removeCheckpoint()
    try database.checkpoint(to: directory.checkpointPath)
    try directory.finishCheckpoint()
    return directory.checkpointPath
  }

  // MARK: The commit thread, and opening the store before it runs

  /// Opens the store for the first time. Returns why it is read-only, if `waitsForDisk` allows that.
  func open() throws(StoreError) -> StoreError? {
    do throws(StoreError) {
      try open(creating: true)
      return nil
    } catch {
      // Without the lock another process may be using the store.
      guard options.waitsForDisk, error.isOfDisk, lock != nil else { throw error }
      // A store being created has nothing to read, and a missing disk cannot be read.
      guard (try? openForReading()) != nil else { throw error }
      return error
    }
  }

  private func open(creating: Bool) throws(StoreError) {
    // Before its content: what a directory in place of the store lacks is no damage of the store.
    if let lock { try directory.requireLocked(by: lock.descriptor) }
    let content = try directory.prepare(creating: creating)
    if lock == nil { lock = try StoreLock(directory) }
    if let lock { try directory.requireLocked(by: lock.descriptor) }
    try check(content)
    // After the check, so that damage is found even if the store can only be read.
    try directory.requireWritable()
    let attempt = OpeningAttempt(directory)
    let opened: RocksDatabase
    do throws(StoreError) {
      opened = try RocksDatabase(
        path: directory.path, for: .writing(creating: content == .fresh), options: options,
        log: engineLog, expiryFinder: expiryFinder)
    } catch {
      attempt?.removeLeftovers()
      throw error
    }
    use(opened)
    isSurveyed = false
    lastFault.withLock { $0 = nil }
    takesWrites.store(true, ordering: .relaxed)
  }

  /// Refuses a damaged store, or prepares one for the engine whose damage the operator accepts.
  private func check(_ content: StoreDirectory.Content) throws(StoreError) {
    if options.acceptsLoss { return try mendLogs() }
    try progress.check()
    guard content == .database, !isSurveyed else { return }
    try StoreSurvey.requireWhole(directory)
    isSurveyed = true
  }

  private func mendLogs() throws(StoreError) {
    for name in try directory.list() where StoreProgress.logNumber(name) != nil {
      do throws(LogFile.Fault) { try LogFile.mend("\(directory.path)/\(name)") } catch {
        throw directory.failure(error.code, "mending \(name)")
      }
    }
  }

  private func openForReading() throws(StoreError) {
    try directory.prepareReading()
    use(
      try RocksDatabase(
        path: directory.path, for: .reading, options: options, log: engineLog,
        expiryFinder: expiryFinder))
  }

  /// Replaces the open database, which is closed after its last reader.
  private func use(_ opened: RocksDatabase?) {
    readers.write()
    let old = database
    database = opened
    readers.unlock()
    old?.close()
  }

  func run(recoveringFrom fault: StoreError?) {
    queue.adopt()
    if let fault { recover(from: fault) }
    while true {
      switch queue.next(until: progress.firstLook) {
      case .write(let batch):
        let failure = write(batch)
        if failure != nil { takesWrites.store(false, ordering: .relaxed) }
        queue.complete(batch, with: failure)
        if let failure { recover(from: failure) }
      case .timeout:
        progress.write()
      case .finish:
        isClosed.store(true, ordering: .relaxed)
        if takesWrites.load(ordering: .relaxed) { progress.write(isForced: true) }
        closeDatabase()
        lock = nil
        queue.finish()
        return
      }
    }
  }

  /// Writes the groups of `batch` as one, with one sync. Nil if they are on disk.
  ///
  /// One batch rather than separate writes and a sync at the end: the engine's log then has all groups or none, and
  /// its write path runs once.
  private func write(_ batch: [Submission]) -> StoreError? {
    let submissions = batch.filter { $0.count > 0 }
    guard !submissions.isEmpty else { return nil }
    guard let database else { return .unavailable }
    let bytes = merger.bytes(of: submissions)
    do throws(StoreError) {
      try database.write(bytes.span)
      syncs.add(1, ordering: .relaxed)
      groups.add(UInt64(submissions.count), ordering: .relaxed)
      progress.write()
      try requirePresence()
      return nil
    } catch {
      return error
    }
  }

  /// Fails if the directory was deleted, moved or replaced: the engine would go on writing to files that the next start
  /// does not find. Looked at once a second.
  private func requirePresence() throws(StoreError) {
    guard let lock, nextPresenceCheck.isPast else { return }
    nextPresenceCheck = .after(milliseconds: Self.presenceMilliseconds)
    do throws(StoreError) { try directory.requireLocked(by: lock.descriptor) } catch {
      // The next write must not pass before the recovery has seen the directory again.
      nextPresenceCheck = .after(milliseconds: 0)
      throw error
    }
  }

  private func closeDatabase() {
    takesWrites.store(false, ordering: .relaxed)
    use(nil)
  }

  /// Reopens the database after a fault, and refuses writes meanwhile. Returns once that succeeded or the store is
  /// being closed.
  private func recover(from failure: StoreError) {
    lastFault.withLock { $0 = failure }
    options.onEvent(.failed(failure))
    // It holds the engine's lock. A read-only one holds none, and stays in use until it is replaced.
    if database?.takesWrites == true { closeDatabase() }
    var pause: Int64 = 0
    while queue.refuse(for: pause) {
      do throws(StoreError) {
        try open(creating: false)
        options.onEvent(.recovered)
        return
      } catch {
        lastFault.withLock { $0 = error }
        // If it cannot be read either, the store is unavailable until the next attempt.
        if database == nil { try? openForReading() }
        let next = Self.canPass(error) ? max(options.retryMilliseconds, 2 * pause) : nil
        pause = min(next ?? .max, options.maximumRetryMilliseconds)
        options.onEvent(.stillFailing(error, retryMilliseconds: next.map { _ in pause }))
        if next == nil {
          while queue.refuse(for: pause) {}
          return
        }
      }
    }
  }

  /// Whether waiting may resolve `error`: a full disk, an unmounted one, a missing permission. Damage is permanent.
  private static func canPass(_ error: StoreError) -> Bool {
    switch error {
    case .corrupted, .newerVersion, .olderVersion, .notAStore: false
    default: true
    }
  }
}
