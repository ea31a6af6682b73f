package import ApusModel
import Glibc

/// The journals of a service's workers: those that an earlier run left, which go on.
package struct LedgerJournals: Sendable {
  /// One journal, and who wrote it.
  struct Journal: Sendable {
    var worker: UInt16
    var memory: JournalMemory
    /// Where it is; nil for one in plain memory.
    var path: String?
  }

  let journals: [Journal]

  /// None: lines that the store does not have are in memory alone.
  package init() { journals = [] }

  /// One for each worker, in memory that a simulation keeps over the ends of its processes.
  package init(_ memories: [JournalMemory]) {
    journals = memories.enumerated().map { Journal(worker: UInt16($0), memory: $1) }
  }

  /// Opens those in the store's folder, and makes those of `workers` that are not there.
  ///
  /// - Parameters:
  ///   - workers: How many need one.
  ///   - byteCount: Bytes of each that is made.
  ///   - onFault: Told why one cannot be used; that worker's lines are in memory alone.
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

  /// As many lines as wait in memory while the store fails.
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

/// What one worker's journal has of an earlier run, beyond what the store has.
package struct JournaledLines: Sendable {
  /// Who wrote it.
  package let worker: UInt16
  /// Without the ends that are undone: see `read`.
  package private(set) var lines: [LedgerRecord]
  /// The position behind all of them.
  private let end: UInt64
  private let journal: LedgerJournals.Journal

  /// Reads all journals.
  ///
  /// A notification that ended goes out of the store with the next group. Where that was not written the store still
  /// has it: it is pending, and ends again. That end is the one that counts.
  ///
  /// - Parameter superseded: The orders of notifications of which the store has a trace.
  package static func read(
    _ journals: LedgerJournals, _ store: some StoreReader, superseded: Set<UInt64>
  ) throws(StoreError) -> [JournaledLines] {
    var found: [JournaledLines] = []
    for journal in journals.journals {
      let durable = try store.journalPosition(of: journal.worker)
      let bytes = journal.memory.copied()
      let content = JournalContent(bytes.span, behind: durable)
      found.append(
        JournaledLines(
          worker: journal.worker, lines: content?.lines ?? [], end: max(durable, content?.end ?? 0),
          journal: journal))
    }
    let pending = try store.pendingOrders(of: found.flatMap(\.lines)).union(superseded)
    for index in found.indices {
      found[index].lines.removeAll {
        $0.event.state.isTerminal && pending.contains($0.event.facts.order)
      }
    }
    return found
  }

  /// Goes on with the journal as worker `worker`'s own.
  package func goOn(_ store: some StoreReader) throws(StoreError) -> LedgerJournal {
    LedgerJournal(journal.memory, worker: worker, behind: try store.journalPosition(of: worker))
  }

  /// The same of a journal in which nothing more is written: `group` has its lines.
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
  /// Which of the notifications that end in `lines` the store still has, by the order of acceptance.
  fileprivate func pendingOrders(of lines: [LedgerRecord]) throws(StoreError) -> Set<UInt64> {
    let ended = lines.filter(\.event.state.isTerminal).map(\.event.facts)
    let devices = Set(ended.map(\.device)).sorted { $0.rawValue < $1.rawValue }
    let orders = Set(ended.map(\.order))
    var pending: Set<UInt64> = []
    try scanMailbox(of: devices) { _, _, value in
      guard let stored = try? StoredNotification(decoding: value),
        orders.contains(stored.fields.acceptanceOrder)
      else { return }
      pending.insert(stored.fields.acceptanceOrder)
    }
    return pending
  }
}
