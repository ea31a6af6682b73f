import ApusModel
import ApusThread
import Synchronization

/// A store without a disk: for `apus dev`, where nothing must outlive the program, and for tests, which can delay
/// commits and make them fail.
///
/// Groups become visible and complete as on disk: in order, on another thread than the submitter's, and never before
/// `commit` has returned.
package final class MemoryStore: DurableStore {
  private let core: MemoryCore
  private let hasThread: Bool
  /// For tests: as that of a store that another process may use.
  package let lease: StoreLease?
  /// Where the search for expired rows continues.
  private let expiryCursor = Mutex<[UInt8]>([])

  /// Which thread runs the commits.
  package enum Mode: Sendable {
    /// A thread of the store.
    case background
    /// The caller of `runCommits`: for simulations, in which a seed decides the order of everything.
    case manual
  }

  /// - Parameters:
  ///   - maximumBytes: Bytes of keys and values, beyond which commits fail with `.diskFull`.
  ///   - maximumPendingBytes: Bytes of groups that may wait before new ones are refused with `.overloaded`.
  package convenience init(
    maximumBytes: Int = 256 * 1024 * 1024, maximumPendingBytes: Int = 32 * 1024 * 1024,
    mode: Mode = .background, lease: StoreLease? = nil
  ) {
    self.init(
      core: MemoryCore(
        tables: MemoryCore.emptyTables, maximumBytes: maximumBytes,
        maximumPendingBytes: maximumPendingBytes),
      mode: mode, lease: lease)
  }

  private init(core: MemoryCore, mode: Mode, lease: StoreLease? = nil) {
    self.core = core
    self.lease = lease
    hasThread = mode == .background
    if hasThread { startThread { core.run() } }
  }

  deinit { close() }

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
    try core.read(family) { $0.value(of: key) }
  }

  package func scan(
    _ family: StoreFamily, prefix: Span<UInt8>, from start: Span<UInt8>,
    _ visit: (_ key: Span<UInt8>, _ value: Span<UInt8>) -> Bool
  ) throws(StoreError) {
    let rows = try core.read(family) { $0 }
    rows.scan(prefix: prefix, from: start, visit)
  }

  package var isAvailable: Bool { core.isOpen }

  /// Searches some of the rows at each call.
  package func takeExpired(nowSeconds: Int64, limit: Int, into keys: inout [MailboxKey]) {
    var cursor = expiryCursor.withLock { $0 }
    try? findExpired(from: &cursor, nowSeconds: nowSeconds, limit: limit, into: &keys)
    let next = cursor
    expiryCursor.withLock { $0 = next }
  }

  package func close() {
    guard !hasThread else { return core.queue.close() }
    core.queue.adopt()
    core.queue.close()
    core.run()
  }

  // MARK: Faults and simulated time

  /// Makes the next `count` groups fail with `error`.
  ///
  /// - Parameter isKept: Whether they are written all the same, like those of a disk that fails at the last moment.
  package func failNextCommits(_ count: Int, with error: StoreError, isKept: Bool = false) {
    core.failNextCommits(count, with: error, isKept: isKept)
  }

  /// Makes the next `count` reads fail, like those of a store that recovers.
  package func failNextReads(_ count: Int) { core.failNextReads(count) }

  /// Holds submitted groups until `releaseCommits` or `close`, like a slow disk.
  package func holdCommits() { core.queue.hold() }

  package func releaseCommits() { core.queue.release() }

  /// Groups submitted and not yet written.
  package var pendingCommitCount: Int { core.queue.pendingCount }

  /// Commits up to `limit` waiting groups on the calling thread and returns their number. For `Mode.manual`.
  @discardableResult
  package func runCommits(limit: Int = .max) -> Int {
    precondition(!hasThread, "this store commits on its own thread")
    var count = 0
    while count < limit, core.runOne() { count += 1 }
    return count
  }

  /// The store after a power loss and restart: with everything committed so far and without waiting groups. This store
  /// continues independently.
  package func afterPowerLoss() -> MemoryStore {
    MemoryStore(core: core.afterPowerLoss(), mode: hasThread ? .background : .manual)
  }
}

