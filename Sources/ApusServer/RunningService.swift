import ApusAdmin
import ApusCore
import ApusDirectory
import ApusEnrolment
import ApusHTTP2
import ApusJobs
import ApusLoop
import ApusModel
import ApusStore
import ApusThread
import ApusWebhooks

/// A service's workers, as its administration sees them.
struct RunningService: AdministeredService, GroupPushing {
  let configuration: ServerConfiguration
  let workers: [Worker]
  let acceptors: [Worker]
  let listeners: [OpenListener]
  let loader: TrustLoader
  let webhooks: WebhookService?

  var workerCount: Int { workers.count }
  var notificationBytes: Int { workers.first?.context.shared.memory.usedBytes ?? 0 }
  var notificationByteLimit: Int { configuration.memoryMegabytes << 20 }
  var isEphemeral: Bool { configuration.isEphemeral }
  var share: DeviceShare { configuration.share }
  var connectionFigures: ConnectionFigures { workers.first?.context.shared.gate.figures ?? .init() }
  var staleness: TrustStaleness? { loader.staleness }

  func webhookFacts() -> [WebhookService.Facts] { webhooks?.facts() ?? [] }
  var droppedEvents: UInt64 { webhooks?.droppedCount ?? 0 }

  func workerFacts() -> [WorkerFacts] {
    (workers + acceptors).map { $0.ask { $0.facts } }
  }

  func topicCounters() -> [TopicCounters] {
    let counters = workers.flatMap { worker in worker.ask { $0.devices.counters() } }
    guard let relay = configuration.relay else { return counters.added() }
    return (counters + Self.wait { relay.reportCounters($0) }).added()
  }

  func rejections() -> [Reason: UInt64] {
    var total: [Reason: UInt64] = [:]
    for worker in workers + acceptors {
      let counters = worker.ask { $0.devices.ledger.rejections }
      for reason in Reason.allCases { total[reason, default: 0] += counters[reason] }
    }
    return total
  }

  func deadTokenPushes() -> DeadTokenPushes {
    workers.reduce(DeadTokenPushes()) { sum, worker in
      sum + worker.ask { $0.devices.shard.deadTokenPushes }
    }
  }

  func enrolmentRefusals() -> [(reason: String, number: UInt64)] {
    workers.first?.context.shared.enrolment?.refusals() ?? []
  }

  func sightings(of devices: [DeviceID]) -> [DeviceKey: DeviceSighting] {
    var all: [DeviceKey: DeviceSighting] = [:]
    for worker in workers {
      all.merge(worker.ask { $0.sightings(of: devices) }) { left, _ in left }
    }
    return all
  }

  func send(_ push: TestPush, _ done: @escaping @Sendable (TestPushOutcome) -> Void) {
    guard let worker = workers.first else { return }
    worker.loop.perform { worker.send(push, done) }
  }

  func relayFigures() -> [RelayFigures] {
    guard let relay = configuration.relay else { return [] }
    return Self.wait { relay.report($0) }
  }

  /// What `begin` passes to its argument, on whichever thread.
  private static func wait<Value: Sendable>(
    _ begin: (@escaping @Sendable (Value) -> Void) -> Void
  ) -> Value {
    let found = Monitor<Value?>(nil)
    begin { value in found.notify { $0 = value } }
    return found.take()
  }

  func relayConnections() -> [(upstream: String, count: Int)] {
    configuration.relay?.connections() ?? []
  }

  func relay(_ command: RelayCommand, _ app: AppID) { configuration.relay?.obey(command, app) }

  private var register: ChannelRegister? { workers.first?.context.shared.channels }

  func channels() -> [Channel] { register?.all() ?? [] }

  func channels(of app: AppID, in environment: Environment?) -> [Channel] {
    guard let environment else { return register?.channels(of: app) ?? [] }
    return register?.channels(of: app, in: environment) ?? []
  }

  func channel(_ id: ChannelID) -> Channel? { register?.channel(id) }

  func channelCensus() -> ChannelCensus? {
    workers.first?.context.shared.channelMetrics?.census()
  }

  func create(
    _ channel: Channel, _ done: @escaping @Sendable (StoreError?) -> Void
  ) throws(Refusal) {
    try register?.create(channel, completion: done)
  }

  func delete(_ channel: Channel, _ done: @escaping @Sendable (StoreError?) -> Void) {
    register?.delete(channel, completion: done)
  }

  func send(_ batch: GroupBatch, _ done: @escaping @Sendable ([PlacedOutcome]) -> Void) {
    var parts = workers.map { _ in
      GroupBatch(job: batch.job, push: batch.push, mayBeRepeated: batch.mayBeRepeated)
    }
    for (device, place) in zip(batch.devices, batch.places) {
      let owner = workers[0].context.ownerIndex(of: device)
      parts[owner].devices.append(device)
      parts[owner].places.append(place)
    }
    for (worker, part) in zip(workers, parts) where !part.devices.isEmpty {
      worker.loop.perform { worker.send(part, done) }
    }
  }
}

extension Worker {
  /// What the administration is told.
  fileprivate var facts: WorkerFacts {
    var facts = WorkerFacts()
    facts.connections = connections.counts
    facts.ended = context.ended
    facts.refusedForDescriptors = connections.listening.refusedForDescriptors
    facts.pauses = connections.listening.pauses
    facts.halfOpenHandshakes = connections.untrustedWork.halfOpenCount
    facts.openRequests = providers.openRequests.count
    facts.refusedStreams = providers.requestPool.refusedCount
    facts.inboxDepth = router.inboxDepth
    facts.link = router.linkFigures
    facts.sessions = devices.shard.sessions
    facts.dormancy = dormant.dormancy
    facts.stored = devices.shard.ledger.counters.storedCount
    facts.lostLedgerLines = context.lostLedgerLineCount
    facts.latencies = context.latencies
    return facts
  }

  fileprivate func sightings(of devices: [DeviceID]) -> [DeviceKey: DeviceSighting] {
    var seen: [DeviceKey: DeviceSighting] = [:]
    for id in devices where context.owns(id) {
      for environment in Environment.allCases {
        let key = DeviceKey(id: id, environment: environment)
        if let slot = dormant.slot(of: key) {
          seen[key] = sighting(dormant.rows[Int(slot)])
        } else if let device = self.devices.memory.peek(key) {
          seen[key] = sighting(device)
        }
      }
    }
    return seen
  }

  /// A dormant device is not woken to be shown.
  private func sighting(_ row: borrowing DormantRow) -> DeviceSighting {
    DeviceSighting(
      session: .init(address: row.peer.description, power: row.power, inFlight: 0, waiting: 0),
      lastSeenMilliseconds: context.wallMilliseconds)
  }

  private func sighting(_ device: Device) -> DeviceSighting {
    let session = device.session.map { session in
      DeviceSighting.Session(
        address: connections.connection(at: device.connectionSlot)?.peer.description,
        power: session.power,
        inFlight: session.inFlightCount,
        waiting: session.queuedCount + session.heldBackCount)
    }
    return DeviceSighting(
      session: session,
      lastSeenMilliseconds: session == nil ? device.lastSeenMilliseconds : context.wallMilliseconds)
  }
}
