import ApusRandom
import ApusDirectory
import ApusLoop
import ApusCore
import ApusModel
import ApusServer
import ApusStore
import ApusTLS

/// The service on its machine: started, killed, without power, shut down, and restarted on what the disk kept. In a
/// cluster this is the service that decides, which another machine may take over, or an edge.
final class SimulatedServer: SimulatedNode, @unchecked Sendable {
  enum State: Int {
    case down, starting, up, stopping
  }

  private(set) var host: SimulatedHost
  private let network: SimulatedNetwork
  private let disk: SimulatedDisk
  private let trace: SimulationTrace
  private var random: SeededRandom
  private let listeners: [(ListenerConfiguration, TLSContext)]
  private let configuration: ServerConfiguration
  /// The configuration of a process that starts now, including the operator's changes for the running one.
  private var trust: Trust
  private let workers: Int

  private(set) var state = State.down
  private(set) var service: SteppedService?
  private var store: SimulatedStore?
  private var order: AcceptanceOrder?
  private(set) var relay: (any UpstreamRelay)?
  /// Counts processes.
  private(set) var generation = 0
  private(set) var crashCount = 0
  private(set) var powerLossCount = 0
  private(set) var stopCount = 0
  /// How often another machine has gone on.
  private(set) var takeOverCount = 0
  /// Since when it has been serving.
  private(set) var upSince: UInt64 = 0
  /// Called when the far ends of all connections must expect any fault.
  var onEnd: () -> Void = {}
  /// Called when a process starts with the disk's contents.
  var onStart: () -> Void = {}
  /// What links to the node that decides speak; nil for a service that decides.
  var edgeContext: (@Sendable (NodeName) throws -> TLSContext)?
  /// Called when it runs, before the first connection.
  var onServe: () -> Void = {}
  /// Called when a process has ended, with whether power was lost.
  var onGone: (Bool) -> Void = { _ in }
  /// Far smaller than in production, so that blocks end during a run.
  var orderBlockSize: UInt64 = 64
  // For canaries.
  var sharesFeedbackLeases = true
  var ignoresReloads = false
  var findsDormant = true
  var recordsUnended = true
  var renewsListedTokens = true
  var sharesResends = true
  var broadcastFault: BroadcastFault?
  var routesAgain = true
  var givesUnhandled = true
  /// Whether its processes have a lease, which others wait for before they take over.
  var hasLease = false
  /// Makes the relay of each process, given its loop; nil for none.
  var makeRelay: ((EventLoop) -> any UpstreamRelay)?
  /// What is told of the ledger's lines; nil for nobody.
  var ledger: LedgerOracle?
  private var watcher: ProcessWatcher?
  /// Where the next process starts; nil for the same machine.
  private var nextHost: SimulatedHost?
  /// The total of earlier processes.
  private var earlierDormancy = Dormancy()

  init(
    host: SimulatedHost, network: SimulatedNetwork, disk: SimulatedDisk, trace: SimulationTrace,
    listeners: [(ListenerConfiguration, TLSContext)], configuration: ServerConfiguration,
    trust: Trust, workers: Int, random: SeededRandom
  ) {
    self.host = host
    self.network = network
    self.disk = disk
    self.trace = trace
    self.listeners = listeners
    self.configuration = configuration
    self.trust = trust
    self.workers = workers
    self.random = random
  }

  var keepsLedger: Bool { configuration.ledger != .off }

  /// The total of all processes.
  var dormancy: Dormancy { earlierDormancy + (service?.dormancy ?? Dormancy()) }

  // MARK: Start

  func start() {
    guard state == .down else { return }
    state = .starting
    generation += 1
    trace("start", generation)
    if let nextHost = nextHost.take() { host = nextHost }
    if host.isOff {
      host.boot()
      network.serviceMachineIsBack(host)
    }
    onStart()
    let store = disk.open()
    self.store = store
    let generation = generation
    do {
      order = try AcceptanceOrder(store: store, blockSize: orderBlockSize) { [weak self] error in
        guard let self, self.generation == generation, state == .starting else { return }
        if error?.letsServiceRun ?? true { serve() } else { fail() }
      }
    } catch {
      fail()
    }
  }

  /// A process that cannot start ends, and its supervisor starts another.
  private func fail() {
    trace("start failed", generation)
    disk.crash()
    endRelay()
    state = .down
    startLater(microseconds: 1_000_000)
  }