/// The state that the store and its commit thread share.
private final class MemoryCore: Sendable {
  /// Returns one group at a time, so that faults are counted in groups and affect the same ones in each run.
  let queue: CommitQueue
  private let maximumBytes: Int
  private let maximumPendingBytes: Int
  private let state: Mutex<State>

  private struct State {
    var tables: [MemoryTable]
    var faults = 0
    var fault = StoreError.unavailable
    var keepsFailed = false
    var readFaults = 0
    var isOpen = true
  }

  static var emptyTables: [MemoryTable] { StoreFamily.allCases.map { _ in MemoryTable() } }

  init(tables: [MemoryTable], maximumBytes: Int, maximumPendingBytes: Int) {
    self.maximumBytes = maximumBytes
    self.maximumPendingBytes = maximumPendingBytes
    queue = CommitQueue(maximumPendingBytes: maximumPendingBytes, mergeBytes: 0)
    state = Mutex(State(tables: tables))
  }

  var isOpen: Bool { state.withLock { $0.isOpen } }

  func afterPowerLoss() -> MemoryCore {
    MemoryCore(
      tables: state.withLock { $0.tables }, maximumBytes: maximumBytes,
      maximumPendingBytes: maximumPendingBytes)
  }

  func read<Result: Sendable>(
    _ family: StoreFamily, _ body: (MemoryTable) -> Result
  ) throws(StoreError) -> Result {
    try state.withLock { state throws(StoreError) in
      guard state.isOpen else { throw .closed }
      guard state.readFaults == 0 else {
        state.readFaults -= 1
        throw .unavailable
      }
      return body(state.tables[Int(family.rawValue)])
    }
  }

  func failNextCommits(_ count: Int, with error: StoreError, isKept: Bool) {
    state.withLock {
      $0.faults = count
      $0.fault = error
      $0.keepsFailed = isKept
    }
  }

  func failNextReads(_ count: Int) { state.withLock { $0.readFaults = count } }

  func run() {
    queue.adopt()
    while true {
      switch queue.next() {
      case .write(let batch): write(batch)
      case .timeout: continue
      case .finish:
        state.withLock { $0.isOpen = false }
        queue.finish()
        return
      }
    }
  }

  /// Commits the group that has waited longest; false if none waits.
  func runOne() -> Bool {
    guard case .write(let batch) = queue.next(until: .after(milliseconds: 0)) else { return false }
    write(batch)
    return true
  }

  private func write(_ batch: [Submission]) {
    for submission in batch { queue.complete([submission], with: apply(submission)) }
  }

  private func apply(_ submission: Submission) -> StoreError? {
    guard submission.refusal == nil else { return nil }
    return state.withLock { state in
      let fault = state.faults > 0 ? state.fault : nil
      state.faults = max(0, state.faults - 1)
      if fault != nil, !state.keepsFailed { return fault }
      let used = state.tables.reduce(0) { $0 + $1.byteCount }
      let size = submission.bytes.count
      if submission.count > 0, used + size > maximumBytes {
        return .diskFull(
          path: "(memory)", detail: "\(used) of \(maximumBytes) bytes are used, \(size) asked for")
      }
      let bytes = submission.bytes.span
      var position = WriteRecord.headerByteCount
      while let entry = WriteRecord.next(in: bytes, at: &position) {
        let family = Int(entry.family.rawValue)
        let key = bytes.extracting(entry.key)
        switch (entry.kind, entry.value) {
        case (.put, let value?): state.tables[family].put(key, bytes.extracting(value).copied())
        case (.deleteRange, let end?):
          state.tables[family].removeRange(from: key, to: bytes.extracting(end))
        default: state.tables[family].remove(key)
        }
      }
      return fault
    }
  }
}
