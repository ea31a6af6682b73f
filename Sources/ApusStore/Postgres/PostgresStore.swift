import ApusLease
package import ApusModel
import ApusThread
import Synchronization

/// The store in a PostgreSQL database, with the same rows as the embedded one.
///
/// One commit thread, and one keeper thread that renews the lease, replaces lost connections and searches for expired
/// notifications. A group is committed when the database says so, which with a synchronous standby means that two
/// machines have it. While the database is away groups wait for `holdMilliseconds`, and are then refused.
package final class PostgresStore: DurableStore {
  private let core: PostgresCore

  /// Examines the database, makes its tables if it has none, and takes it over.
  ///
  /// Blocks for up to `leaseMilliseconds` if another process seems to use it; a standby until it has taken it over.
  package init(
    _ databases: PartDatabases, _ options: PostgresOptions = PostgresOptions()
  ) throws(StoreError) {
    let core = try Self.open(databases, options)
    self.core = core
    startThread {
      options.onThreadStart()
      core.run()
    }
    startThread { core.keep() }
  }

  package convenience init(
    _ address: PostgresAddress, _ options: PostgresOptions = PostgresOptions()
  ) throws(StoreError) {
    try self.init(PartDatabases(main: address), options)
  }

  /// A standby goes on waiting if it loses the database, or its right to it, before it could use them.
  private static func open(
    _ databases: PartDatabases, _ options: PostgresOptions
  ) throws(StoreError) -> PostgresCore {
    while true {
      let tenure = try PostgresOpening(databases: databases, options: options).open()
      var options = options
      options.part = tenure.part
      do throws(StoreError) { return try PostgresCore(databases, tenure, options) } catch {
        guard options.standby != nil, error.letsNodeWait else { throw error }
        options.onEvent(.stillFailing(error, retryMilliseconds: options.retryMilliseconds))
        pause(milliseconds: options.retryMilliseconds)
      }
    }
  }

  deinit { core.queue.close() }

  /// The database's id: 16 bytes, made with its tables.
  package var databaseID: [UInt8] { core.tenure.databaseID }

  /// The number of this start among all that have used the database, and that of the process before.
  package var incarnation: Int64 { core.tenure.incarnation }
  package var predecessor: Int64 { core.tenure.predecessor }
  /// The part of a cluster's devices whose rows it has.
  package var part: Int { core.tenure.part }
  /// How far the database was when it was opened.
  package var progress: DatabaseProgress { core.tenure.progress }

  /// Marks the rows as copied to another store: no service opens them any more.
  package func markMoved() throws(StoreError) {
    try core.reading.readers.read { connection throws(PostgresFault) in
      _ = try connection.ask(
        .moved, PostgresValues(.truth(true)), withinMilliseconds: 10_000
      ) { $0.count }
    }
  }

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
    try core.reading.get(family, key: key)
  }

  package func scan(
    _ family: StoreFamily, prefix: Span<UInt8>, from start: Span<UInt8>,
    _ visit: (_ key: Span<UInt8>, _ value: Span<UInt8>) -> Bool
  ) throws(StoreError) {
    try core.reading.scan(family, prefix: prefix, from: start, visit)
  }

  package func scanMailbox(
    of devices: [DeviceID],
    _ visit: (_ device: Int, _ key: Span<UInt8>, _ value: Span<UInt8>) -> Void
  ) throws(StoreError) {
    try core.reading.scanMailbox(of: devices, visit)
  }

  package func takeExpired(nowSeconds: Int64, limit: Int, into keys: inout [MailboxKey]) {
    core.expiries.take(nowSeconds: nowSeconds, limit: limit, into: &keys)
  }

  /// Searches the whole mailbox now, which otherwise takes as long as it takes. For tests.
  package func searchExpired(nowSeconds: Int64) {
    var none: [MailboxKey] = []
    takeExpired(nowSeconds: nowSeconds, limit: 0, into: &none)
    while core.expiries.search(core.reading, rows: 7) {}
  }

  package var isAvailable: Bool { core.isAvailable }

  package var fault: StoreError? { core.fault }

  package var lease: StoreLease? { core.lease }

  package func close() { core.queue.close() }
}

/// What the store and its threads share.
private final class PostgresCore: @unchecked Sendable {
  let queue: CommitQueue
  let tenure: PostgresTenure
  let reading: PostgresReading
  let expiries = ExpirySearch()
  let lease: StoreLease
  private let address: PostgresAddress
  private let options: PostgresOptions
  private let takesWrites = Atomic(true)
  /// The number of the last group that is known to be committed.
  private let written: WrittenGroup
  private let lastFault = Mutex<StoreError?>(nil)
  private let keeper: PostgresKeeper
  /// The commit thread's.
  private let writer: PostgresWriter
  private var merger = BatchMerger()

