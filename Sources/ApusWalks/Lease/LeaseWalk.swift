import ApusRandom

/// Two to four nodes on a random path, with one to three parts of the devices, in one database or several: processes
/// are paused, cut off, killed and drained, connections and answers are lost, databases are slow or away, and each node
/// has a clock of its own. In between are calm times, after which as many parts must be served as there are nodes that
/// can, but those whose own database is still away.
package struct LeaseWalk {
  /// The law that was broken first; nil if none was.
  package private(set) var brokenLaw: LeaseLaw?
  /// What broke it, and where.
  package private(set) var fault: String?
  package let counts: LeaseCounts

  private static let stormMilliseconds: UInt64 = 30_000
  /// Detection takes five seconds, twice if a node must first wait for the end of its own last process. A database that
  /// was left out is tried again within ten.
  private static let calmMilliseconds: UInt64 = 25_000
  /// The end of a calm time, in which parts must be served.
  private static let checkMilliseconds: UInt64 = 1500

  /// Runs the walk: the same for the same seed and number of rounds, each of a storm and a calm time.
  package init(seed: UInt64, rounds: Int, canary: LeaseCanary? = nil) {
    let model = LeaseModel(seed: seed, canary: canary)
    for _ in 0..<rounds where model.database.laws.fault == nil {
      Self.storm(model)
      Self.calm(model)
    }
    counts = model.database.laws.counts
    guard let broken = model.database.laws.fault else { return }
    brokenLaw = broken.law
    fault = "seed \(seed), \(model.nowMilliseconds) ms: \(broken.law): \(broken.text)"
  }

  /// Milliseconds from the end of a node's process until its part is served again, in a quiet cluster of which a node
  /// stands by; nil if that takes ten seconds, or for a cluster without such a node.
  package static func takeOverMilliseconds(seed: UInt64) -> UInt64? {
    let model = LeaseModel(seed: seed, canary: nil)
    guard model.machines.count > model.partCount else { return nil }
    while model.nowMilliseconds < 10_000 + seed % 1000 { model.step() }
    let serving = model.machines.indices.first { model.machines[$0].process?.isServing == true }
    guard let serving else { return nil }
    let killed = model.nowMilliseconds
    model.kill(serving, untilMilliseconds: .max)
    while model.nowMilliseconds < killed + 10_000 {
      model.step()
      if Set(model.decided()).count == model.partCount { return model.nowMilliseconds - killed }
    }
    return nil
  }

  private static func storm(_ model: LeaseModel) {
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

  private static func calm(_ model: LeaseModel) {
    let end = model.nowMilliseconds + calmMilliseconds
    model.isCalm = true
    defer { model.isCalm = false }
    let healthy = model.beginCalm(untilMilliseconds: end)
    var served: Set<Int> = []
    while model.nowMilliseconds < end, model.database.laws.fault == nil {
      model.step()
      if model.nowMilliseconds + checkMilliseconds >= end { served.formUnion(model.decided()) }
    }
    let lost = (0..<model.partCount).filter {
      !served.contains($0) && model.isDatabaseAway(of: $0)
    }
    if served.count < min(healthy, model.partCount - lost.count) {
      model.database.laws.broken(
        .servedAgain,
        "\(healthy) nodes serve \(served.sorted()) of \(model.partCount) parts, and \(lost) are away"
      )
    }
    model.database.laws.counts.calms += 1
  }
}

extension LeaseModel {
  /// Something goes wrong, or an operator does something.
  fileprivate func disturb() {
    let index = random.below(machines.count)
    let milliseconds =
      random.chance(1, in: 3) ? random.between(3500, 12_000) : random.between(50, 3000)
    let end = nowMilliseconds + milliseconds
    switch random.below(20) {
    case 0..<6: machines[index].pausedUntilMilliseconds = end
    case 6..<9: machines[index].cutUntilMilliseconds = end
    case 9..<12: machines[index].slowUntilMilliseconds = end
    case 12..<14: loseConnections(of: index)
    case 14..<17: kill(index, untilMilliseconds: end)
    case 17:
      outages[random.below(partCount)] = Outage(
        untilMilliseconds: end, isRefusing: random.chance(1, in: 2))
    default: machines[index].process?.drain()
    }
  }

  /// No new trouble, and at least one node runs and is connected. What others suffer ends, or lasts.
  ///
  /// - Returns: The number of nodes that can serve.
  fileprivate func beginCalm(untilMilliseconds end: UInt64) -> Int {
    for place in outages.indices {
      let staysAway = place > 0 && random.chance(1, in: 3)
      outages[place].untilMilliseconds =
        staysAway ? end + Self.stepMilliseconds : nowMilliseconds
    }
    let survivor = random.below(machines.count)
    var healthy = 0
    for index in machines.indices {
      machines[index].slowUntilMilliseconds = nowMilliseconds
      machines[index].startMilliseconds = min(machines[index].startMilliseconds, nowMilliseconds)
      let isSick = index != survivor && random.chance(1, in: 3)
      let isPaused = random.chance(1, in: 2)
      machines[index].pausedUntilMilliseconds = isSick && isPaused ? end : nowMilliseconds
      machines[index].cutUntilMilliseconds = isSick && !isPaused ? end : nowMilliseconds
      if !isSick { healthy += 1 }
    }
    return healthy
  }
}
