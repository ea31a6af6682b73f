import ApusModel
import ApusStore

/// Which devices of unfinished jobs have their notifications, of those that the results do not have: the process was
/// killed before it wrote them.
struct JobTraces {
  /// The places that are done, for each job by its index.
  private(set) var done: [[Int]]

  /// - Parameters:
  ///   - jobs: Each with its devices.
  ///   - journaled: Lines of the ledger that are not in the store yet.
  init(
    of jobs: [(job: PushJob, devices: [DeviceID])], _ store: some StoreReader,
    journaled: [LedgerRecord]
  ) throws(StoreError) {
    done = jobs.map { _ in [] }
    guard let since = jobs.map(\.job.createdMilliseconds).min() else { return }
    var found = done
    func look(at line: LedgerRecord) {
      guard Self.isEnd(line.event) else { return }
      for (index, entry) in jobs.enumerated() {
        if let place = entry.job.place(of: line.event.facts.id) { found[index].append(place) }
      }
    }
    var query = LedgerQuery()
    // The clock may have been set back since.
    query.sinceMilliseconds = since - 3_600_000
    var position = LedgerPosition()
    try store.readLedger(query, from: &position, look)
    journaled.forEach(look)
    for (index, entry) in jobs.enumerated() {
      try store.scanMailbox(of: entry.devices) { _, _, value in
        guard let stored = try? StoredNotification(decoding: value),
          let place = entry.job.place(of: stored.fields.id)
        else { return }
        found[index].append(place)
      }
    }
    done = found
  }

  /// Whether a notification ended for good. One that was only in the memory of a process that was killed did not: its
  /// device may not have it.
  private static func isEnd(_ event: LedgerEvent) -> Bool {
    switch event.state {
    case .discardedStoreFailed: false
    case .discardedNotStored: event.causeCode != LedgerCause.onlyInMemory.rawValue
    default: event.state.isTerminal
    }
  }
}