  init(
    _ databases: PartDatabases, _ tenure: PostgresTenure, _ options: PostgresOptions
  ) throws(StoreError) {
    let address = databases.address(of: tenure.part)
    self.address = address
    self.tenure = tenure
    self.options = options
    queue = CommitQueue(
      maximumPendingBytes: options.maximumPendingBytes, mergeBytes: options.mergeBytes)
    writer = PostgresWriter(address, tenure, options)
    lease = StoreLease(
      takenAtMilliseconds: tenure.takenMilliseconds,
      validMilliseconds: options.leaseRules.validMilliseconds)
    let keeper = PostgresKeeper(databases.main, tenure, options, lease)
    self.keeper = keeper
    written = WrittenGroup(tenure.progress.group)
    reading = PostgresReading(
      PostgresReaders(address, name: "\(tenure.connectionName)/r", options) { keeper.ask() },
      address, options)
    let connecting: PostgresWriter.Connecting
    do throws(PostgresFault) {
      connecting = try writer.connect()
      try reading.readers.replenish()
    } catch {
      throw database(error)
    }
    if case .lost(let loss) = connecting { throw failure(loss) }
  }

  // MARK: Any thread

  var isAvailable: Bool { takesWrites.load(ordering: .relaxed) }

  var fault: StoreError? { lastFault.withLock { $0 } }

  // MARK: The keeper thread

  func keep() {
    let era = tenure.progress.era
    keeper.run(reading, expiries) { [written] in
      DatabaseProgress(era: era, group: written.number.load(ordering: .relaxed))
    }
  }

  // MARK: The commit thread

  func run() {
    queue.adopt()
    while true {
      switch queue.next() {
      case .write(let batch):
        let failure = write(batch)
        if failure != nil { takesWrites.store(false, ordering: .relaxed) }
        queue.complete(batch, with: failure?.told)
        if let failure { recover(from: failure) }
      case .timeout: continue
      case .finish:
        takesWrites.store(false, ordering: .relaxed)
        writer.close()
        keeper.stop()
        reading.readers.close()
        queue.finish()
        return
      }
    }
  }

  private struct Failure {
    /// For the completions of the batch.
    var told: StoreError
    /// For the operator.
    var reason: StoreError
    var isPermanent = false
  }

  /// Nil if the groups of `batch` are committed, as one transaction.
  private func write(_ batch: [Submission]) -> Failure? {
    let submissions = batch.filter { $0.count > 0 }
    guard !submissions.isEmpty else { return nil }
    let bytes = merger.bytes(of: submissions)
    let count = submissions.reduce(0) { $0 + $1.count }
    return failure(
      of: writer.write(
        bytes.span, count: count, until: .after(milliseconds: options.holdMilliseconds)))
  }

  private func failure(of outcome: PostgresWriter.Outcome) -> Failure? {
    switch outcome {
    case .committed:
      written.number.store(writer.committed, ordering: .relaxed)
      return nil
    case .refused(let fault): return Failure(told: .unavailable, reason: database(fault))
    case .inDoubt(let fault): return Failure(told: database(fault), reason: database(fault))
    case .lost(let loss):
      return Failure(told: failure(loss), reason: failure(loss), isPermanent: true)
    }
  }

  private func database(_ fault: PostgresFault) -> StoreError {
    .database(place: address.description, detail: "\(fault)")
  }

  private func failure(_ loss: PostgresWriter.Loss) -> StoreError {
    switch loss {
    case .takenOver(let holder): .takenOver(place: address.description, holder: holder)
    case .wentBack(let expected, let found):
      .wentBack(
        place: address.description,
        expected: DatabaseProgress(era: tenure.progress.era, group: expected),
        found: DatabaseProgress(era: tenure.progress.era, group: found))
    }
  }

  /// Refuses writes until the database has committed an empty group.
  private func recover(from failure: Failure) {
    options.onEvent(.failed(failure.reason))
    var last = failure
    var pause = options.retryMilliseconds
    while true {
      lastFault.withLock { $0 = last.reason }
      options.onEvent(
        .stillFailing(last.reason, retryMilliseconds: last.isPermanent ? nil : pause))
      if last.isPermanent {
        while queue.refuse(for: .max / 2) {}
        return
      }
      guard queue.refuse(for: pause) else { return }
      guard let next = probe() else { break }
      last = next
      pause = min(2 * pause, options.maximumRetryMilliseconds)
    }
    lastFault.withLock { $0 = nil }
    takesWrites.store(true, ordering: .relaxed)
    options.onEvent(.recovered)
  }

  private func probe() -> Failure? {
    let empty = queue.makeGroup()
    return failure(
      of: writer.write(
        empty.bytes.span, count: 0, until: .after(milliseconds: options.answerMilliseconds)))
  }
}

/// The number of a group, for the commit thread and the keeper.
private final class WrittenGroup: Sendable {
  let number: Atomic<Int64>

  init(_ number: Int64) { self.number = Atomic(number) }
}
