import ApusCore
import ApusModel

/// What must hold in a cluster, whatever happens.
package enum ClusterLaw: Sendable, CaseIterable {
  /// An epoch of a partition has one owner, and its successor is the next epoch.
  case oneOwner
  /// No write under an epoch takes effect after the first read under a later one.
  case noLateWrite
  /// A node whose lease has lapsed or is fenced issues no verdict, nor does an owner after its successor's first read;
  /// and a node that may issue verdicts is not fenced.
  case noLateVerdict
  /// While a live node is connected, every partition has an owner that decides, or has one again in time.
  case ownedAgain
}

/// A rule that a walk breaks on purpose, to show that a law notices it.
package enum ClusterCanary: Sendable, CaseIterable {
  /// Claims do not compare the rows with those that were read.
  case claimsWithoutCompare
  /// Rows are read while the fence is in progress.
  case readsBeforeCommit
  /// A partition is handed over while its last write may still take effect.
  case handsOverUnresolved
  /// After a hand-over of unknown outcome, the old owner decides again.
  case assumesNotWritten
  /// A renewal counts from its confirmation.
  case countsFromConfirmation
  /// Verdicts do not ask whether the lease has lapsed.
  case ignoresLapse
  /// The clock of a paused node stands still.
  case stopsClockWhilePaused
  /// A fence does not compare the counter with the one that was seen.
  case fencesWithoutCounter
  /// A fence waits for its locks for as long as a paused node holds them.
  case neverTerminates
  /// Every look counts as one after a reconnect.
  case neverCounts

  /// The law that must notice it.
  package var law: ClusterLaw {
    switch self {
    case .claimsWithoutCompare: .oneOwner
    case .readsBeforeCommit, .handsOverUnresolved: .noLateWrite
    case .assumesNotWritten, .countsFromConfirmation, .ignoresLapse, .stopsClockWhilePaused,
      .fencesWithoutCounter:
      .noLateVerdict
    case .neverTerminates, .neverCounts: .ownedAgain
    }
  }
}

/// What happened to partitions, as far as laws need it.
struct ClusterLaws {
  private struct Term: Hashable {
    let partition: Partition
    let epoch: Epoch

    var text: String { "\(partition.index) under \(epoch.rawValue)" }
  }

  private(set) var fault: (law: ClusterLaw, text: String)?
  private var owners: [Term: NodeIncarnation] = [:]
  /// The latest epoch under which devices of the partition were read.
  private var readEpochs: [Partition: Epoch] = [:]
  private(set) var counts = ClusterCounts()

  mutating func broken(_ law: ClusterLaw, _ text: String) {
    if fault == nil { fault = (law, text) }
  }

  mutating func noteOwner(_ row: PartitionRow, after old: PartitionRow, of partition: Partition) {
    guard let owner = row.owner else { return }
    let term = Term(partition: partition, epoch: row.epoch)
    if let other = owners.updateValue(owner, forKey: term), other != owner {
      broken(.oneOwner, "\(term.text) belongs to \(other.text) and \(owner.text)")
    }
    if row.epoch != old.epoch.next {
      broken(.oneOwner, "\(term.text) follows \(old.epoch.rawValue)")
    }
    counts.owners += 1
  }

  mutating func noteRead(_ partition: Partition, _ epoch: Epoch) {
    readEpochs[partition] = max(readEpochs[partition] ?? .none, epoch)
  }

  mutating func noteWrite(_ partition: Partition, _ epoch: Epoch, by writer: NodeIncarnation) {
    counts.writes += 1
    let term = Term(partition: partition, epoch: epoch)
    if let read = readEpochs[partition], read > epoch {
      broken(.noLateWrite, "\(writer.text) writes \(term.text), read under \(read.rawValue)")
    }
  }

  mutating func noteVerdict(
    _ partition: Partition, _ epoch: Epoch, by node: NodeIncarnation, isOver: Bool
  ) {
    counts.verdicts += 1
    let term = Term(partition: partition, epoch: epoch)
    if isOver { broken(.noLateVerdict, "\(node.text) decides without a lease") }
    if let read = readEpochs[partition], read > epoch {
      broken(.noLateVerdict, "\(node.text) decides on \(term.text), read under \(read.rawValue)")
    }
    if owners[term] != node { broken(.oneOwner, "\(node.text) decides on another's \(term.text)") }
  }

  mutating func noteFence(of node: NodeIncarnation, mayDecide: Bool) {
    counts.fences += 1
    if mayDecide { broken(.noLateVerdict, "\(node.text) is fenced while it may decide") }
  }

  mutating func noteHandOver() { counts.handOvers += 1 }
  mutating func noteCalm() { counts.calms += 1 }
}

extension NodeIncarnation {
  var text: String { "\(node.text)/\(incarnation.rawValue)" }
}

/// How much a walk has seen.
package struct ClusterCounts: Sendable {
  package var owners = 0
  package var handOvers = 0
  package var fences = 0
  package var writes = 0
  package var verdicts = 0
  package var calms = 0

  package init() {}

  package static func += (sum: inout ClusterCounts, other: ClusterCounts) {
    sum.owners += other.owners
    sum.handOvers += other.handOvers
    sum.fences += other.fences
    sum.writes += other.writes
    sum.verdicts += other.verdicts
    sum.calms += other.calms
  }
}
