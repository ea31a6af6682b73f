import ApusModel

/// Gives one partition to another node while both are live, because the other joined or this one drains.
///
/// Nothing fences an owner that gives a partition away. So it first stops deciding about the partition, then waits
/// until it knows the outcome of every write on the lane that the partition is bound to, and only then writes the new
/// owner. If it does not learn the outcome of that, it neither decides nor assumes: once the write can no longer take
/// effect, it reads the partition's row.
///
/// The driver calls ``next(atMilliseconds:)`` until it returns `wait` or `ended`. Times are those of a clock that goes
/// on while the machine is suspended.
package struct HandOver: Sendable, Hashable {
  package enum Action: Sendable, Hashable {
    /// Decide nothing more about the partition's devices.
    case stopDeciding
    /// Wait until the outcomes of all writes on the partition's lane are known, and what follows from them is sent.
    case resolveLane
    /// Change the partition's row, if it still has this node and the epoch, to the receiver and the next epoch.
    case write
    /// Resolve the lane of the write, so that it has taken effect or never will.
    case resolveWrite
    /// Read the partition's row, in a new statement.
    case read
    /// Nothing before that time; nil: before something happens.
    case wait(untilMilliseconds: UInt64?)
    case ended(Outcome)
  }

  package enum Outcome: Sendable, Hashable {
    /// The epoch has ended: the row says who owns the partition.
    case handedOver
    /// This node owns the partition as before: decide about it again, while the lease allows it.
    case kept
  }

  private enum Phase: Sendable {
    case begin, stopping, stopped, resolvingLane, write, writing
    case doubt, resolvingWrite, read, reading
    case handedOver, kept
  }

  package let partition: Partition
  /// Under which this node owns the partition.
  package let epoch: Epoch
  package let receiver: NodeIncarnation
  private var phase = Phase.begin
  /// After a failure, nothing before that time.
  private var dueMilliseconds: UInt64 = 0

  package init(of partition: Partition, epoch: Epoch, to receiver: NodeIncarnation) {
    self.partition = partition
    self.epoch = epoch
    self.receiver = receiver
  }

  /// The row that the hand-over writes.
  package var row: PartitionRow { PartitionRow(owner: receiver, epoch: epoch.next) }

  // MARK: What happened

  /// Nothing is decided about the partition any more.
  package mutating func stopped() { advance(from: .stopping, to: .stopped) }

  /// The outcomes that were asked for are known.
  package mutating func resolved() {
    advance(from: .resolvingLane, to: .write)
    advance(from: .resolvingWrite, to: .read)
  }

  /// The new owner is committed.
  package mutating func written() { advance(from: .writing, to: .handedOver) }

  /// The partition's row is read.
  package mutating func read(_ row: PartitionRow) {
    advance(from: .reading, to: row.epoch == epoch ? .kept : .handedOver)
  }

  /// What was in progress has failed, or its outcome is unknown. Also if the write found another row.
  package mutating func failed(atMilliseconds now: UInt64) {
    dueMilliseconds = now + Limits.clusterRetryMilliseconds
    advance(from: .resolvingLane, to: .stopped)
    advance(from: .writing, to: .doubt)
    advance(from: .resolvingWrite, to: .doubt)
    advance(from: .reading, to: .read)
  }

  /// The own lease has lapsed, or the receiver is no longer live or should not get the partition: ends the hand-over
  /// unless the write was sent.
  package mutating func abort() {
    switch phase {
    case .begin, .stopping, .stopped, .resolvingLane, .write: phase = .kept
    case .writing, .doubt, .resolvingWrite, .read, .reading, .handedOver, .kept: break
    }
  }

  private mutating func advance(from old: Phase, to new: Phase) {
    if phase == old { phase = new }
  }

  // MARK: What to do

  /// What to do next.
  package mutating func next(atMilliseconds now: UInt64) -> Action {
    let isDue = now >= dueMilliseconds
    switch phase {
    case .begin where isDue: return order(.stopDeciding, .stopping)
    case .stopped where isDue: return order(.resolveLane, .resolvingLane)
    case .write where isDue: return order(.write, .writing)
    case .doubt where isDue: return order(.resolveWrite, .resolvingWrite)
    case .read where isDue: return order(.read, .reading)
    case .handedOver: return .ended(.handedOver)
    case .kept: return .ended(.kept)
    default: return .wait(untilMilliseconds: isDue ? nil : dueMilliseconds)
    }
  }

  private mutating func order(_ action: Action, _ new: Phase) -> Action {
    phase = new
    return action
  }
}
