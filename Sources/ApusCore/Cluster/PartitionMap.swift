import ApusModel

/// Who owns each partition, as a node has last read or written it.
///
/// A node owns a partition exactly while the row names its incarnation. So it serves whatever row it finds with its own
/// incarnation, also after a claim or a hand-over whose outcome it did not learn.
package struct PartitionMap: Sendable {
  private var rows = [PartitionRow?](repeating: nil, count: Limits.partitions)

  package init() {}

  /// Nil for a partition whose row was not read yet.
  package subscript(_ partition: Partition) -> PartitionRow? { rows[partition.index] }

  /// A row was read or written. False, without effect, if the map has the same or a later epoch.
  @discardableResult
  package mutating func note(_ row: PartitionRow, of partition: Partition) -> Bool {
    if let known = rows[partition.index], known.epoch >= row.epoch { return false }
    rows[partition.index] = row
    return true
  }

  /// The partitions whose rows are known.
  package var partitions: some Sequence<Partition> {
    rows.indices.lazy.filter { rows[$0] != nil }.compactMap(Partition.init(index:))
  }
}

/// Drops what comes late over links: a verdict or message under an epoch that has ended.
package struct EpochGuard: Sendable {
  package enum Judgement: Sendable, Hashable {
    case current
    /// The partition has another owner than before: drop what is remembered of its devices, then use the message.
    case newer
    /// Drop the message.
    case stale
  }

  private var epochs = [Epoch](repeating: .none, count: Limits.partitions)

  package init() {}

  /// A message about a device of the partition, or the partition's row, says this epoch.
  package mutating func judge(_ epoch: Epoch, of partition: Partition) -> Judgement {
    let known = epochs[partition.index]
    if epoch == known { return .current }
    guard epoch > known else { return .stale }
    epochs[partition.index] = epoch
    return .newer
  }
}
