import ApusAdmin
import ApusCore
import ApusDirectory
import ApusHTTP2
import ApusLog
import ApusLoop
import ApusModel
import ApusStore
import ApusTLS
import ApusTrust
import Glibc

/// A loop on a thread of its own, with its connections and its share of the devices.
///
/// Each worker has an acceptor beside it: a worker without devices, on a thread of lower priority. It accepts
/// connections, shakes hands, and serves peers until they have proved who they are. Then the connection moves to the
/// worker. So no stranger ever takes a turn of a loop that serves trusted peers. In a development service there are no
/// acceptors, and workers accept connections themselves.
///
/// Everything here is touched by that thread alone. Other threads reach it through `inbox` and `loop.perform`.
/// One turn of the loop ends in `endTurn`: work arrives in callbacks, and everything that came of it leaves in batches.
@safe final class Worker: @unchecked Sendable {
  let index: Int
  /// Who goes on with providers' connections once they are trusted; nil of a worker that serves them itself.
  let acceptsFor: Worker?
  let loop: EventLoop
  let configuration: ServerConfiguration
  let log: Log
  let store: any DurableStore
  let order: AcceptanceOrder
  let tlsBuffers = TLSBuffers()
  let requestPool: HTTP2RequestPool
  let ids: RandomIDs
  let receiveBuffer: UnsafeMutableRawBufferPointer
  var scratch: [UInt8] = []
  /// Memory for a device's frames, lent to one connection at a time.
  var frameScratch: [UInt8] = []
  /// Memory for a batch of an old sender's frames, likewise.
  let binaryScratch = BinaryScratch()
  var openRequests: OpenRequests
  /// Pushes of the administration in progress.
  var testPushes = TestPushTable()
  var latencies = Latencies()
  /// What providers and devices are judged by; replaced as a whole.
  private(set) var trust: Trust
  /// Counts the changes of the devices' authorities.
  private(set) var authorityGeneration: UInt32 = 0
  private(set) var sealer: TokenSealer
  private(set) var isDraining = false
  private(set) var isDrainingDevices = false
  /// Milliseconds over which the devices that are told to go come back.
  private var reconnectSpreadMilliseconds: UInt64 = 0
  private var owner: ShardDriver?
  private var peers: [Worker] = []
  private var outboxes: [[WorkerMessage]] = []
  private var inbox: Inbox<WorkerMessage>?
  /// In the order in which they were opened.
  private var listeners: [ServiceListener] = []
  let listeningSockets: ListeningSockets
  /// By slots; nil also where the connection is dormant.
  var connections: [Connection?] = []
  var generations: [UInt32] = []
  var freeSlots: [Int32] = []
  var connectionCounts = ConnectionCounts()
  var ended = EndedConnections()
  /// Connected devices that are rows of a table; see `DormantDevices`.
  let dormant = DormantDevices()
  private lazy var dormantSockets = DormantSockets(worker: self)
  private var dirty: [Connection] = []
  var wheel: DeadlineWheel
  private var secondTimer: LoopTimer?
  private(set) var pauses: PauseQueue?
  private var drains: [DrainQueue] = []
  var untrustedWork: UntrustedWork
  var scarcity = MemoryScarcity()
  var untrusted = UntrustedConnections()
  let commons: Commons
  /// The wall clock minus the worker's when they were last compared; see `watchClock`.
  var clockOffsetMilliseconds: Int64?

  /// Messages waiting for one worker; verdicts that do not fit wait with their sender.
  private static let inboxCapacity = 65_536
  private static let receiveBytes = 65_536

