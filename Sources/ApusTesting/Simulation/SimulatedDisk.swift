import ApusModel
import ApusStore

/// The disk of the service's machine, and on it the store: what was synced stays, whatever becomes of the processes
/// that use it.
///
/// It does what `RocksStore` does: groups that wait are written as one with one sync, and after a fault everything is
/// refused until the store was opened again.
final class SimulatedDisk {
  let timeline: Timeline
  private var random: SeededRandom
  private let trace: SimulationTrace
  /// What is durable.
  private(set) var image = MemoryStore(mode: .manual)
  /// What the running process uses.
  private weak var store: SimulatedStore?
  let canary: SimulationCanary?

  // How the disk behaves.
  var syncMicroseconds: UInt64 = 400
  /// Of a thousand syncs so many fail.
  var faultsPerThousand = 0
  var isFull: Bool { fullSince != nil }
  var isBrieflyFull = false {
    didSet { if isBrieflyFull != oldValue { brieflyFullSince = timeline.now } }
  }
  private var brieflyFullSince: UInt64 = 0
  /// When there is no room, whatever else happens.
  var fullTime: Range<UInt64> = 0..<0
  /// Since when there has been no room; nil while there is some.
  var fullSince: UInt64? {
    let brief = isBrieflyFull ? brieflyFullSince : nil
    guard fullTime.contains(timeline.now) else { return brief }
    return min(fullTime.lowerBound, brief ?? .max)
  }
  private(set) var faultCount = 0
  private(set) var syncCount = 0
  /// When the last fault was over, or will be.
  private(set) var troubledUntil: UInt64 = 0
  /// Until when requests may be refused because a sync took longer than they may wait.
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

  /// The store as a process that starts now finds it.
  func open() -> SimulatedStore {
    let store = SimulatedStore(self)
    self.store = store
    return store
  }

  /// The process ended. A group that was being synced is on the disk as a whole, or not at all: the engine's log
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

  // MARK: Journals

  private var journals: [JournalMemory] = []
  private static let journalBytes = 256 * 1024

  /// One for each worker, with what an earlier process left.
  func journals(_ count: Int) -> [JournalMemory] {
    if canary == .losesJournals { journals = [] }
    while journals.count < count {
      journals.append(JournalMemory(byteCount: Self.journalBytes))
    }
    return journals
  }

  /// The power went: of what was not synced, the system had written some.
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
    // What waits for it is refused when its time is up, and some of it after the trouble with the disk is over.
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

  /// Whether the store can be read until it takes writes again, as far as the fault lets it.
  func isReadableMeanwhile() -> Bool { random.chance(3, in: 4) }

  /// For how long the store is being opened anew after a fault.
  func noteFault() -> UInt64 {
    faultCount += 1
    let pause = random.between(1_000, 3_000_000)
    troubledUntil = max(troubledUntil, timeline.now + pause)
    trace("disk fault", isFull ? 1 : 0, Int(pause / 1_000))
    onFault()
    return pause
  }

  /// Puts groups on the disk.
  func apply(_ groups: [PendingGroup]) {
    for pending in groups {
      guard let group = pending.take() else { continue }
      if canary == .losesGroups, random.chance(1, in: 20) { continue }
      let kept = canary == .keepsRemoved ? rows(.mailbox) : []
      let counters = canary == .losesCounters && random.chance(1, in: 10) ? rows(.meta) : []
      image.commit(group) { _ in }
      image.runCommits()
      restore(.mailbox, kept, overwrites: false)
      restore(.meta, counters, overwrites: true)
      if canary == .countsMore, random.chance(1, in: 3) { countMore() }
    }
    onWrite(image)
  }

  /// For a canary: in balance, and wrong.
  private func countMore() {
    guard var row = (try? image.readCounters())?.first else { return }
    for state in [DeliveryState.received, .delivered] {
      row.counters.cells[TopicCounters.cell(state, pushType: nil, priority: .immediate)] += 100
    }
    let key = CountersRecord.key(
      worker: row.worker, topic: row.counters.topic, environment: row.counters.environment)
    var value: [UInt8] = []
    CountersRecord.encode(row.counters, into: &value)
    restore(.meta, [(key, value)], overwrites: true)
  }

  // MARK: What waits for devices

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

  /// For a canary: puts back what a group removed, or changed.
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

/// A group with whom to tell.
final class PendingGroup {
  private var group: WriteGroup?
  let completion: @Sendable (StoreError?) -> Void

  init(_ group: consuming WriteGroup, _ completion: @escaping @Sendable (StoreError?) -> Void) {
    self.group = consume group
    self.completion = completion
  }

  func take() -> WriteGroup? { group.take() }
}

/// The store as one process of the service sees it.
final class SimulatedStore: DurableStore, @unchecked Sendable {
  private let disk: SimulatedDisk
  private var waiting: [PendingGroup] = []
  private(set) var inFlight: [PendingGroup] = []
  private var state = State.open
  /// While it recovers.
  private var isReadable = true

  private enum State {
    case open
    /// After a fault: refuses what is to be written.
    case recovering
    case closing
    case closed
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

  func commit(
    _ group: consuming WriteGroup, completion: @escaping @Sendable (StoreError?) -> Void
  ) {
    switch state {
    case .dead: return
    case .closing, .closed: return completion(.closed)
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
      // Nobody can tell what the disk has kept of the group that failed.
      if keeps { disk.apply(done) }
      for pending in done { pending.completion(error) }
      recoverLater()
      refuseSoon()
    }
    if state == .closing, inFlight.isEmpty, waiting.isEmpty { state = .closed }
  }

  private func recoverLater() {
    isReadable = disk.isReadableMeanwhile()
    disk.timeline.after(disk.noteFault()) { [self] in recover() }
  }

  /// The store is opened anew.
  private func recover() {
    guard state == .recovering else { return }
    if disk.isFull {
      recoverLater()
    } else {
      state = .open
      sync()
    }
  }

  func die() {
    state = .dead
    waiting = []
    inFlight = []
  }

  // MARK: Reading

  private func check() throws(StoreError) {
    switch state {
    case .open, .closing: return
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
