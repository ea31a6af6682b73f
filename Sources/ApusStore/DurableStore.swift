package import ApusModel
import ApusThread

/// Reads the store's tables. Reads may come from any thread and see everything committed before.
package protocol StoreReader: AnyObject, Sendable {
  /// The value of `key`; nil if there is none.
  ///
  /// - Parameter once: Whether neither this row nor its neighbours will be read again soon: they are then not cached
  ///   by the engine.
  func get(_ family: StoreFamily, key: Span<UInt8>, once: Bool) throws(StoreError) -> [UInt8]?

  /// Visits the rows whose keys begin with `prefix` and do not precede `start`, in the byte order of their keys, as of
  /// the call, until `visit` returns false. The spans are valid only during the visit. `visit` may use the store. A
  /// database shows many rows in parts, each as of its own reading.
  ///
  /// Rows before `start` cost nothing, so a long run of rows can be read in pages.
  func scan(
    _ family: StoreFamily, prefix: Span<UInt8>, from start: Span<UInt8>,
    _ visit: (_ key: Span<UInt8>, _ value: Span<UInt8>) -> Bool
  ) throws(StoreError)

  /// Visits the stored notifications of each of `devices`, with the device's index among them, in the order of the
  /// keys; this is cheapest if the devices are sorted by id.
  func scanMailbox(
    of devices: [DeviceID],
    _ visit: (_ device: Int, _ key: Span<UInt8>, _ value: Span<UInt8>) -> Void
  ) throws(StoreError)
}

/// Reads a store that another process may be writing to.
package protocol StoreFollower: StoreReader {
  /// Reads what was written since.
  func catchUp() throws(StoreError)
}

/// The store of the service: tables of bytes, written in groups.
///
/// Writes go through one commit thread: groups submitted while another is being synced gather, and are then written as
/// one batch with one sync.
package protocol DurableStore: StoreReader {
  /// An empty group, with reused memory if available.
  func makeGroup() -> WriteGroup

  /// Submits `group` to be written.
  ///
  /// `completion` is called once, on the commit thread and in the order of submission. With nil, the group is on disk
  /// and synced. `.unavailable`, `.overloaded` and `.closed` mean that nothing was written; after any other error, it
  /// is unknown whether the group was written, because a failed sync does not tell what the disk kept. An empty group
  /// completes once everything submitted before it has.
  ///
  /// After `close` the completion is called at once on the calling thread with `.closed`.
  func commit(
    _ group: consuming WriteGroup, completion: @escaping @Sendable (StoreError?) -> Void)

  /// Appends the keys of up to `limit` stored notifications that seem to have expired, and forgets them. The row of a
  /// key may have been removed or replaced since: read it before acting.
  ///
  /// Every expired notification is reported eventually; the store decides when, and by which clock: `nowSeconds` is
  /// for stores that search on request.
  func takeExpired(nowSeconds: Int64, limit: Int, into keys: inout [MailboxKey])

  /// Whether the store accepts writes: false from a fault until it has recovered, and once closed. A hint, for early
  /// refusal; the completion is authoritative.
  var isAvailable: Bool { get }

  /// Why the store accepts no writes; nil while it does, and for stores that cannot tell.
  var fault: StoreError? { get }

  /// What says whether another process may use the store by now; nil where none can.
  var lease: StoreLease? { get }

  /// How many groups were written, how fast, and how many failed.
  var commits: CommitFigures { get }

  /// Makes a copy of the store as of now, which is a store of its own, and returns its path. Replaces an earlier copy.
  ///
  /// Throws `.unavailable` while the store takes no writes, and if it is not on disk. Blocks for as long as the engine
  /// needs to write at most `RocksOptions.logBytes`; writes and reads continue.
  func makeCheckpoint() throws(StoreError) -> String

  /// Waits until everything submitted is written and its completions have returned, then closes. Later calls wait as
  /// well and do nothing else. If called from a completion, it returns at once and closes afterwards.
  func close()
}

extension StoreReader {
  package func get(_ family: StoreFamily, key: Span<UInt8>) throws(StoreError) -> [UInt8]? {
    try get(family, key: key, once: false)
  }

  /// Visits all rows whose keys begin with `prefix`.
  package func scan(
    _ family: StoreFamily, prefix: Span<UInt8>,
    _ visit: (_ key: Span<UInt8>, _ value: Span<UInt8>) -> Bool
  ) throws(StoreError) {
    try scan(family, prefix: prefix, from: prefix, visit)
  }

  package func scanMailbox(
    of devices: [DeviceID],
    _ visit: (_ device: Int, _ key: Span<UInt8>, _ value: Span<UInt8>) -> Void
  ) throws(StoreError) {
    for (index, device) in devices.enumerated() {
      let prefix = device.storeKey
      try scan(.mailbox, prefix: prefix.span) { key, value in
        visit(index, key, value)
        return true
      }
    }
  }
}

extension DurableStore {
  /// Commits `group` and replaces it by an empty group with reused memory.
  package func commit(
    renewing group: inout WriteGroup, completion: @escaping @Sendable (StoreError?) -> Void
  ) {
    var full = makeGroup()
    swap(&full, &group)
    commit(full, completion: completion)
  }
}

extension DurableStore {
  /// Commits `group`, waits until it is written, and leaves it empty. Not to be called from a completion.
  package func write(_ group: inout WriteGroup) throws(StoreError) {
    let outcome = Monitor<StoreError??>(nil)
    commit(renewing: &group) { error in outcome.notify { $0 = .some(error) } }
    if let error = outcome.take() { throw error }
  }
}

extension DurableStore {
  /// Examines up to `limit` rows of the mailbox from `cursor` on, which is advanced and reset at the end:
  /// ``takeExpired(nowSeconds:limit:into:)`` for small stores.
  package func findExpired(
    from cursor: inout [UInt8], nowSeconds: Int64, limit: Int, into keys: inout [MailboxKey]
  ) throws(StoreError) {
    var looked = 0
    var next: [UInt8] = []
    let start = cursor
    try scan(.mailbox, prefix: Span(), from: start.span) { key, value in
      guard looked < limit else {
        next = key.copied()
        return false
      }
      looked += 1
      if StoredNotification.isExpired(value, nowSeconds: nowSeconds),
        let place = try? MailboxKey(decoding: key)
      {
        keys.append(place)
      }
      return true
    }
    cursor = next
  }
}

extension DurableStore {
  package var fault: StoreError? { nil }

  package var lease: StoreLease? { nil }

  package func makeCheckpoint() throws(StoreError) -> String { throw .unavailable }
}
