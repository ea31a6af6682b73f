import ApusCore
import ApusHTTP2
import ApusLoop
import ApusModel
import ApusStore
import Synchronization

/// What the administration can see of the service that runs, from threads of its own: the workers are asked, everything
/// else can be read by anybody.
struct ServiceView: Sendable {
  var configuration: ServerConfiguration
  var directory: DataDirectory
  var workers: [Worker]
  var acceptors: [Worker] = []
  var store: any DurableStore
  var expiries: ExpiryWatch
  var audit: AuditLog
  var doors: [OpenDoor]
  var startedMilliseconds: Int64
  let state: AdminState
  let history: ServiceHistory
  /// Whether the trust data in force is older than the files.
  var staleness: @Sendable () -> TrustStaleness? = { nil }
  /// The data directory of the start.
  var identity: DirectoryIdentity

  var version: String { configuration.admin?.version ?? "" }
  var log: Log { configuration.log }
  var trust: Trust { state.trust }
  var nowSeconds: Int64 { EventLoop.wallClockMilliseconds() / 1000 }

  /// What one worker says of itself.
  struct WorkerFacts: Sendable {
    var connections: ConnectionCensus
    /// Requests in progress.
    var openRequests: Int
    /// Streams that were refused because others had the requests.
    var refusedStreams: UInt64
    /// Messages of other workers that wait for it.
    var inboxDepth: Int
    var sessions: SessionCensus
    var dormancy: Dormancy
    /// Notifications that wait in the store.
    var stored: Int64
    var latencies: Latencies

    init(_ worker: Worker) {
      connections = worker.census
      openRequests = worker.openRequests.count
      refusedStreams = worker.requestPool.refusedCount
      inboxDepth = worker.inboxDepth
      sessions = worker.shard.shard.sessions
      dormancy = worker.dormant.dormancy
      stored = worker.shard.shard.counters.storedCount
      latencies = worker.latencies
    }
  }

  /// The workers', and behind them the acceptors'.
  func workerFacts() -> [WorkerFacts] {
    (workers + acceptors).map { $0.ask { WorkerFacts($0) } }
  }

  /// The connections that have proved nothing, and those that were refused.
  var gate: ConnectionGate.Figures? { workers.first?.commons.gate.figures }

  /// What notifications take in memory.
  var notificationBytes: Int { workers.first?.commons.memory.usedBytes ?? 0 }

  func topicCounters() -> [TopicCounters] {
    workers.flatMap { worker in worker.ask { $0.shard.counters() } }.added()
  }

  func deadTokenPushes() -> DeadTokenPushes {
    workers.reduce(DeadTokenPushes()) { sum, worker in
      sum + worker.ask { $0.shard.shard.deadTokenPushes }
    }
  }

  func rejections() -> [(reason: Reason, number: UInt64)] {
    var total: [Reason: UInt64] = [:]
    for worker in workers + acceptors {
      let counters = worker.ask { $0.shard.ledger.rejections }
      for reason in Reason.allCases { total[reason, default: 0] += counters[reason] }
    }
    return Reason.allCases.compactMap { reason in
      total[reason].flatMap { $0 > 0 ? (reason, $0) : nil }
    }
  }

  /// Why the service should not be sent work; nil where it should.
  var unreadiness: String? {
    if state.isDraining { return "the service is shutting down" }
    if let loss = identity.loss { return loss }
    if doors.isEmpty { return "no listener is open" }
    return Self.problem(ofStoreThatTakesWrites: store.isAvailable, fault: store.fault)
  }

  static func problem(ofStoreThatTakesWrites isAvailable: Bool, fault: StoreError?) -> String? {
    guard !isAvailable else { return nil }
    let reason = fault.map { ": \($0)" } ?? ""
    return "the store accepts no writes, so notifications get a 503\(reason)"
  }

  /// What an operator should know first: why the service is not ready, or what is wrong although it is.
  var problem: String? { unreadiness ?? warning }

  /// What is wrong although the service takes work; nil where nothing is.
  var warning: String? {
    staleness().map {
      "trust data is stale since \(Log.timestamp($0.sinceMilliseconds)); "
        + "changes and revocations do not apply: \($0.reason)"
    }
  }

  /// The topic's text; its number where the app was taken out of the directory.
  func text(_ topic: TopicKey, _ trust: Trust) -> String {
    guard let bytes = trust.directory.topicText(topic) else {
      return "app \(topic.app.rawValue)\(topic.suffix.text)"
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}

/// What changes while the service runs.
final class AdminState: Sendable {
  private struct State {
    var trust: Trust
    var isDraining = false
  }

  private let state: Mutex<State>
  private let changes = Mutex(())
  /// Those that may be sent yet.
  let testPushes = Mutex(RateLimit.Bucket())

  /// Does `body` while nobody else changes anything by way of the administration.
  func changing<Result, Failure: Error>(
    _ body: () throws(Failure) -> sending Result
  ) throws(Failure) -> sending Result {
    try changes.withLock { _ throws(Failure) in try body() }
  }

  init(_ trust: Trust) { state = Mutex(State(trust: trust)) }

  var trust: Trust {
    get { state.withLock { $0.trust } }
    set { state.withLock { $0.trust = newValue } }
  }

  var isDraining: Bool { state.withLock { $0.isDraining } }

  func drain() { state.withLock { $0.isDraining = true } }
}

/// How many connections a worker has of each kind and environment.
struct ConnectionCensus: Sendable {
  private var byDoor = [Int](repeating: 0, count: Self.kinds.count * Environment.allCases.count)

  static let kinds: [DoorConfiguration.Kind] = [.provider, .courier, .gateway, .feedback]

  /// The number of a listener's kind.
  static func row(_ kind: DoorConfiguration.Kind) -> Int {
    switch kind {
    case .provider: 0
    case .courier: 1
    case .gateway: 2
    case .feedback: 3
    }
  }

  /// That of its kind and environment.
  private static func place(_ kind: DoorConfiguration.Kind, _ environment: Environment) -> Int {
    row(kind) * 2 + Int(environment.rawValue)
  }

  subscript(kind: DoorConfiguration.Kind, environment: Environment) -> Int {
    byDoor[Self.place(kind, environment)]
  }

  mutating func add(_ door: Door) { byDoor[Self.place(door.kind, door.environment)] += 1 }
  mutating func remove(_ door: Door) { byDoor[Self.place(door.kind, door.environment)] -= 1 }

  static func + (left: ConnectionCensus, right: ConnectionCensus) -> ConnectionCensus {
    var sum = left
    for place in sum.byDoor.indices { sum.byDoor[place] += right.byDoor[place] }
    return sum
  }
}
