import ApusModel

/// How far a store has counted what must never come twice.
package struct CountedNumbers: Sendable, Hashable {
  /// Of new tokens; see `FirstGeneration`.
  package var firstGeneration: UInt16
  /// Every number of an accepted notification is smaller.
  package var orderCeiling: UInt64

  package init(of store: some StoreReader) throws(StoreError) {
    firstGeneration = try store.readFirstGeneration()
    orderCeiling = try AcceptanceOrder.read(from: store)
  }

  init(firstGeneration: UInt16, orderCeiling: UInt64) {
    (self.firstGeneration, self.orderCeiling) = (firstGeneration, orderCeiling)
  }

  package func merged(with other: CountedNumbers) -> CountedNumbers {
    CountedNumbers(
      firstGeneration: max(firstGeneration, other.firstGeneration),
      orderCeiling: max(orderCeiling, other.orderCeiling))
  }

  /// Numbers that were not used since a backup, whatever happened since: more than a service ever assigns between two
  /// backups.
  ///
  /// - Parameter step: At least 1. Random, because two restores of one backup must not assign the same.
  package func raised(by step: UInt16) -> CountedNumbers {
    let (sum, hasWrapped) = firstGeneration.addingReportingOverflow(step)
    // 0 means no generation.
    return CountedNumbers(
      firstGeneration: hasWrapped ? sum &+ 1 : sum, orderCeiling: orderCeiling + 1 << 40)
  }
}

/// What a restore changes in a store's tables.
package enum RestoredNumbers {
  private static let rowsInGroup = 10_000

  /// Puts `numbers` into the store, and unless `keepsTokens` ends all tokens at `nowMilliseconds`.
  ///
  /// A store does not know which tokens died since its backup, and would accept them again; nor which were issued
  /// since, and would report them dead. What waited for upstreams goes in any case: most of it was sent since, and
  /// another service cannot know that it is sent twice.
  ///
  /// - Returns: The number of tokens that ended.
  package static func put(
    _ numbers: CountedNumbers, into store: any DurableStore, keepsTokens: Bool,
    nowMilliseconds: Int64
  ) throws(StoreError) -> Int {
    var group = store.makeGroup()
    AcceptanceOrder.put(ceiling: numbers.orderCeiling, into: &group)
    let row = FirstGeneration.row(numbers.firstGeneration)
    group.put(.meta, key: row.key.span, value: row.value.span)
    RelayRecord.deleteSpool(in: &group)
    for var row in try store.readCounters() where row.worker == LedgerKey.relay {
      row.counters.endPending(.discardedNotStored)
      put(row.counters, into: &group)
    }
    guard !keepsTokens else {
      try store.write(&group)
      return 0
    }
    var count = 0
    var failure: StoreError?
    try store.scan(.devices, prefix: Span()) { key, value in
      do throws(StoreError) {
        count += try endTokens(
          key, value, first: numbers.firstGeneration, nowMilliseconds, &group)
        if group.count >= rowsInGroup { try store.write(&group) }
      } catch { failure = error }
      return failure == nil
    }
    if let failure { throw failure }
    try store.write(&group)
    return count
  }

  private static func put(_ counters: TopicCounters, into group: inout WriteGroup) {
    let key = CountersRecord.key(
      worker: LedgerKey.relay, topic: counters.topic, environment: counters.environment)
    var value: [UInt8] = []
    CountersRecord.encode(counters, into: &value)
    group.put(.meta, key: key.span, value: value.span)
  }

  private static func endTokens(
    _ key: Span<UInt8>, _ value: Span<UInt8>, first: UInt16, _ nowMilliseconds: Int64,
    _ group: inout WriteGroup
  ) throws(StoreError) -> Int {
    var record: DeviceRecord
    do throws(RecordError) { record = try DeviceRecord(decoding: value) } catch {
      throw .corrupted(path: "devices", detail: "\(error)")
    }
    var count = 0
    for index in record.topics.indices where record.topics[index].generation != 0 {
      let next = record.topics[index].generation &+ 1
      record.topics[index].generation = max(next, first)
      record.topics[index].generationSinceMilliseconds = nowMilliseconds
      count += 1
    }
    guard count > 0 else { return 0 }
    var bytes: [UInt8] = []
    record.encode(into: &bytes)
    group.put(.devices, key: key, value: bytes.span)
    return count
  }
}
