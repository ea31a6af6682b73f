import ApusRandom
import ApusModel

// The faults of a run, and when they happen. A seed chooses the kinds of faults, so that some runs have only one kind,
// and some none.

extension Simulation {
  private enum FaultKind: CaseIterable {
    case device, deviceWish, devicePower, acknowledgements, sender, oldSender
    case network, crash, stop, disk, clock, stall, cluster

    /// The relative frequency. A canary's world has more of the faults that reveal it.
    func weight(_ canary: SimulationCanary?) -> Int {
      switch (self, canary) {
      case (.deviceWish, .clearsUnread), (.deviceWish, .splitsLeases),
        (.deviceWish, .revivesTokens),
        (.disk, .hidesKept), (.disk, .swallowsResends), (.disk, .believesUnknown),
        (.disk, .forgetsUnwritten),
        (.cluster, .writesFenced), (.cluster, .acceptsFenced), (.cluster, .hasTwoOwners),
        (.cluster, .trustsMemory):
        200
      default: weight
      }
    }

    private var weight: Int {
      switch self {
      case .device: 30
      case .deviceWish: 28
      case .devicePower: 8
      case .acknowledgements: 8
      case .sender, .oldSender: 6
      case .crash: 6
      case .disk: 6
      case .cluster: 12
      case .network, .stop, .clock, .stall: 3
      }
    }
  }

  func beginFaults() {
    let isIdeal = random.chance(1, in: 10) && options.canary == nil
    let kinds = FaultKind.allCases.filter { kind in
      if kind == .cluster { return cluster != nil }
      return random.chance(3, in: 4) && !isIdeal
    }
    guard !kinds.isEmpty else { return }
    let wait = random.between(1, 20) * Timeline.second
    planFaults(kinds, wait)
  }

  private func planFaults(_ kinds: [FaultKind], _ wait: UInt64) {
    timeline.after(random.wait(mean: wait)) { [weak self] in
      guard let self, !isCalm else { return }
      var choice = random.below(kinds.reduce(0) { $0 + $1.weight(options.canary) })
      for kind in kinds {
        choice -= kind.weight(options.canary)
        if choice < 0 {
          happen(kind)
          break
        }
      }
      planFaults(kinds, wait)
    }
  }

  private func happen(_ kind: FaultKind) {
    switch kind {
    case .device: random.pick(devices).suffer(random.pick(SimulatedDevice.Trouble.allCases))
    case .deviceWish: wish(random.pick(devices))
    case .devicePower:
      let device = random.pick(devices)
      device.setPower(random.pick(PowerState.allCases))
    case .acknowledgements: changeAcknowledgements(random.pick(devices))
    case .sender: random.pick(senders).line.suffer(resets: random.chance(1, in: 2))
    case .oldSender:
      if !oldSenders.isEmpty {
        random.pick(oldSenders).line.suffer(resets: random.chance(1, in: 2))
      }
    case .network: partition()
    case .crash:
      let losesPower = random.chance(1, in: 2)
      let pause = random.between(1_000, random.chance(1, in: 4) ? 60_000_000 : 2_000_000)
      anyPart(&random).server.crash(
        losesPower: losesPower, downMicroseconds: pause,
        successor: pause > 2_000_000 ? cluster?.makeHost() : nil)
    case .stop:
      let part = anyPart(&random)
      part.server.stop(downMicroseconds: random.between(1_000, 5_000_000))
      cluster?.stops(part)
    case .cluster: cluster?.happen(random.pick(SimulatedCluster.Fault.allCases))
    case .disk: troubleDisk()
    case .clock: moveClock()
    case .stall:
      trace("stall")
      let host = anyPart(&random).server.host
      host.stalledUntil = timeline.now + random.between(100_000, 20_000_000)
      // Until it has renewed its lease, a node answers 503 where it would go by what it remembers.
      let lapse = cluster == nil ? 0 : 2 * Timeline.second
      troubledUntil = max(troubledUntil, host.stalledUntil + lapse)
      for device in devices { device.disturbed() }
    }
  }

  private func wish(_ device: SimulatedDevice) {
    let app = random.below(
      inEffect.hasLateApp ? SimulationCredentials.appCount : SimulationCredentials.lateApp)
    let state: TopicState =
      switch random.below(4) {
      case 0, 1: .enabled
      case 2: .unlisted
      default: random.pick(TopicState.allCases)
      }
    device.setState(state, of: app)
  }

  private func changeAcknowledgements(_ device: SimulatedDevice) {
    trace("acknowledgements", device.index)
    device.refusesPerThousand = random.chance(1, in: 4) ? 300 : 0
    device.acknowledgeMilliseconds =
      switch random.below(6) {
      case 0: nil
      case 1: random.between(1_000, 90_000)
      case 2: random.between(20, 200)
      default: random.between(0, 20)
      }
  }

  private func partition() {
    network.setDown(true)
    for device in devices { device.disturbed() }
    let end = timeline.now + random.between(1, 60) * Timeline.second
    troubledUntil = max(troubledUntil, end + 10 * Timeline.second)
    timeline.at(end) { [weak self] in
      guard let self else { return }
      network.setDown(false)
      for device in devices { device.disturbed() }
    }
  }

  private func troubleDisk() {
    let disk = anyPart(&random).disk
    let usual = disk.syncMicroseconds
    let kind = random.below(4)
    trace("disk trouble", kind)
    switch kind {
    case 0: disk.faultsPerThousand = Int(random.between(10, 500))
    case 1: disk.isBrieflyFull = true
    default: disk.syncMicroseconds = random.between(20_000, 4_000_000)
    }
    let end = timeline.now + random.between(1, 40) * Timeline.second
    diskTroubledUntil = max(diskTroubledUntil, end + 10 * Timeline.second)
    timeline.at(end) {
      disk.faultsPerThousand = 0
      disk.isBrieflyFull = false
      disk.syncMicroseconds = min(usual, 4_000)
    }
  }

  /// Mostly by minutes, sometimes by hours, which is soon corrected.
  private func moveClock() {
    let isLarge = random.chance(1, in: 4)
    let size = Int64(random.between(1, isLarge ? 200_000_000 : 1_200_000))
    trace("clock", Int(size))
    relay.clockMoved()
    clock.set(byMilliseconds: random.chance(1, in: 2) ? size : -size)
    oracle.clockSet()
    broadcasts.oracle.clockMoved()
    relay.clockMoved()
    timeline.after(random.between(1, isLarge ? 60 : 600) * Timeline.second) { [weak self] in
      self?.correctClock()
    }
  }

  private func correctClock() {
    oracle.clockMoved()
    broadcasts.oracle.clockMoved()
    relay.clockMoved()
    clock.correct()
    oracle.clockSet()
    broadcasts.oracle.clockMoved()
    relay.clockMoved()
  }

  /// Ends all faults; the service runs.
  func endFaults() {
    network.healAll()
    for part in parts {
      part.disk.faultsPerThousand = 0
      part.disk.isBrieflyFull = false
      part.disk.syncMicroseconds = 1_000
      part.server.host.stalledUntil = 0
    }
    cluster?.calmDown()
    correctClock()
    for part in parts { part.server.start() }
  }
}
