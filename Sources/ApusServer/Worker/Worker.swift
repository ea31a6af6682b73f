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

/// A loop on a thread of its own, with its connections and its share of the devices.
///
/// Each worker has an acceptor beside it: a worker without devices, on a thread of lower priority. It accepts
/// connections, shakes hands, and serves untrusted peers. Once a peer has proved its identity, the connection moves to
/// the worker. So no untrusted peer ever takes a turn of a loop that serves trusted ones. In a development service
/// there are no acceptors, and workers accept connections themselves.
///
/// Only its own thread uses it; others reach it through its router's inbox and `loop.perform`. Work arrives in
/// callbacks, and everything that came of it leaves in batches when the turn ends (`endTurn`).
@safe final class Worker: @unchecked Sendable {
  let context: WorkerContext
  let connections: ConnectionTable
  let devices: ShardDriver
  let dormant: DormantDevices
  let providers: ProviderContext
  let router: Router
  /// For devices and legacy senders that are served by other nodes.
  let clientLinks: PartLinks<ClientLinks>
  /// Where another node has the channels: keeps this one's copy of them. One worker has it.
  private(set) var channelCopy: ChannelCopy?
  /// Pushes of the administration in progress.
  var testPushes = TestPushTable()
  var groupPushes = GroupPushTable()
  /// In the order in which they were opened.
  private(set) var listeners: [ServiceListener] = []
  private var secondTimer: LoopTimer?
  private var drains: [DrainQueue] = []
  private lazy var dormantSockets = DormantSockets(worker: self)
  /// Whether the log says that memory is scarce.
  private var hasReportedScarcity = false
  /// The wall clock minus the loop's when they were last compared; see `watchClock`.
  private var clockOffsetMilliseconds: Int64?

  /// - Parameter servingIndex: for an acceptor, the index of the worker that continues with its trusted connections.
  init(
    index: Int, of workerCount: Int, servingIndex: Int? = nil, shared: SharedState, trust: Trust,
    loop: EventLoop? = nil, ids: RandomIDs = RandomIDs()
  ) {
    let name = servingIndex.map { "apus-accept-\($0)" } ?? "apus-worker-\(index)"
    context = WorkerContext(
      index: index, workerCount: workerCount, servingIndex: servingIndex ?? index,
      loop: loop ?? EventLoop(name: name), shared: shared, trust: trust, ids: ids)
    connections = ConnectionTable(context)
    let cacheByteCount = shared.configuration.deviceCacheMegabytes * 1024 * 1024 / workerCount
    devices = ShardDriver(context, cacheByteCount: context.isAcceptor ? 0 : cacheByteCount)
    dormant = devices.memory.dormant
    router = Router(context, devices)
    providers = ProviderContext(context, router, devices)
    clientLinks = PartLinks(shared.edges) { [context] edge in
      ClientLinks(context, edge, silenceMilliseconds: Limits.linkSilenceMilliseconds)
    }
    connections.host = self
    devices.host = self
  }

  var loop: EventLoop { context.loop }

  // MARK: Set-up, before the loop runs

  /// Makes the workers of a service known to each other, or to an acceptor.
  func connect(to workers: [Worker]) {
    router.connect(to: workers.map(\.router)) { [unowned self] in handle($0) }
    if !context.isAcceptor {
      context.shared.channels.events.add { [unowned self] event in
        loop.perform { self.devices.subscriptions.learn(event) }
      }
    }
    if let main = context.shared.edges.main, !context.configuration.isEdge, context.index == 0 {
      channelCopy = ChannelCopy(context, main)
    }
    loop.dormantSocketHandler = dormantSockets
    loop.onWake = { [unowned self] in context.readClock() }
    loop.onTurnEnd = { [unowned self] in endTurn() }
    let timer = LoopTimer(loop: loop) { [unowned self] in secondPassed() }
    timer.start(afterMilliseconds: 1000, repeatMilliseconds: 1000)
    secondTimer = timer
  }

  /// Lets the loop run on a thread of its own.
  func start() {
    loop.start()
    let isAcceptor = context.isAcceptor
    loop.perform {
      // A step of a handshake costs hundreds of times what a notification costs.
      if isAcceptor { Scheduling.giveWay(steps: Limits.acceptorNiceness) }
      // Without them the system lets a step go on when the worker has something to do.
      Scheduling.preferShortSlices()
    }
  }

  /// Clients of the listener come from elsewhere: from an acceptor, or another node.
  func know(_ listener: ServiceListener) { listeners.append(listener) }

  /// Opens a socket for each address of `listener`; returns the addresses that were bound.
  func listen(_ listener: ServiceListener, reusePort: Bool) throws -> [SocketAddress] {
    let place = listeners.count
    listeners.append(listener)
    let bound = try listener.addresses.map { address in
      // A probe would wake a device's radio, and the courier has an idle limit of its own.
      let keepAlive: TCPKeepAlive? = listener.kind == .courier ? nil : .standard
      let handler = { [unowned self] (descriptor: Int32, peer: SocketAddress) in
        let listener = listeners[place]
        connections.accept(
          descriptor, peer, context.shared.interception?.listener(listener, at: place) ?? listener)
      }
      let socket =
        if let inherited = context.configuration.inheritedSockets[address] {
          try Listener(loop: loop, sharing: inherited, keepAlive: keepAlive, handler: handler)
        } else {
          try Listener(
            loop: loop, address: address, reusePort: reusePort, keepAlive: keepAlive,
            handler: handler)
        }
      connections.listening.append(socket, of: listener.kind)
      return socket.localAddress ?? address
    }
    // Port 0 has become another one, which devices at edges are told.
    listeners[place] = listeners[place].with(addresses: bound)
    return bound
  }

