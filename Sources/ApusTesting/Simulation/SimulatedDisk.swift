import ApusRandom
import ApusModel
import ApusStore

/// The disk of the service's machine with the store: synced data survives any process.
///
/// It behaves like `RocksStore`: waiting groups are written together with one sync, and after a fault everything is
/// refused until the store is reopened.
final class SimulatedDisk {
  let timeline: Timeline
  private var random: SeededRandom
  private let trace: SimulationTrace
  /// The durable data.
  private(set) var image = MemoryStore(mode: .manual)
  /// The store of the running process.
  private weak var store: SimulatedStore?
  let canary: SimulationCanary?

  // How the disk behaves.
  var syncMicroseconds: UInt64 = 400
  /// Failing syncs per thousand.
  var faultsPerThousand = 0
  var isFull: Bool { fullSince != nil }
  var isBrieflyFull = false {
    didSet { if isBrieflyFull != oldValue { brieflyFullSince = timeline.now } }
  }
  private var brieflyFullSince: UInt64 = 0
  /// When the disk is full, independently of random faults.
  var fullTime: Range<UInt64> = 0..<0
  /// Since when the disk has been full; nil while it is not.
  var fullSince: UInt64? {
    let brief = isBrieflyFull ? brieflyFullSince : nil
    guard fullTime.contains(timeline.now) else { return brief }
    return min(fullTime.lowerBound, brief ?? .max)
  }
  private(set) var faultCount = 0
  private(set) var syncCount = 0
  /// When the last fault ends or ended.
  private(set) var troubledUntil: UInt64 = 0
  /// Until when requests may be refused because of a slow sync.
  private(set) var slowUntil: UInt64 = 0
  private static let longSync = UInt64(Limits.answerSeconds) * Timeline.second / 2
  /// Called when a write failed.
  var onFault: () -> Void = {}
  /// Called when something was put on the disk.
  var onWrite: (MemoryStore) -> Void = { _ in }

  init(
    _ timeline: Timeline, random: SeededRandom, trace: SimulationTrace, canary: SimulationCanary?
  ) {
    self.timeline = timeline
    self.random = random
    self.trace = trace
    self.canary = canary
  }

  /// The store as a newly started process finds it.
  func open() -> SimulatedStore {
    let store = SimulatedStore(self)
    self.store = store
    return store
  }

  /// The process ended. A group in the middle of a sync is on the disk completely or not at all, since the engine's log
  /// has a checksum for each batch.
  func crash() {
    guard let store else { return }
    if store.isSyncing {
      let survives = random.chance(1, in: 2)
      trace("torn group", survives ? 1 : 0, store.inFlight.count)
      if survives { apply(store.inFlight) }
    }
    store.die()
  }

  /// Another process takes over: the first one writes nothing more. A group in the middle of a commit is there
  /// completely or not at all.
  func fence() {
    guard let store else { return }
    var survives = false
    if store.isSyncing {
      survives = random.chance(1, in: 2)
      trace("fenced group", survives ? 1 : 0, store.inFlight.count)
      if survives { apply(store.inFlight) }
    }
    guard canary != .writesFenced, canary != .hasTwoOwners else { return }
    store.fence(writes: survives)
  }

  // MARK: Journals

  private var journals: [JournalMemory] = []
  private static let journalBytes = 256 * 1024

  /// One for each worker, with the contents left by an earlier process.
  func journals(_ count: Int) -> [JournalMemory] {
    if canary == .losesJournals { journals = [] }
    while journals.count < count {
      journals.append(JournalMemory(byteCount: Self.journalBytes))
    }
    return journals
  }

  /// Another machine goes on, which has none of them.
  func dropJournals() { journals = [] }

  /// Power was lost: the system had written only some of the unsynced data.
  func loseJournals() {
    journals = journals.map { random.chance(1, in: 2) ? $0 : JournalMemory(byteCount: $0.count) }
  }

  enum SyncResult {
    case done
    case failed(StoreError, keeps: Bool)
  }

  func syncTime() -> UInt64 {
    let base = syncMicroseconds
    let time = random.chance(1, in: 100) ? base * 20 : base + random.between(0, base)
    // Waiting requests are refused after their time limit, some of them only after the disk has recovered.
    if time > Self.longSync { slowUntil = max(slowUntil, timeline.now + time + Self.longSync) }
    return time
  }