  init(
    index: Int, acceptsFor: Worker? = nil, commons: Commons, trust: Trust,
    loop: EventLoop? = nil, ids: RandomIDs = RandomIDs()
  ) {
    let name = acceptsFor.map { "apus-accept-\($0.index)" } ?? "apus-worker-\(index)"
    let loop = loop ?? EventLoop(name: name)
    self.loop = loop
    self.ids = ids
    clock = commons.configuration.interceptor?.clock
    wallMilliseconds = loop.wallMilliseconds
    self.commons = commons
    self.index = index
    self.acceptsFor = acceptsFor
    configuration = commons.configuration
    log = configuration.log
    store = commons.store
    order = commons.order
    self.trust = trust
    sealer = TokenSealer(trust.sealingKeys)
    openRequests = OpenRequests(worker: UInt16(index))
    requestPool = HTTP2RequestPool(
      keptCount: acceptsFor == nil ? Limits.pooledRequests : Limits.pooledUntrustedRequests)
    listeningSockets = ListeningSockets(loop: loop)
    untrustedWork = UntrustedWork(halfOpenLimit: configuration.halfOpenLimit)
    wheel = DeadlineWheel(nowSeconds: loop.nowMilliseconds / 1000)
    unsafe receiveBuffer = .allocate(byteCount: Self.receiveBytes, alignment: 64)
  }

  deinit { unsafe receiveBuffer.deallocate() }

  var nowSeconds: UInt64 { loop.nowMilliseconds / 1000 }
  private(set) var wallMilliseconds: Int64
  /// Set by a test; nil in a real service.
  private let clock: ServiceClock?
  var wallSeconds: Int64 { wallMilliseconds / 1000 }

  func readClock() {
    wallMilliseconds = loop.wallMilliseconds
    if let clock { wallMilliseconds &+= clock.offsetMilliseconds }
  }

  var shard: ShardDriver {
    guard let owner else { preconditionFailure("the worker was not connected to its peers") }
    return owner
  }

  // MARK: Set-up, before the loop runs

  var isAcceptor: Bool { acceptsFor != nil }

  /// Makes the workers of a service known to each other, or to an acceptor.
  func connect(to workers: [Worker]) {
    peers = workers
    outboxes = workers.map { _ in [] }
    owner = ShardDriver(
      worker: self,
      cacheByteCount: isAcceptor
        ? 0 : configuration.deviceCacheMegabytes * 1024 * 1024 / workers.count)
    inbox = Inbox(loop: loop, capacity: Self.inboxCapacity) { [unowned self] messages in
      if messages.count > 1 { shard.warm(messages) }
      for message in messages { handle(message) }
      messages.removeAll(keepingCapacity: true)
    }
    pauses = PauseQueue(worker: self)
    loop.parkedSocketHandler = dormantSockets
    loop.onWake = { [unowned self] in readClock() }
    loop.onTurnEnd = { [unowned self] in endTurn() }
    let timer = LoopTimer(loop: loop) { [unowned self] in secondPassed() }
    timer.start(afterMilliseconds: 1000, repeatMilliseconds: 1000)
    secondTimer = timer
  }

  /// Lets the loop run on a thread of its own.
  func start() {
    loop.start()
    let isAcceptor = isAcceptor
    loop.perform {
      // A step of a handshake costs hundreds of times what a notification costs.
      if isAcceptor { Scheduling.giveWay(steps: Limits.acceptorNiceness) }
      // Without them the system lets a step go on when the worker has something to do.
      Scheduling.preferShortSlices()
    }
  }

  /// Opens a socket for each address of `listener`; returns the addresses that were bound.
  func listen(_ listener: ServiceListener, reusePort: Bool) throws -> [SocketAddress] {
    let place = listeners.count
    listeners.append(listener)
    return try listener.addresses.map { address in
      // A probe would wake a device's radio, and the courier has an idle limit of its own.
      let keepAlive: TCPKeepAlive? = listener.kind == .courier ? nil : .standard
      let handler = { [unowned self] (descriptor: Int32, peer: SocketAddress) in
        accept(
          descriptor, peer, interception?.listener(listeners[place], at: place) ?? listeners[place])
      }
      let socket =
        if let inherited = configuration.inheritedSockets[address] {
          try Listener(loop: loop, sharing: inherited, keepAlive: keepAlive, handler: handler)
        } else {
          try Listener(
            loop: loop, address: address, reusePort: reusePort, keepAlive: keepAlive,
            handler: handler)
        }
      listeningSockets.append(socket, of: listener.kind)
      return socket.localAddress ?? address
    }
  }