  private func serve() {
    guard let store, let order else { return }
    let workerLoops = (0..<workers).map { EventLoop(name: "worker \($0)", simulated: host) }
    let acceptorLoops = (0..<workers).map { EventLoop(name: "acceptor \($0)", simulated: host) }
    let relayLoops = makeRelay.map { _ in [EventLoop(name: "relay", simulated: host)] } ?? []
    relay = relayLoops.first.flatMap { makeRelay?($0) }
    var configuration = configuration
    configuration.relay = relay
    if let ledger {
      watcher = ProcessWatcher(ledger)
      configuration.ledgerWatcher = watcher
    }
    do {
      service = try SteppedService(
        configuration, listeners: listeners, trust: trust, store: store,
        journals: LedgerJournals(disk.journals(workers)), order: order,
        workerLoops: workerLoops, acceptorLoops: acceptorLoops, edgeContext: edgeContext,
        seed: random.next(),
        sharesFeedbackLeases: sharesFeedbackLeases, findsDormant: findsDormant,
        recordsUnended: recordsUnended, renewsListedTokens: renewsListedTokens,
        sharesResends: sharesResends, routesAgain: routesAgain,
        givesUnhandled: givesUnhandled, broadcastFault: broadcastFault)
    } catch {
      return fail()
    }
    state = .up
    upSince = host.timeline.now
    host.run(workerLoops + acceptorLoops + relayLoops)
    trace("up", generation)
    if hasLease { renew(of: store, generation) }
    onServe()
  }

  /// Each second, while the process runs and nobody has taken over.
  private func renew(of store: SimulatedStore, _ generation: Int) {
    guard generation == self.generation, state != .down else { return }
    if host.stalledUntil <= host.timeline.now {
      if let lease = store.lease {
        lease.renewed(sentAtMilliseconds: host.monotonicMilliseconds)
      } else {
        store.lease = StoreLease(
          takenAtMilliseconds: host.monotonicMilliseconds,
          validMilliseconds: Limits.leaseMilliseconds - Limits.leaseMarginMilliseconds)
      }
    }
    host.timeline.after(seconds: 1) { [weak self] in self?.renew(of: store, generation) }
  }

  private func startLater(microseconds: UInt64) {
    host.timeline.after(microseconds) { [weak self] in self?.start() }
  }

  func accept(_ link: SimulatedLink) -> Bool {
    guard state == .up, let service else { return false }
    host.attach(link)
    service.accept(
      link.descriptor, from: .loopbackIPv4(port: UInt16(truncatingIfNeeded: link.number)),
      listener: link.listener, acceptor: random.below(workers))
    return true
  }

  // MARK: Reloads

  func replace(trust: Trust) {
    guard !ignoresReloads else { return }
    self.trust = trust
    service?.replace(trust: trust)
  }

  /// Whether every worker uses the directory of that generation.
  func isUnder(generation: UInt64) -> Bool {
    ignoresReloads || service?.isUnder(generation: generation) == true
  }

  // MARK: Ends

  /// kill -9 or a power loss; the machine restarts the process.
  ///
  /// - Parameter successor: The machine that takes over; nil if the process starts again where it was.
  func crash(losesPower: Bool, downMicroseconds: UInt64, successor: SimulatedHost? = nil) {
    guard state != .down else { return }
    crashCount += 1
    trace("crash", losesPower ? 1 : 0, generation)
    disk.crash()
    if losesPower || successor != nil { powerLossCount += 1 }
    if let successor {
      moves(to: successor)
    } else if losesPower {
      disk.loseJournals()
    }
    if losesPower {
      host.isOff = true
      network.loseService(on: host)
    } else {
      network.killService(on: host)
    }
    onGone(losesPower || successor != nil)
    letGo()
    startLater(microseconds: downMicroseconds)
  }

  private func moves(to machine: SimulatedHost) {
    takeOverCount += 1
    disk.dropJournals()
    nextHost = machine
    let left = host
    host.timeline.after(random.between(10, 30) * Timeline.second) { [network] in
      guard left.isOff else { return }
      left.boot()
      network.serviceMachineIsBack(left)
    }
  }

  /// Another machine fences the process, which does not know it, and goes on in its place. Returns what is left.
  func takeOver(on machine: SimulatedHost) -> FencedProcess? {
    guard state == .up, let service, let store else { return nil }
    trace("take-over", generation)
    powerLossCount += 1
    disk.fence()
    watcher?.isFenced = true
    let left = FencedProcess(host: host, service: service, store: store)
    onGone(true)
    moves(to: machine)
    earlierDormancy = dormancy
    (self.service, self.store, order, relay) = (nil, nil, nil, nil)
    state = .down
    onEnd()
    start()
    return left
  }

