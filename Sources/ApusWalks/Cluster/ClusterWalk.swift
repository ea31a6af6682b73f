import ApusCore
import ApusModel
import ApusRandom

/// Two to four nodes over one database on a random path: nodes are paused, cut off, killed, drained and started again,
/// connections and answers are lost, the database is slow or away, and each node has a clock of its own. In between are
/// calm times, after which every partition must have an owner that decides.
package struct ClusterWalk {
  /// The law that was broken first; nil if none was.
  package private(set) var brokenLaw: ClusterLaw?
  /// What broke it, and where.
  package private(set) var fault: String?
  package let counts: ClusterCounts

  private static let stormMilliseconds: UInt64 = 30_000
  /// Detection takes five seconds, twice if a node must first wait for the end of its own last incarnation.
  private static let calmMilliseconds: UInt64 = 13_000
  /// The end of a calm time, in which every partition must have been decided about.
  private static let checkMilliseconds: UInt64 = 1500

  /// Runs the walk: the same for the same seed and number of rounds, each of a storm and a calm time.
  package init(seed: UInt64, rounds: Int, canary: ClusterCanary? = nil) {
    let model = ClusterModel(seed: seed, canary: canary)
    for _ in 0..<rounds where model.database.laws.fault == nil {
      Self.storm(model)
      Self.calm(model)
    }
    counts = model.database.laws.counts
    guard let broken = model.database.laws.fault else { return }
    brokenLaw = broken.law
    fault = "seed \(seed), \(model.nowMilliseconds) ms: \(broken.law): \(broken.text)"
  }

  /// Milliseconds from the end of a node's process until its partitions are decided about again, in a quiet cluster;
  /// nil if that takes ten seconds.
  package static func takeOverMilliseconds(seed: UInt64) -> UInt64? {
    let model = ClusterModel(seed: seed, canary: nil)
    model.isCalm = true
    while model.nowMilliseconds < 10_000 + seed % 1000 { model.step() }
    let killed = model.nowMilliseconds
    model.kill(0, untilMilliseconds: .max)
    while model.nowMilliseconds < killed + 10_000 {
      model.step()
      if model.decidable.count == ClusterModel.partitions.count {
        return model.nowMilliseconds - killed
      }
    }
    return nil
  }

  private static func storm(_ model: ClusterModel) {
    let end = model.nowMilliseconds + stormMilliseconds
    var next = model.nowMilliseconds
    while model.nowMilliseconds < end, model.database.laws.fault == nil {
      if model.nowMilliseconds >= next {
        model.disturb()
        // Others must be left alone for a while to see that one is silent.
        let isLong = model.random.chance(1, in: 3)
        next = model.nowMilliseconds + model.random.between(100, isLong ? 9000 : 1500)
      }
      model.step()
    }
  }

  private static func calm(_ model: ClusterModel) {
    let end = model.nowMilliseconds + calmMilliseconds
    model.beginCalm(untilMilliseconds: end)
    var decided: Set<Partition> = []
    while model.nowMilliseconds < end, model.database.laws.fault == nil {
      model.step()
      if model.nowMilliseconds + checkMilliseconds >= end { decided.formUnion(model.decidable) }
    }
    for partition in ClusterModel.partitions where !decided.contains(partition) {
      let owner = model.database.partitions[partition]?.owner
      model.database.laws.broken(
        .ownedAgain, "nobody decides on \(partition.index) of \(owner?.text ?? "nobody")")
    }
    model.database.laws.noteCalm()
    model.isCalm = false
  }
}

extension ClusterModel {
  /// Something goes wrong, or an operator does something.
  fileprivate func disturb() {
    let index = random.below(machines.count)
    let milliseconds =
      random.chance(1, in: 3) ? random.between(3500, 12_000) : random.between(50, 3000)
    let end = nowMilliseconds + milliseconds
    switch random.below(24) {
    case 0..<5:
      machines[index].pausedUntilMilliseconds = end
      freeze(index)
    case 5..<9:
      machines[index].cutUntilMilliseconds = end
      loseConnections(of: index)
    case 9..<12: machines[index].slowUntilMilliseconds = end
    case 12..<14: loseConnections(of: index)
    case 14..<16: kill(index, untilMilliseconds: end)
    case 16: databaseAwayUntilMilliseconds = end
    case 17: machines[index].node?.lease?.release()
    case 18..<20: machines[index].node?.drain()
    default:
      // The last renewals before that are confirmed late.
      let begin = nowMilliseconds + 1000
      machines[index].slowUntilMilliseconds = begin
      machines[index].muteMilliseconds = begin..<begin + random.between(4500, 6500)
    }
  }

  /// The process of a machine ends, and starts again at that time.
  fileprivate func kill(_ index: Int, untilMilliseconds end: UInt64) {
    machines[index].node = nil
    machines[index].startMilliseconds = end
  }

  /// No new trouble, and at least one node runs and is connected. What others suffer ends, or lasts.
  fileprivate func beginCalm(untilMilliseconds end: UInt64) {
    isCalm = true
    databaseAwayUntilMilliseconds = min(databaseAwayUntilMilliseconds, nowMilliseconds)
    let survivor = random.below(machines.count)
    for index in machines.indices {
      machines[index].slowUntilMilliseconds = nowMilliseconds
      machines[index].muteMilliseconds = 0..<0
      let until = index != survivor && random.chance(1, in: 2) ? end : nowMilliseconds
      if index != survivor, random.chance(1, in: 2) {
        machines[index].pausedUntilMilliseconds = end
        freeze(index)
      } else if machines[index].pausedUntilMilliseconds > nowMilliseconds {
        machines[index].pausedUntilMilliseconds = until
        freeze(index)
      }
      if machines[index].cutUntilMilliseconds > nowMilliseconds {
        machines[index].cutUntilMilliseconds = until
      }
      if machines[index].node == nil { machines[index].startMilliseconds = until }
      if index == survivor, machines[index].node?.mustDrain == true { machines[index].node = nil }
    }
  }

  /// The partitions about which some connected node may decide now.
  fileprivate var decidable: [Partition] {
    let indices = machines.indices.filter { !isPaused($0) && !isCut($0) }
    return Self.partitions.filter { partition in
      indices.contains { index in
        machines[index].node?.epoch(of: partition, atMilliseconds: clock(index)) != nil
      }
    }
  }
}