  // MARK: Messages

  private func handle(_ message: WorkerMessage) {
    switch message {
    case .submit(let notification, let answer):
      if let verdict = router.route(notification, answer) { router.send(verdict) }
    case .verdict(let verdict): finish(verdict)
    case .adopt(let connection): connections.adopt(connection)
    case .expired(let place): devices.expire(place)
    }
  }

  func finish(_ verdict: Verdict) {
    let answer = verdict.answer
    switch answer.kind {
    case .request: providers.finish(verdict)
    case .frame, .linked:
      let entry = DeadlineWheel.Entry(slot: Int32(answer.slot), generation: answer.generation)
      connections.connection(entry)?.driver?.decided(verdict)
    case .testPush: testPushes.close(answer.slot)?(verdict.rejection)
    case .groupPush: finishGroupPush(verdict)
    }
  }

  // MARK: The end of a turn

  /// Everything that the turn brought about leaves: decisions, frames, answers, groups for the store.
  ///
  /// One thing leads to another: a device that is handed over is known to the shard, whose decisions wake connections.
  private func endTurn() {
    context.readClock()
    connections.lookAtDue()
    workOff()
    devices.sealIfDue()
    devices.shareMemoryFigures()
    sendOff()
    // What is for one device has left by now, and waits for no copies.
    if broadcast() {
      workOff()
      sendOff()
    }
    connections.continueHandshakes()
    connections.untrustedWork.turnEnded(connections)
    if context.isAcceptor { Scheduling.yield() }
  }

  private func workOff() {
    repeat {
      devices.work { slot in
        if let connection = connections.connection(at: slot) { connection.markDirty() }
      }
      // The journal has the lines of a notification before its answer leaves.
      devices.gatherLedger()
      for verdict in devices.takeVerdicts() { router.send(verdict) }
      devices.clearVerdicts()
      devices.gatherLedger()
      connections.flushDirty()
    } while devices.hasWork
  }

  /// To other workers and other nodes.
  private func sendOff() {
    router.endTurn()
    for links in clientLinks { links.endTurn() }
    providers.requestLinks?.endTurn()
  }

  /// Turns to some of the devices that a broadcast is due for, and returns whether there are any. The next ones have
  /// their turn after everybody else.
  private func broadcast() -> Bool {
    let subscriptions = devices.subscriptions
    loop.socketsPerTurn = subscriptions.takeActivity() ? Limits.broadcastReadsAtOnce : .max
    guard subscriptions.hasWalks else { return false }
    let passesDormant = subscriptions.fault == .passesDormant
    subscriptions.step { slot in
      if passesDormant, dormant.has(slot) { return }
      (connections.connection(at: slot)?.driver as? CourierConnection)?.broadcastDue()
    }
    if subscriptions.hasWalks { loop.perform {} }
    return true
  }

  // MARK: Each second

  func secondPassed() {
    context.readClock()
    watchClock()
    connections.advanceWheel()
    providers.answerOverdue(nowSeconds: context.nowSeconds)
    context.tlsBuffers.forgetKeys()
    devices.secondPassed()
    connections.reportDescriptors()
    if context.index == 0 {
      handOutExpired()
      context.shared.resends.secondPassed(nowSeconds: context.wallSeconds)
      if context.nowSeconds.isMultiple(of: 60) {
        context.shared.channels.dropExpired(nowSeconds: context.wallSeconds)
      }
      context.log.tellSuppressed(atMilliseconds: loop.nowMilliseconds)
      connections.reportRefused()
      reportScarcity()
    }
    readOnAfterScarcity()
    let awake = devices.shard.sessions.connected - dormant.dormancy.count
    let hasDormantMuch = dormant.freedMuch(awake: awake, nowSeconds: context.nowSeconds)
    if hasDormantMuch || providers.requestPool.hasShrunk() { returnMemory() }
  }

  /// Passes on what the store took for expired, to the devices' owners.
  private func handOutExpired() {
    var places: [MailboxKey] = []
    context.store.takeExpired(
      nowSeconds: context.wallSeconds, limit: Limits.expiredPerSecond, into: &places)
    for place in places {
      router.send(.expired(place), to: context.ownerIndex(of: place.device))
    }
  }

  /// Providers whose notifications wait for a stuck device would not notice that memory is free again.
  private func readOnAfterScarcity() {
    guard devices.takePauses() else { return }
    readOnFromPaused()
  }

  func readOnFromPaused() {
    for connection in connections.awakeConnections where connection.isReadingPaused {
      connection.markDirty()
    }
  }