  private func letGo() {
    host.run([])
    // Counted before the end wakes all devices.
    earlierDormancy = dormancy
    service?.dismantle()
    endRelay()
    (service, store, order) = (nil, nil, nil)
    state = .down
    onEnd()
  }

  /// The store takes nothing more, so that nothing is written.
  private func endRelay() {
    relay?.stop()
    relay = nil
  }

  /// The simulation has ended.
  func discard() {
    disk.crash()
    generation += 1
    letGo()
  }

  /// Like `Service.stop()`.
  func stop(downMicroseconds: UInt64) {
    guard state == .up, let service else { return }
    stopCount += 1
    trace("stop", generation)
    state = .stopping
    service.beginDeviceDrain()
    let now = host.timeline.now
    awaitDevices(
      generation, now + UInt64(Limits.deviceDrainMilliseconds) * Timeline.second / 1000,
      now + UInt64(configuration.shutdownSeconds) * Timeline.second, downMicroseconds)
  }

  private func awaitDevices(
    _ generation: Int, _ devicesDeadline: UInt64, _ deadline: UInt64, _ downMicroseconds: UInt64
  ) {
    host.timeline.after(seconds: 0.02) { [weak self] in
      guard let self, generation == self.generation, state == .stopping, let service else { return }
      if host.timeline.now < devicesDeadline, service.hasDevicesToDrain {
        return awaitDevices(generation, devicesDeadline, deadline, downMicroseconds)
      }
      service.beginDrain()
      awaitQuiet(generation, deadline, quietRounds: 0, downMicroseconds)
    }
  }

  private func awaitQuiet(
    _ generation: Int, _ deadline: UInt64, quietRounds: Int, _ downMicroseconds: UInt64
  ) {
    host.timeline.after(seconds: 0.05) { [weak self] in
      guard let self, generation == self.generation, state == .stopping, let service else { return }
      let rounds = service.hasConnectionsToDrain ? 0 : quietRounds + 1
      if host.timeline.now < deadline, rounds < 2 {
        return awaitQuiet(generation, deadline, quietRounds: rounds, downMicroseconds)
      }
      service.finishDrain()
      awaitWritten(generation, deadline + 5 * Timeline.second, downMicroseconds)
    }
  }

  private func awaitWritten(_ generation: Int, _ deadline: UInt64, _ downMicroseconds: UInt64) {
    host.timeline.after(seconds: 0.01) { [weak self] in
      guard let self, generation == self.generation, state == .stopping, let service else { return }
      // Runs on each worker's own thread, where the turn ends with writing.
      let isWritten = service.stopWriting()
      if host.timeline.now < deadline, !isWritten {
        return awaitWritten(generation, deadline, downMicroseconds)
      }
      relay?.stop()
      store?.close()
      awaitClosed(generation, downMicroseconds)
    }
  }

  private func awaitClosed(_ generation: Int, _ downMicroseconds: UInt64) {
    guard store?.pendingCount ?? 0 > 0 else {
      trace("stopped", generation)
      network.killService(on: host)
      onGone(false)
      letGo()
      return startLater(microseconds: downMicroseconds)
    }
    host.timeline.after(seconds: 0.01) { [weak self] in
      guard let self, generation == self.generation, state == .stopping else { return }
      awaitClosed(generation, downMicroseconds)
    }
  }

  /// Whether every loop can do pending work in a turn.
  var isServing: Bool { state == .up && host.stalledUntil <= host.timeline.now }
}

/// A process that another one has taken over from, until it notices.
final class FencedProcess {
  let host: SimulatedHost
  private let service: SteppedService
  private let store: SimulatedStore

  init(host: SimulatedHost, service: SteppedService, store: SimulatedStore) {
    self.host = host
    self.service = service
    self.store = store
  }

  /// The steps of an orderly stop, in the order of their numbers.
  func stop(step: Int) {
    switch step {
    case 0: service.beginDeviceDrain()
    case 1: service.beginDrain()
    default: service.finishDrain()
    }
  }

  func end(_ network: SimulatedNetwork) {
    network.killService(on: host)
    host.run([])
    service.dismantle()
    store.die()
  }
}

/// Tells the oracle what one process writes in the ledger.
private final class ProcessWatcher: LedgerWatcher, @unchecked Sendable {
  private let oracle: LedgerOracle
  var isFenced = false

  init(_ oracle: LedgerOracle) { self.oracle = oracle }

  func noted(_ events: [LedgerEvent], milliseconds: Int64) {
    isFenced ? oracle.notedByFenced(events) : oracle.noted(events, milliseconds: milliseconds)
  }
}