  // MARK: Between workers

  /// The worker that owns a device.
  ///
  /// A multiplication spreads ids that were not drawn at random; the high bits choose.
  func ownerIndex(of device: DeviceID) -> Int {
    let mixed = device.rawValue &* 0x9e37_79b9_7f4a_7c15
    return Int(mixed.multipliedFullWidth(by: UInt64(peers.count)).high)
  }

  /// Whether this worker owns the device.
  func owns(_ device: DeviceID) -> Bool { ownerIndex(of: device) == index }

  /// Hands an admitted notification to the worker that owns its device; `own` is this worker's shard. Returns the
  /// verdict where it is there at once.
  func route(
    _ notification: consuming Notification, _ answer: Answer, own: ShardDriver
  ) -> Verdict? {
    let target = ownerIndex(of: notification.claims.device)
    guard target == index else {
      outboxes[target].append(.submit(notification, answer))
      return nil
    }
    return own.submit(
      notification, answer, nowMilliseconds: wallMilliseconds,
      loopMilliseconds: loop.nowMilliseconds)
  }

  func send(_ message: WorkerMessage, to target: Int) {
    if target == index { handle(message) } else { outboxes[target].append(message) }
  }

  private func handle(_ message: WorkerMessage) {
    switch message {
    case .submit(let notification, let answer):
      guard let verdict = route(notification, answer, own: shard) else { return }
      send(.verdict(verdict), to: Int(answer.worker))
    case .verdict(let verdict): finish(verdict)
    case .adopt(let connection): adopt(connection)
    case .expired(let place): shard.expire(place)
    }
  }

  func finish(_ verdict: Verdict) {
    let answer = verdict.answer
    switch answer.kind {
    case .request:
      guard let open = openRequests.close(answer) else { return }
      open.provider.finish(open, rejection: verdict.rejection)
    case .frame:
      connection(slot: Int32(answer.slot), generation: answer.generation)?.decided(verdict)
    case .testPush: testPushes.close(answer.slot)?(verdict.rejection)
    }
  }

  private func adopt(_ handed: HandedOverConnection) {
    // The sender's turn may have begun after this one: without this, the connection's times would be in the future.
    loop.updateNow()
    let (slot, generation) = takeSlot()
    do {
      let connection = Connection(
        worker: self, listener: handed.listener, slot: slot, generation: generation,
        socket: try Socket(adopting: handed.descriptor, loop: loop), peer: handed.peer,
        tls: handed.tls, acceptedMilliseconds: handed.acceptedMilliseconds, stage: .open)
      connections[Int(slot)] = connection
      connectionCounts[handed.listener.kind, handed.listener.environment] += 1
      connection.resume(handed)
      // It was under way while this worker told its connections to end.
      if handed.listener.kind == .courier ? isDrainingDevices : isDraining { connection.drain() }
      markDirty(connection)
    } catch {
      gate.close(handed.peer, at: handed.listener, holder: handed.holder)
      refuse(slot, handed.peer, error)
    }
  }

  // MARK: The end of a turn

  func markDirty(_ connection: Connection) {
    guard !connection.isDirty else { return }
    connection.isDirty = true
    dirty.append(connection)
  }

  /// Everything that the turn brought about leaves: decisions, frames, answers, groups for the store.
  ///
  /// One thing leads to another: a device that is handed over is known to the shard, whose decisions wake connections.
  private func endTurn() {
    readClock()
    lookAtDue()
    repeat {
      shard.work()
      // The journal has the lines of a notification before its answer leaves.
      shard.gatherLedger()
      for verdict in shard.takeVerdicts() {
        let target = Int(verdict.answer.worker)
        if target == index { finish(verdict) } else { outboxes[target].append(.verdict(verdict)) }
      }
      shard.clearVerdicts()
      shard.gatherLedger()
      while let connection = dirty.popLast() { connection.flush() }
    } while shard.hasWork
    shard.sealIfDue()
    shard.shareMemoryFigures()
    for target in outboxes.indices where !outboxes[target].isEmpty {
      _ = peers[target].inbox?.send(contentsOf: &outboxes[target])
    }
    continueHandshakes()
    untrustedWork.turnEnded(self)
    if isAcceptor { Scheduling.yield() }
  }

