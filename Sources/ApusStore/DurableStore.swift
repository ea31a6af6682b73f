package import ApusModel

/// What reads the store's tables. Reads may come from any thread and see what was committed before.
package protocol StoreReader: AnyObject, Sendable {
  /// The value of `key`, nil if there is none.
  ///
  /// - Parameter once: Whether neither this row nor its neighbours will be asked for again soon: they then take no
  ///   place in the engine's cache.
  func get(_ family: StoreFamily, key: Span<UInt8>, once: Bool) throws(StoreError) -> [UInt8]?

  /// Visits the rows whose keys begin with `prefix` and do not come before `start`, in the order of their keys' bytes,
  /// as of the moment of the call, until `visit` returns false. The spans hold only during the visit. `visit` may use
  /// the store.
  ///
  /// Rows before `start` cost nothing, so that a long run of rows can be read in pages.
  func scan(
    _ family: StoreFamily, prefix: Span<UInt8>, from start: Span<UInt8>,
    _ visit: (_ key: Span<UInt8>, _ value: Span<UInt8>) -> Bool
  ) throws(StoreError)

  /// Visits what waits for each of `devices`, with the device's place among them: in the order of the keys, which
  /// comes cheapest where the devices are in the order of their ids.
  func scanMailbox(
    of devices: [DeviceID],
    _ visit: (_ device: Int, _ key: Span<UInt8>, _ value: Span<UInt8>) -> Void
  ) throws(StoreError)
}

/// The store behind the service: tables of bytes, written in groups.
///
/// Writes go through one commit thread: whatever is submitted while one group is being synced gathers, and is then
/// written as one batch with one sync.
package protocol DurableStore: StoreReader {
  /// An empty group with room from the ones committed before.
  func makeGroup() -> WriteGroup

  /// Hands `group` over to be written.
  ///
  /// `completion` is called once, on the commit thread and in the order of submission. With nil, the group is on disk
  /// and synced. With an error other than `.unavailable`, `.overloaded` and `.closed`, which say that nothing was
  /// written, the fate of the group is open: after a failed sync nobody can tell what the disk kept. An empty group
  /// completes once everything submitted before it has.
  ///
  /// After `close` the completion is called at once on the calling thread with `.closed`.
  func commit(
    _ group: consuming WriteGroup, completion: @escaping @Sendable (StoreError?) -> Void)

  /// Appends the keys of up to `limit` stored notifications that seem to be past their time, and forgets them. A key
  /// may come for a row that was removed or replaced since: the row itself has the last word.
  ///
  /// Every expired notification comes by in time; how soon is the store's own matter, and by whose clock: `nowSeconds`
  /// is for stores that look when they are asked.
  func takeExpired(nowSeconds: Int64, limit: Int, into keys: inout [MailboxKey])

  /// Whether the store takes writes: false from a fault until it has recovered, and once closed. A hint, to refuse
  /// early; the completion has the last word.
  var isAvailable: Bool { get }

  /// Why the store takes no writes; nil while it takes them, and for stores that cannot say.
  var fault: StoreError? { get }

  /// Waits until everything submitted is written and its completions have returned, then closes. Later calls wait as
  /// well and do nothing else. Called from a completion, it returns at once and the closing follows.
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
  /// Commits what `group` holds and leaves an empty group with room in its place.
  package func commit(
    renewing group: inout WriteGroup, completion: @escaping @Sendable (StoreError?) -> Void
  ) {
    var full = makeGroup()
    swap(&full, &group)
    commit(full, completion: completion)
  }
}

extension DurableStore {
  /// Looks through up to `limit` rows of the mailbox from `cursor` on, which moves behind them and back to the
  /// beginning at the end: ``takeExpired(nowSeconds:limit:into:)`` for stores that are small.
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
}