  func outcome() -> SyncResult {
    syncCount += 1
    if isFull {
      return .failed(.diskFull(path: "(simulated)", detail: "no space"), keeps: false)
    }
    guard faultsPerThousand > 0, random.chance(faultsPerThousand, in: 1000) else { return .done }
    return .failed(
      .inputOutput(path: "(simulated)", detail: "sync failed"), keeps: random.chance(1, in: 2))
  }

  /// Whether the store can be read until it accepts writes again, as far as the fault allows.
  func isReadableMeanwhile() -> Bool { random.chance(3, in: 4) }

  /// How long reopening the store takes after a fault.
  func noteFault() -> UInt64 {
    faultCount += 1
    let pause = random.between(1_000, 3_000_000)
    troubledUntil = max(troubledUntil, timeline.now + pause)
    trace("disk fault", isFull ? 1 : 0, Int(pause / 1_000))
    onFault()
    return pause
  }

  /// Writes groups to the disk.
  func apply(_ groups: [PendingGroup]) {
    for pending in groups {
      guard let group = pending.take() else { continue }
      if canary == .losesGroups, random.chance(1, in: 20) { continue }
      let kept = canary == .keepsRemoved ? rows(.mailbox) : []
      let counters = canary == .losesCounters && random.chance(1, in: 10) ? rows(.meta) : []
      let totals = canary == .losesSpoolTotals && random.chance(1, in: 10) ? spoolTotals() : []
      image.commit(group) { _ in }
      image.runCommits()
      restore(.relay, totals, overwrites: true)
      restore(.mailbox, kept, overwrites: false)
      restore(.meta, counters, overwrites: true)
      if canary == .countsMore, random.chance(1, in: 3) { countMore() }
    }
    onWrite(image)
  }

  /// For a canary: balanced, but wrong by one.
  private func countMore() {
    guard var row = (try? image.readCounters())?.first else { return }
    for state in [DeliveryState.received, .delivered] {
      row.counters.cells[TopicCounters.cell(state, pushType: nil, priority: .immediate)] += 1
    }
    let key = CountersRecord.key(
      worker: row.worker, topic: row.counters.topic, environment: row.counters.environment)
    var value: [UInt8] = []
    CountersRecord.encode(row.counters, into: &value)
    restore(.meta, [(key, value)], overwrites: true)
  }

  private func spoolTotals() -> [(key: [UInt8], value: [UInt8])] {
    rows(.relay).filter { $0.key.first == SpoolTotalsRecord.prefix[0] }
  }

  // MARK: Stored notifications

  func mailboxRows() -> [(key: [UInt8], value: [UInt8])] { rows(.mailbox) }

  private func rows(_ family: StoreFamily) -> [(key: [UInt8], value: [UInt8])] {
    var rows: [(key: [UInt8], value: [UInt8])] = []
    let none: [UInt8] = []
    try? image.scan(family, prefix: none.span) { key, value in
      rows.append((key.copied(), value.copied()))
      return true
    }
    return rows
  }

  /// For a canary: restores what a group removed or changed.
  private func restore(
    _ family: StoreFamily, _ rows: [(key: [UInt8], value: [UInt8])], overwrites: Bool
  ) {
    guard !rows.isEmpty else { return }
    var group = image.makeGroup()
    for row in rows {
      let present = (try? image.get(family, key: row.key.span)) ?? nil
      if overwrites || present == nil {
        group.put(family, key: row.key.span, value: row.value.span)
      }
    }
    image.commit(group) { _ in }
    image.runCommits()
  }
}

/// A group with its completion.
final class PendingGroup {
  private var group: WriteGroup?
  let completion: @Sendable (StoreError?) -> Void

  init(_ group: consuming WriteGroup, _ completion: @escaping @Sendable (StoreError?) -> Void) {
    self.group = consume group
    self.completion = completion
  }

  func take() -> WriteGroup? { group.take() }
}

/// The store as seen by one process of the service.
final class SimulatedStore: DurableStore, @unchecked Sendable {
  private let disk: SimulatedDisk
  private var waiting: [PendingGroup] = []
  private(set) var inFlight: [PendingGroup] = []
  private var state = State.open
  /// During recovery.
  private var isReadable = true

  private enum State {
    case open
    /// After a fault: refuses writes.
    case recovering
    case closing
    case closed
    /// Another process has taken over.
    case fenced
    /// The process was killed.
    case dead
  }

  init(_ disk: SimulatedDisk) { self.disk = disk }

  private var expiryCursor: [UInt8] = []