  // MARK: Control

  /// Swaps what everybody is judged by.
  ///
  /// - Parameter contexts: What counts from the next handshake on, for each listener in the order of their opening.
  func replace(trust: Trust, contexts: [TLSContext] = []) {
    for (place, context) in zip(listeners.indices, contexts) {
      listeners[place] = listeners[place].with(
        context: context, authorities: trust.authorities(of: listeners[place].kind))
    }
    let previous = self.trust
    if trust.deviceAuthorities != previous.deviceAuthorities { authorityGeneration += 1 }
    self.trust = trust
    sealer = TokenSealer(trust.sealingKeys)
    shard.directoryReplaced(previous.directory)
    judgeConnections(since: previous)
  }

  var workerCount: Int { peers.count }
  var connectionCount: Int { connections.count - freeSlots.count }
  var inboxDepth: Int { inbox?.count ?? 0 }

  // MARK: The end

  /// Stops accepting devices, and tells those that are here to go. Providers are served as before.
  func beginDeviceDrain() {
    isDrainingDevices = true
    listeningSockets.close { $0 == .courier }
    let range = Limits.reconnectSpreadMilliseconds
    let devices = UInt64(shard.shard.sessions.connected * peers.count)
    reconnectSpreadMilliseconds = min(
      max(devices * Limits.reconnectMillisecondsPerDevice, range.lowerBound), range.upperBound)
    let awake = connections.compactMap { $0?.listener.kind == .courier ? $0?.slot : nil }
    drains.append(DrainQueue(devices: awake + dormant.slots, of: self))
  }

  /// When the device of that connection is to come back: each at a time of its own, without order, evenly over all.
  func reconnectMilliseconds(_ slot: Int32) -> UInt32 {
    let place = UInt64(UInt32(bitPattern: slot)) &* UInt64(peers.count) &+ UInt64(index)
    // The golden ratio's multiples, taken modulo 1, leave no gaps and no crowds.
    let fraction = place &* 0x9e37_79b9_7f4a_7c15
    return UInt32(
      clamping: fraction.multipliedFullWidth(by: reconnectSpreadMilliseconds).high)
  }

  /// Whether a device is still to be told, or to read it. One that was told and leaves our last words unread may do so
  /// when the process has ended: the system has them.
  var hasDevicesToDrain: Bool {
    dormant.dormancy.count > 0
      || connections.contains { $0?.listener.kind == .courier && $0?.stage != .lingering }
  }

  /// Stops accepting anybody, and lets every connection end in its protocol's way.
  func beginDrain() {
    isDraining = true
    listeningSockets.close { _ in true }
    var gateways: [Int32] = []
    for connection in connections.compactMap(\.self) where connection.listener.kind != .courier {
      if connection.listener.kind == .gateway, connection.stage == .open {
        gateways.append(connection.slot)
      } else {
        connection.drain()
      }
    }
    drains.append(DrainQueue(gateways: gateways, of: self))
  }

  /// Whether anybody is still to be drained.
  var hasConnectionsToDrain: Bool {
    hasDevicesToDrain || connections.contains { $0.map { $0.listener.kind != .courier } ?? false }
  }

  /// Cuts what is left; the loop may stop afterwards.
  func finishDrain() {
    for slot in connections.indices { connection(at: Int32(slot))?.abort() }
    secondTimer?.stop()
  }

  /// Lets go of everything at once, as if the process had been killed: nothing is said, nothing is written. The worker
  /// is of no use afterwards. For simulations; a process that really ends needs no such thing.
  func dismantle() {
    for slot in connections.indices { connection(at: Int32(slot))?.abort() }
    connections = []
    dirty = []
    openRequests = OpenRequests(worker: UInt16(index))
    (peers, outboxes) = ([], [])
    inbox?.close()
    loop.onTurnEnd = nil
    (owner, pauses, drains, secondTimer) = (nil, nil, [], nil)
    loop.abandonWork()
  }
}
