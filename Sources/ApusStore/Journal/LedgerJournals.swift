package import ApusModel
import Glibc

/// The journals of a service's workers: those of an earlier run, which are continued.
package struct LedgerJournals: Sendable {
  /// A journal and the worker that wrote it.
  struct Journal: Sendable {
    var worker: UInt16
    var memory: JournalMemory
    /// Its path; nil for plain memory.
    var path: String?
  }

  let journals: [Journal]

  /// None: lines that the store does not have are only in memory.
  package init() { journals = [] }

  /// One for each worker, in memory that a simulation keeps when its processes end.
  package init(_ memories: [JournalMemory]) {
    journals = memories.enumerated().map { Journal(worker: UInt16($0), memory: $1) }
  }

  /// Opens the journals in the store's folder, and creates missing ones of `workers`.
  ///
  /// - Parameters:
  ///   - workers: The number of workers.
  ///   - byteCount: Bytes of each journal created.
  ///   - onFault: Called if one cannot be used; that worker's lines are then only in memory.
  package init(
    in folder: String, workers: Int, byteCount: Int = Self.byteCount,
    onFault: (JournalFault) -> Void
  ) {
    let needed = Set((0..<workers).map { UInt16($0) })
    journals = needed.union(Self.workers(in: folder)).sorted().compactMap { worker in
      let path = "\(folder)/\(Self.prefix)\(worker)"
      do throws(JournalFault) {
        return Journal(
          worker: worker, memory: try JournalMemory(mapping: path, byteCount: byteCount), path: path
        )
      } catch {
        onFault(error)
        return nil
      }
    }
  }

  /// Room for as many lines as wait in memory while the store fails.
  package static let byteCount = 4 * 1024 * 1024
  private static let prefix = "ledger-journal-"

  /// Whether a file of the store's folder is a journal.
  package static func isJournal(_ name: String) -> Bool { name.hasPrefix(prefix) }

  private static func workers(in folder: String) -> [UInt16] {
    guard let directory = unsafe opendir(folder) else { return [] }
    defer { unsafe closedir(directory) }
    var workers: [UInt16] = []
    while let entry = unsafe readdir(directory) {
      let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) {
        unsafe $0.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
      }
      guard name.hasPrefix(prefix), let worker = UInt16(name.dropFirst(prefix.count)) else {
        continue
      }
      workers.append(worker)
    }
    return workers
  }
}

/// The lines in a worker's journal from an earlier run that the store does not have.
package struct JournaledLines: Sendable {
  /// The worker that wrote it.
  package let worker: UInt16
  /// Without those that are undone: see `read`.
  package private(set) var lines: [LedgerRecord]
  /// The position after all of them.
  private let end: UInt64
  private let journal: LedgerJournals.Journal

  /// Reads all journals.
  ///
  /// A notification that ended is removed from the store with the next group. If that group was not written the store
  /// still has it: it is pending, and ends again. Only that second end counts, unless it came back in between, as one
  /// that was found in the store after its write had failed: then it ended and was received once more.
  ///
  /// The last group may be in the store although it failed. What it replaced has ended with it, even if the process
  /// ended it once more in another way.
  ///
  /// - Parameter superseded: The orders of notifications of which the store has a trace.
  package static func read(
    _ journals: LedgerJournals, _ store: some StoreReader, superseded: Set<UInt64>
  ) throws(StoreError) -> [JournaledLines] {
    var found: [JournaledLines] = []
    for journal in journals.journals {
      let durable = try store.journalPosition(of: journal.worker)
      let content = JournalContent(journal.memory.bytes, behind: durable)
      var lines = content?.lines ?? []
      if !lines.isEmpty { try removeSecondEnds(from: &lines, of: journal.worker, store) }
      found.append(
        JournaledLines(
          worker: journal.worker, lines: lines, end: max(durable, content?.end ?? 0),
          journal: journal))
    }
    let pending = try store.pendingOrders(of: found.flatMap(\.lines)).union(superseded)
    for index in found.indices { found[index].removeUndoneEnds(of: pending) }
    return found
  }

  /// Removes the ends of notifications that are `pending`, except those that a return follows. The store has the
  /// acceptance that precedes them.
  private mutating func removeUndoneEnds(of pending: Set<UInt64>) {
    var undone: Set<Int> = []
    var lastEnds: [UInt64: Int] = [:]
    for (index, line) in lines.enumerated() where line.event.state.opensOrEnds {
      let order = line.event.facts.order
      guard pending.contains(order) else { continue }
      let end = lastEnds.removeValue(forKey: order)
      if line.event.state == .received {
        if end == nil { undone.insert(index) }
      } else {
        lastEnds[order] = index
        if let end { undone.insert(end) }
      }
    }
    undone.formUnion(lastEnds.values)
    guard !undone.isEmpty else { return }
    lines = lines.enumerated().lazy.filter { !undone.contains($0.offset) }.map(\.element)
  }

  /// Removes the ends of notifications that end in the last chunk of the store, unless they came back since.
  private static func removeSecondEnds(
    from lines: inout [LedgerRecord], of worker: UInt16, _ store: some StoreReader
  ) throws(StoreError) {
    var ended: Set<UInt64> = []
    for line in try store.lastLedgerChunk(of: worker) {
      let order = line.event.facts.order
      if line.event.state == .received { ended.remove(order) }
      if line.event.state.isTerminal { ended.insert(order) }
    }
    guard !ended.isEmpty else { return }
    lines.removeAll { line in
      let order = line.event.facts.order
      if line.event.state == .received { ended.remove(order) }
      return line.event.state.isTerminal && ended.contains(order)
    }
  }

  /// Continues the journal as that of worker `worker`.
  package func goOn(_ store: some StoreReader) throws(StoreError) -> LedgerJournal {
    LedgerJournal(journal.memory, worker: worker, behind: try store.journalPosition(of: worker))
  }

  /// The same for a journal that will not be continued: `group` has its lines.
  package func seal(into group: inout WriteGroup) {
    JournalMarker.put(end, worker: worker, into: &group)
  }

  /// Removes its file, once the group was written.
  package func remove() {
    guard let path = journal.path else { return }
    unsafe unlink(path)
  }
}

extension StoreReader {
  /// The orders of acceptance of notifications that begin or end in `lines` and are still in the store.
  fileprivate func pendingOrders(of lines: [LedgerRecord]) throws(StoreError) -> Set<UInt64> {
    try pendingOrders(among: lines.lazy.filter(\.event.state.opensOrEnds).map(\.event.facts))
  }

  /// The orders of acceptance of those of the notifications that are in the store.
  func pendingOrders(
    among notifications: some Sequence<NotificationFacts>
  ) throws(StoreError) -> Set<UInt64> {
    var devices: Set<DeviceID> = []
    var orders: Set<UInt64> = []
    for facts in notifications {
      devices.insert(facts.device)
      orders.insert(facts.order)
    }
    var pending: Set<UInt64> = []
    try scanMailbox(of: devices.sorted { $0.rawValue < $1.rawValue }) { _, _, value in
      guard let stored = try? StoredNotification(decoding: value),
        orders.contains(stored.fields.acceptanceOrder)
      else { return }
      pending.insert(stored.fields.acceptanceOrder)
    }
    return pending
  }
}

extension DeliveryState {
  /// Whether a line with this state changes how many notifications are pending.
  fileprivate var opensOrEnds: Bool { self == .received || isTerminal }
}