  /// Says when memory becomes scarce, and when it no longer is.
  private func reportScarcity() {
    let memory = devices.shard.memory
    guard memory.isScarce != hasReportedScarcity else { return }
    hasReportedScarcity = memory.isScarce
    context.log.limited(
      memory.isScarce ? .warning : .info,
      memory.isScarce ? .memoryScarce : .memorySufficient, atMilliseconds: loop.nowMilliseconds
    ) {
      [
        .number("used-megabytes", Int64(memory.usedBytes >> 20)),
        .number("memory-megabytes", Int64(memory.limitBytes >> 20)),
      ]
    }
  }

  // MARK: Trust

  /// Swaps what everybody is judged by.
  ///
  /// - Parameter contexts: What counts from the next handshake on, for each listener in the order of their opening.
  func replace(trust: Trust, contexts: [TLSContext] = []) {
    for (place, context) in zip(listeners.indices, contexts) {
      listeners[place] = listeners[place].with(
        context: context, authorities: trust.authorities(of: listeners[place].kind))
    }
    let previous = context.replace(trust: trust)
    devices.directoryReplaced(previous.directory)
    if context.index == 0, context.configuration.share.isMain {
      context.shared.channels.deleteUnwanted(trust.directory)
    }
    judgeConnections(since: previous)
  }

  /// Ends the connections that `previous` trusted and the current trust does not.
  ///
  /// Checks every provider, because a change to its key, team or topics may affect it. A device depends on its
  /// certificate only, so the many dormant ones are checked only if certificates were revoked or authorities removed.
  private func judgeConnections(since previous: Trust) {
    let trust = context.trust
    let hasLostAuthority = !trust.deviceAuthorities.contain(previous.deviceAuthorities.marks)
    for connection in connections.awakeConnections {
      connection.driver?.trustChanged(hasLostAuthority: hasLostAuthority)
    }
    if hasLostAuthority || trust.directory.revokesMore(than: previous.directory) {
      judgeDormant(hasLostAuthority: hasLostAuthority)
    }
  }

  /// Checks all connections again if the wall clock jumped: certificates expire by the wall clock, but deadlines use a
  /// clock that cannot be set. Called each second.
  private func watchClock() {
    let offset = loop.wallMilliseconds &- Int64(loop.nowMilliseconds)
    defer { clockOffsetMilliseconds = offset }
    guard let last = clockOffsetMilliseconds, abs(offset &- last) > Self.jumpMilliseconds else {
      return
    }
    for connection in connections.awakeConnections {
      connection.driver?.trustChanged(hasLostAuthority: false)
    }
    judgeDormant(hasLostAuthority: false)
  }

  /// NTP slews the clock by less than a thousandth of that per second.
  private static let jumpMilliseconds: Int64 = 1000

  /// The development service's clock was set.
  func clockChanged() {
    secondPassed()
    connections.clockChanged()
  }

  // MARK: The end

  /// Stops accepting devices, and tells those that are here to go. Providers are served as before.
  func beginDeviceDrain() {
    connections.listening.close { $0 == .courier }
    context.shutdown.beginWithDevices(
      count: devices.shard.sessions.connected * context.workerCount)
    for connection in connections.awakeConnections {
      (connection.driver as? LinkedClients)?.beginDrain()
    }
    let awake = connections.awakeConnections.filter { $0.listener.kind == .courier }.map(\.slot)
    drains.append(DrainQueue(devices: awake + dormant.slots, of: connections))
  }

  /// Whether a device is still to be told, or to read it. One that was told and leaves our last words unread may do so
  /// when the process has ended: the system has them.
  var hasDevicesToDrain: Bool {
    dormant.dormancy.count > 0
      || connections.awakeConnections.contains {
        $0.listener.kind == .courier && !$0.isLingering
      }
  }

  /// Stops accepting anybody, and lets every connection end in its protocol's way.
  func beginDrain() {
    context.shutdown.beginWithProviders()
    connections.listening.close { _ in true }
    var gateways: [Int32] = []
    for connection in Array(connections.awakeConnections) where connection.listener.kind != .courier
    {
      if connection.listener.kind == .gateway, connection.isOpen {
        gateways.append(connection.slot)
      } else {
        connection.drain()
      }
    }
    drains.append(DrainQueue(gateways: gateways, of: connections))
  }

  /// Whether anybody is still to be drained.
  var hasConnectionsToDrain: Bool {
    hasDevicesToDrain
      || connections.awakeConnections.contains { $0.listener.kind != .courier && !$0.isComplete }
  }

  /// Cuts what is left; the loop may stop afterwards.
  func finishDrain() {
    connections.abortAll()
    secondTimer?.stop()
  }

  /// Lets go of everything at once, as if the process had been killed: nothing is said, nothing is written. The worker
  /// is of no use afterwards. For simulations; a process that really ends needs no such thing.
  func dismantle() {
    connections.dismantle()
    devices.dismantle()
    providers.dismantle()
    router.dismantle()
    channelCopy?.dismantle()
    for links in clientLinks { links.dismantle() }
    loop.onTurnEnd = nil
    (drains, secondTimer) = ([], nil)
    loop.abandonWork()
  }
}
