import ApusThread
package import ApusAdmin
import ApusCore
package import ApusDirectory
import ApusEnrolment
import ApusJobs
import ApusLog
package import ApusLoop
import ApusModel
package import ApusStore
import ApusTLS
import ApusTrust
import ApusWebhooks
import Glibc
import Synchronization

/// The whole service: one worker a core, a store, and the listeners.
///
/// `start`, `reload` and `stop` are called from one thread, which is none of the workers'.
package final class Service {
  package let configuration: ServerConfiguration
  package private(set) var listeners: [OpenListener] = []
  let log: Log
  let store: any DurableStore
  /// The rows of the other parts of a cluster's devices, for the service of part 0.
  let others: OtherRows?
  let workers: [Worker]
  /// One for each worker; none in a development service.
  private let acceptors: [Worker]
  var everyone: [Worker] { acceptors + workers }
  var running: RunningService {
    RunningService(
      configuration: configuration, workers: workers, acceptors: acceptors, listeners: listeners,
      loader: loader, webhooks: webhooks)
  }
  let tickets: TicketKeyring
  private let contexts: ListenerContexts
  /// Those of the start, or why there are none.
  private var firstContexts: Result<[TLSContext], any Error>
  /// That of the start.
  private let trust: Trust
  private let loader: TrustLoader
  private let identity: DirectoryIdentity
  let watch: TrustWatch
  private let expiries: ExpiryWatch
  private let enrolment: EnrolmentQueue
  private let admin: AdminServer?
  /// Nil in a development service.
  private let webhooks: WebhookService?
  private let jobs: JobService
  private var addressFile: ServiceAddressFile?
  private let audit: AuditLog
  private let labels: LabelRegister
  private let channels: ChannelRegister
  package let channelMetrics: ChannelMetrics
  private var timers: [LoopTimer] = []

  /// Reads the data directory and opens the store. Throws what keeps the service from starting, in words for the
  /// operator.
  ///
  /// - Parameters:
  ///   - store: In place of the directory's; closed with the service.
  ///   - others: The rows of the other parts of a cluster's devices, if there are any.
  package init(
    _ configuration: ServerConfiguration, store ready: (any DurableStore)? = nil,
    others: OtherRows? = nil
  ) throws {
    self.configuration = configuration
    self.others = configuration.share.others.isEmpty ? nil : others
    log = configuration.log
    let dataDirectory = DataDirectory(path: configuration.dataDirectory)
    let audit = AuditLog(path: dataDirectory.auditFile, log: configuration.log)
    let loader = TrustLoader(
      dataDirectory, allowsES512: configuration.allowsES512, audit, log: configuration.log)
    self.loader = loader
    let identity = DirectoryIdentity(dataDirectory.path)
    self.identity = identity
    try Self.migrate(dataDirectory, configuration.log)
    let stamps = dataDirectory.trustStamps()
    let trust = try loader.load()
    self.trust = trust
    let certificates: ServerCertificates
    do throws(DirectoryProblem) {
      certificates = try ServerCertificates(
        configuration.serverCertificates, log: configuration.log)
    } catch {
      throw DirectoryProblem("--server-certificate: \(error)")
    }
    let opening = StoreOpening { try ready ?? Self.openStore(configuration, dataDirectory) }
    tickets = TicketKeyring(
      configuration.isEphemeral && configuration.share.isMain ? nil : dataDirectory,
      isFollower: !configuration.share.isMain, log: configuration.log)
    let contexts = ListenerContexts(
      directory: dataDirectory, configuration: configuration,
      revocations: Revocations(trust.directory), ticketKeys: tickets.keys,
      certificates: certificates)
    self.contexts = contexts
    let firstContexts = Result { try contexts.all(trust) }
    self.firstContexts = firstContexts
    store = try opening.take()
    // Behind the store, whose lock says that no other service uses the directory.
    tickets.begin()
    let numbers = try FirstNumbers(store)
    let order = numbers.order
    let count = configuration.workers > 0 ? configuration.workers : Self.coreCount
    let expiries = ExpiryWatch(log: configuration.log)
    self.expiries = expiries
    let labels = LabelRegister(dataDirectory)
    self.labels = labels
    let enrolment = EnrolmentQueue(
      dataDirectory, configuration.enrolment, days: configuration.deviceDays, labels: labels,
      audit, log: configuration.log)
    self.enrolment = enrolment
    let events = EventSink()
    webhooks = Self.webhooks(configuration, dataDirectory, events, WatchedEvents(expiries, loader))
    jobs = JobService(dataDirectory, log: configuration.log)
    let channels = try Self.channels(store, order, configuration.log)
    self.channels = channels
    configuration.share.others.forEach { channels.subscriptionCounts.expect(.part($0)) }
    let channelMetrics = ChannelMetrics(store, channels, log: configuration.log)
    self.channelMetrics = channelMetrics
    let admin = configuration.admin.map {
      AdminServer(
        $0, dataDirectory, trust, certificates, inherited: configuration.inheritedSockets,
        log: configuration.log)
    }
    self.admin = admin
    let shared = SharedState(
      configuration: configuration, store: store, order: order,
      gate: ConnectionGate(
        capacity: configuration.connectionCapacity ?? ConnectionGate.descriptorCapacity()),
      replays: configuration.isEphemeral
        ? ReplayGuard()
        : ReplayGuard(
          path: dataDirectory.nonceFile, log: configuration.log,
          nowMilliseconds: EventLoop.wallClockMilliseconds()),
      channels: channels, resends: try Self.resends(store), channelMetrics: channelMetrics,
      audit: audit, labels: labels,
      events: events, expiries: expiries,
      enrolment: enrolment, admin: admin,
      edges: Edges(configuration.share, configuration.link?.identity.context),
      interception: configuration.interceptor.map { SharedInterception($0, contexts) })
    let workers = (0..<count).map { Worker(index: $0, of: count, shared: shared, trust: trust) }
    self.workers = workers
    // A development service's listener belongs to the worker that serves it, and nobody attacks it.
    let acceptors =
      configuration.interceptor == nil
      ? (0..<count).map {
        Worker(
          index: count + $0, of: count, servingIndex: $0, shared: shared, trust: trust)
      } : []
    self.acceptors = acceptors
    self.audit = audit
    watch = TrustWatch(
      dataDirectory, identity, expiries, certificates, labels, since: stamps,
      log: configuration.log
    ) {
      loader.reload { trust in
        // First what may fail: all of it counts, or none.
        let renewed = try contexts.all(trust)
        contexts.revocations.replace(trust.directory)
        configuration.relay?.trustReplaced(trust)
        for worker in acceptors + workers {
          worker.loop.perform { worker.replace(trust: trust, contexts: renewed) }
        }
        admin?.trustReplaced(trust)
      }
    } presents: {
      guard let trust = loader.current else { return }
      do {
        let renewed = try contexts.all(trust)
        for worker in acceptors + workers {
          worker.loop.perform { worker.replace(trust: trust, contexts: renewed) }
        }
        admin?.presentCertificate()
      } catch {
        configuration.log(
          .error, "listeners keep their old certificates", .text("reason", "\(error)"))
      }
    }
    configuration.relay?.trustReplaced(trust)
    for worker in everyone { worker.connect(to: workers) }
    do {
      // Before the journals, which may take the disk's last room.
      try numbers.wait()
      let opening = try LedgerOpening(
        store, workers: count, acceptors: acceptors.count,
        journals: Self.journals(configuration, dataDirectory, workers: count),
        hasRelay: !trust.upstreams.isEmpty)
      for worker in everyone { try worker.devices.restore(opening) }
      if configuration.share.isMain { jobs.load(try allRows(), journaled: opening.journaledLines) }
    } catch {
      store.close()
      throw error
    }
  }

  /// Opens the listeners and lets the workers run.
  package func start() throws {
    let first = try firstContexts.get()
    // What is renewed later takes their place.
    firstContexts = .success([])
    for (listener, context) in zip(configuration.openListeners, first) {
      try open(listener, context)
    }
    enrolment.start()
    webhooks?.start()
    try startRelay()
    for worker in everyone { worker.start() }
    if configuration.share.isMain {
      jobs.start(running)
      channels.deleteUnwanted(trust.directory)
    }
    timers = [
      configuration.share.isMain ? channelMetrics.start(on: watch.loop) : followTickets()
    ]
    watch.start()
    do {
      try startAdministration()
    } catch {
      stop()
      throw error
    }
    announceAddresses()
    for listener in listeners {
      for address in listener.addresses {
        log(
          .notice, "listening", .text("listener", listener.kind.rawValue),
          .text("environment", listener.environment.name), .text("address", address.description))
      }
    }
  }

  /// Commands find the listeners by it; without it they use their defaults.
  private func announceAddresses() {
    let data = DataDirectory(path: configuration.dataDirectory)
    let addresses = ServiceAddresses(
      listeners: announcedListeners, names: data.serverNames, process: getpid())
    do throws(FileError) {
      addressFile = try data.announce(addresses)
    } catch {
      log(
        .warning, "commands on this machine will not find the listeners",
        .text("reason", "\(error)"))
    }
  }

  /// Another service of this process announces its addresses from now on, and is administered there.
  package func surrenderAddresses() {
    addressFile = nil
    workers[0].context.shared.edges.surrender()
    admin?.stop()
  }

  private var announcedListeners: [ServiceAddresses.Listener] {
    // Commands send no PROXY header.
    zip(configuration.openListeners, listeners).filter { $0.0.proxies == nil }
      .flatMap { configured, listener in
        let name = configured.serverCertificate.flatMap {
          contexts.certificates.serverName($0, besides: trust.serviceAuthorities)
        }
        return listener.addresses.map {
          ServiceAddresses.Listener(listener.kind, listener.environment, $0, serverName: name)
        }
      }
  }

  private func startAdministration() throws {
    try admin?.start(
      running, store: store, jobs: jobs, expiries: expiries, audit: audit, labels: labels,
      identity: identity, cluster: configuration.cluster, decidingNode: links?.deciding,
      otherParts: otherParts)
  }

  /// The UNIX socket by which it is administered; nil where there is none.
  package var adminSocket: String? { admin?.socket }

  /// Where it is administered over TLS.
  package var adminAddresses: [SocketAddress] { admin?.addresses ?? [] }

  /// Where a browser finds the console, besides those.
  package var consoleURLs: [String] { admin?.consoles ?? [] }

  /// Every acceptor listens on every address; the kernel spreads the connections (SO_REUSEPORT). An inherited socket is
  /// shared by all of them.
  private func open(_ configured: ListenerConfiguration, _ context: TLSContext) throws {
    var listener = ServiceListener(
      kind: configured.kind, environment: configured.environment,
      context: context, authorities: trust.authorities(of: configured.kind),
      addresses: configured.addresses, rules: configured.rules, proxies: configured.proxies,
      ordinal: listeners.count {
        $0.kind == configured.kind && $0.environment == configured.environment
      })
    // Sockets with SO_REUSEPORT would share the address with those of another service of the same user.
    for address in configured.addresses
    where isSharingPorts && !configuration.takesPortsOver
      && configuration.inheritedSockets[address] == nil
    {
      try Listener.requireFree(address)
    }
    let listening = acceptors.isEmpty ? workers : acceptors
    for (index, worker) in listening.enumerated() {
      let bound = try worker.listen(listener, reusePort: isSharingPorts)
      // Port 0 is chosen once; the others follow.
      if index == 0 { listener = listener.with(addresses: bound) }
    }
    if !acceptors.isEmpty { for worker in workers { worker.know(listener) } }
    listeners.append(
      OpenListener(
        kind: listener.kind, environment: listener.environment, addresses: listener.addresses))
  }

  /// Whether several sockets listen on each address.
  private var isSharingPorts: Bool {
    workers.count > 1 || configuration.isEdge || configuration.takesPortsOver
  }

  // MARK: While it runs

  /// Call it after the clock of a development service was set: what is due happens at once instead of within a second,
  /// and connections of providers end that were idle for too long by that clock.
  package func clockChanged() {
    for worker in everyone { worker.ask { $0.clockChanged() } }
  }

  /// New keys for session tickets; those of the previous turns still open old tickets.
  package func rotateTicketKeys() { tickets.rotate() }

  /// The trust data in use, on any thread.
  package var currentTrust: @Sendable () -> Trust {
    { [loader, trust] in loader.current ?? trust }
  }

  /// The service as its administration sees it.
  package var administered: any AdministeredService { running }

  /// Certificates in sight that end within 30 days, the nearest first.
  package func expiringCertificates() -> [ExpiryWatch.Entry] { expiries.entries() }

  /// Stops: devices are told to go, and when to come back; then providers, each open request answered; and everything
  /// is durable. Providers are accepted until the devices are gone.
  ///
  /// - Parameter wait: Waits for so many milliseconds; true where the rest is to be cut short.
  package func stop(wait: (Int64) -> Bool = { sleep(milliseconds: $0) }) {
    log(.notice, configuration.isEdge ? "edge stopping" : "stopping")
    addressFile?.remove()
    addressFile = nil
    admin?.drain()
    jobs.stop()
    watch.stop()
    timers = []
    let start = ContinuousClock.now
    let deadline = start + .seconds(configuration.shutdownSeconds)
    let devicesDeadline = min(deadline, start + .milliseconds(Limits.deviceDrainMilliseconds))
    var isCutShort = false
    func awaitQuiet(until deadline: ContinuousClock.Instant, _ isBusy: (Worker) -> Bool) {
      // Twice, because a device that is being handed over is for a moment on no worker's list.
      var quietRounds = 0
      repeat {
        quietRounds = everyone.filter(isBusy).isEmpty ? quietRounds + 1 : 0
        if isCutShort || quietRounds == 2 { return }
        isCutShort = wait(quietRounds == 0 ? 20 : 5)
      } while ContinuousClock.now < deadline
    }
    for worker in everyone { worker.ask { $0.beginDeviceDrain() } }
    awaitQuiet(until: devicesDeadline) { $0.ask { $0.hasDevicesToDrain } }
    // The acceptors last: while a listener is open, no provider is turned away.
    for worker in workers + acceptors { worker.ask { $0.beginDrain() } }
    awaitQuiet(until: deadline) { $0.ask { $0.hasConnectionsToDrain } }
    for worker in everyone { worker.ask { $0.finishDrain() } }
    if configuration.share.isMain {
      channelMetrics.write(nowSeconds: EventLoop.wallClockMilliseconds() / 1000)
    }
    awaitQuiet(until: ContinuousClock.now + .seconds(5)) { !$0.ask { $0.devices.stop() } }
    // Its answers ask workers, relay and store, so it goes before them.
    admin?.stop()
    configuration.relay?.stop()
    // In a cluster another node may take over once the store is closed.
    webhooks?.finishWriting()
    store.close()
    for worker in everyone {
      worker.loop.stop()
      worker.loop.join()
    }
    enrolment.stop()
    webhooks?.stop()
    log(.notice, "stopped")
  }

  private static func sleep(milliseconds: Int64) -> Bool {
    usleep(UInt32(milliseconds) * 1000)
    return false
  }
}