  func takeExpired(nowSeconds: Int64, limit: Int, into keys: inout [MailboxKey]) {
    try? findExpired(from: &expiryCursor, nowSeconds: nowSeconds, limit: limit, into: &keys)
  }

  var isSyncing: Bool { !inFlight.isEmpty }
  var pendingCount: Int { waiting.count + inFlight.count }

  func makeGroup() -> WriteGroup { WriteGroup() }

  /// Of a process of a cluster.
  var lease: StoreLease?

  /// Not measured: a world has no administration.
  var commits: CommitFigures { CommitFigures() }

  func commit(
    _ group: consuming WriteGroup, completion: @escaping @Sendable (StoreError?) -> Void
  ) {
    switch state {
    case .dead: return
    case .closing, .closed: return completion(.closed)
    case .fenced: return completion(disk.canary == .acceptsFenced ? nil : Self.takenOver)
    case .open, .recovering: break
    }
    if disk.canary == .answersEarly {
      let pending = PendingGroup(group) { _ in }
      waiting.append(pending)
      disk.timeline.after(1) { [self] in if state == .open { completion(nil) } }
    } else {
      waiting.append(PendingGroup(group, completion))
    }
    if state == .recovering { return refuseSoon() }
    sync()
  }

  private func refuseSoon() {
    disk.timeline.after(50) { [self] in
      guard state == .recovering else { return sync() }
      if disk.canary == .silentWhenFull, disk.isFull { return }
      let refused = waiting
      waiting = []
      for pending in refused { pending.completion(.unavailable) }
    }
  }

  private func sync() {
    guard state == .open || state == .closing, inFlight.isEmpty, !waiting.isEmpty else { return }
    swap(&inFlight, &waiting)
    let time = disk.canary == .answersEarly ? 2_000_000 : disk.syncTime()
    disk.timeline.after(time) { [self] in synced() }
  }

  private func synced() {
    guard state == .open || state == .closing else { return }
    let done = inFlight
    inFlight = []
    switch disk.outcome() {
    case .done:
      disk.apply(done)
      for pending in done { pending.completion(nil) }
      sync()
    case .failed(let error, let keeps):
      if state == .open { state = .recovering }
      // It is unknown what the disk kept of the failed group.
      if keeps { disk.apply(done) }
      for pending in done { pending.completion(disk.canary == .believesUnknown ? nil : error) }
      recoverLater()
      refuseSoon()
    }
    if state == .closing, inFlight.isEmpty, waiting.isEmpty { state = .closed }
  }

  private func recoverLater() {
    isReadable = disk.isReadableMeanwhile()
    disk.timeline.after(disk.noteFault()) { [self] in recover() }
  }

  /// Reopens the store.
  private func recover() {
    guard state == .recovering else { return }
    if disk.isFull {
      recoverLater()
    } else {
      state = .open
      sync()
    }
  }

  private static let takenOver = StoreError.takenOver(place: "(simulated)", holder: "node1")

  /// - Parameter writes: Whether the groups in flight are written.
  func fence(writes: Bool) {
    guard state != .dead, state != .closed else { return }
    state = .fenced
    for pending in inFlight { pending.completion(writes ? nil : Self.takenOver) }
    for pending in waiting { pending.completion(Self.takenOver) }
    (waiting, inFlight) = ([], [])
  }

  func die() {
    state = .dead
    waiting = []
    inFlight = []
  }

  // MARK: Reading

  private func check() throws(StoreError) {
    switch state {
    case .open, .closing, .fenced: return
    case .recovering: if !isReadable { throw .unavailable }
    case .closed, .dead: throw .closed
    }
  }

  func get(
    _ family: StoreFamily, key: Span<UInt8>, once: Bool
  ) throws(StoreError) -> [UInt8]? {
    try check()
    if disk.canary == .hidesKept, family == .mailbox { return nil }
    return try disk.image.get(family, key: key, once: once)
  }

  func scan(
    _ family: StoreFamily, prefix: Span<UInt8>, from start: Span<UInt8>,
    _ visit: (_ key: Span<UInt8>, _ value: Span<UInt8>) -> Bool
  ) throws(StoreError) {
    try check()
    if disk.canary == .mixesDevices, family == .mailbox {
      return try disk.image.scan(family, prefix: Span(), from: Span(), visit)
    }
    try disk.image.scan(family, prefix: prefix, from: start, visit)
  }

  var isAvailable: Bool { state == .open }

  func close() {
    guard state == .open || state == .recovering else { return }
    state = pendingCount == 0 ? .closed : .closing
  }
}
