package import ApusAdmin
package import ApusCore
package import ApusDirectory
package import ApusLoop
package import ApusModel
package import ApusStore
package import ApusTLS
import ApusTrust

/// The service without threads, listening sockets and files: the workers, acceptors, connections and listeners of
/// ``Service`` on loops that a simulation steps, over a store, credentials and randomness that it provides.
package final class SteppedService {
  private let workers: [Worker]
  /// One for each worker.
  private let acceptors: [Worker]
  private var everyone: [Worker] { acceptors + workers }
  private let listeners: [ServiceListener]
  private let relay: (any UpstreamRelay)?

  /// - Parameters:
  ///   - listeners: Each with what its connections speak in TLS's place.
  ///   - journals: The caller keeps or drops them when the service ends.
  ///   - order: Ready to give numbers.
  ///   - workerLoops: One for each worker.
  ///   - acceptorLoops: One for each worker's acceptor.
  ///   - edgeContext: What links to a node speak; nil for a service that decides about all devices.
  ///   - seed: What the ids of notifications are made from.
  ///   - sharesFeedbackLeases: False breaks the rule that a row of feedback goes to one reader at a time, for
  ///     simulations that are to notice.
  ///   - findsDormant: False breaks the rule that a look-up wakes a dormant device, likewise.
  ///   - recordsUnended: False breaks the rule that what a crash ended has an end in the ledger, likewise.
  ///   - renewsListedTokens: False breaks the rule that a dead token stays dead when a filter lists its app, likewise.
  ///   - sharesResends: False breaks the rule that every worker recognises a resend, likewise.
  ///   - routesAgain: False breaks the rule that what a link had without a verdict goes over the next one, likewise.
  ///   - givesUnhandled: False breaks the rule that the next node gets what no node has dealt with, likewise.
  ///   - broadcastFault: Which rule of broadcasts is broken, likewise.
  package init(
    _ configuration: ServerConfiguration, listeners: [(ListenerConfiguration, TLSContext)],
    trust: Trust,
    store: any DurableStore, journals: LedgerJournals = LedgerJournals(), order: AcceptanceOrder,
    workerLoops: [EventLoop], acceptorLoops: [EventLoop],
    edgeContext: (@Sendable (NodeName) throws -> TLSContext)? = nil, seed: UInt64,
    sharesFeedbackLeases: Bool = true, findsDormant: Bool = true,
    recordsUnended: Bool = true, renewsListedTokens: Bool = true, sharesResends: Bool = true,
    routesAgain: Bool = true, givesUnhandled: Bool = true, broadcastFault: BroadcastFault? = nil
  ) throws {
    relay = configuration.relay
    relay?.trustReplaced(trust)
    self.listeners = listeners.indices.map { index in
      let (listener, context) = listeners[index]
      return ServiceListener(
        kind: listener.kind, environment: listener.environment, context: context,
        authorities: trust.authorities(of: listener.kind), addresses: listener.addresses,
        rules: listener.rules,
        ordinal: listeners[..<index].count {
          $0.0.kind == listener.kind && $0.0.environment == listener.environment
        })
    }
    let channels = try ChannelRegister(
      store, order: order, log: configuration.log,
      nowSeconds: (workerLoops.first?.wallMilliseconds ?? 0) / 1000,
      readsStored: broadcastFault != .readsNoStored)
    configuration.share.others.forEach { channels.subscriptionCounts.expect(.part($0)) }
    let shared = SharedState(
      configuration: configuration, store: store, order: order, channels: channels,
      resends: try ResendRegister(store),
      audit: AuditLog(path: nil),
      expiries: ExpiryWatch(log: configuration.log), edges: Edges(configuration.share, edgeContext))
    let workers = try workerLoops.enumerated().map { index, loop in
      var shared = shared
      if !sharesResends { shared.resends = try ResendRegister(store) }
      if !sharesFeedbackLeases { shared.feedback = SharedFeedbackLeases() }
      return Worker(
        index: index, of: workerLoops.count, shared: shared, trust: trust, loop: loop,
        ids: RandomIDs(seed: seed &+ UInt64(index)))
    }
    let acceptors = acceptorLoops.enumerated().map { served, loop in
      let index = workers.count + served
      return Worker(
        index: index, of: workers.count, servingIndex: served, shared: shared, trust: trust,
        loop: loop,
        ids: RandomIDs(seed: seed &+ UInt64(index)))
    }
    for worker in acceptors + workers {
      worker.connect(to: workers)
      for listener in self.listeners { worker.know(listener) }
      worker.dormant.isFound = findsDormant
      worker.devices.shard.renewsListedTokens = renewsListedTokens
      worker.devices.subscriptions.fault = broadcastFault
      worker.router.routesAgain = routesAgain
      worker.channelCopy?.retriesUnwritten = broadcastFault != .forgetsUnwritten
      for links in worker.clientLinks { links.givesUnhandled = givesUnhandled }
    }
    self.workers = workers
    self.acceptors = acceptors
    do {
      let opening = try LedgerOpening(
        store, workers: workers.count, acceptors: acceptors.count, journals: journals,
        recordsUnended: recordsUnended)
      for worker in everyone { try worker.devices.restore(opening) }
      if let relay { try relay.start(RelayHost(workers, everyone, store: store, relay: relay)) }
    } catch {
      dismantle()
      throw error
    }
  }

  /// Nil for a service that decides about all devices.
  package var links: EdgeLinks? { EdgeLinks(workers) }

  /// A connection was accepted at a listener, by one of the acceptors.
  package func accept(_ descriptor: Int32, from peer: SocketAddress, listener: Int, acceptor: Int) {
    let listener = listeners[listener]
    let acceptor = acceptors[acceptor]
    acceptor.loop.perform { acceptor.connections.accept(descriptor, peer, listener) }
  }

  /// Swaps what everybody is judged by.
  package func replace(trust: Trust) {
    relay?.trustReplaced(trust)
    for worker in everyone { worker.loop.perform { worker.replace(trust: trust) } }
  }

  /// Whether every worker judges by the directory of that generation.
  package func isUnder(generation: UInt64) -> Bool {
    everyone.allSatisfy { $0.context.trust.directory.generation == generation }
  }

  // MARK: The end

  /// The first step of `Service.stop()`.
  package func beginDeviceDrain() {
    for worker in everyone { worker.loop.perform { worker.beginDeviceDrain() } }
  }

  package var hasDevicesToDrain: Bool { everyone.contains { $0.hasDevicesToDrain } }

  /// The second one.
  package func beginDrain() {
    for worker in everyone { worker.loop.perform { worker.beginDrain() } }
  }

  package var hasConnectionsToDrain: Bool { everyone.contains { $0.hasConnectionsToDrain } }

  package var connectionCount: Int { everyone.reduce(0) { $0 + $1.connections.count } }

  /// Cuts what is left.
  package func finishDrain() {
    for worker in everyone { worker.loop.perform { worker.finishDrain() } }
  }

  /// Has everything written that is to be written; true when nothing is left.
  package func stopWriting() -> Bool {
    for worker in everyone { worker.loop.perform { _ = worker.devices.stop() } }
    return isQuiet
  }

  /// Ends it as a kill does, and breaks the references that tie its parts to each other.
  package func dismantle() {
    for worker in everyone { worker.dismantle() }
  }

  // MARK: Looking in

  /// As `Service.topicCounters()`.
  package func topicCounters() -> [TopicCounters] {
    workers.flatMap { $0.devices.counters() }.added()
  }

  /// As `Service.dormancy()`.
  package var dormancy: Dormancy {
    workers.reduce(Dormancy()) { $0 + $1.dormant.dormancy }
  }

  /// How many connections were ended for a limit.
  package func ended(for limit: ConnectionLimit) -> UInt64 {
    everyone.reduce(0) { $0 + $1.context.ended[limit] }
  }

  /// Whether everything that was decided is durable and said. At an edge, whether the node that decides has dealt with
  /// everything that devices have sent.
  package var isQuiet: Bool {
    everyone.allSatisfy {
      $0.devices.isQuiet && !$0.devices.hasWork && $0.clientLinks.allSatisfy(\.isQuiet)
    }
  }

  /// Whether, besides, nothing that failed is to be tried again.
  package var isSettled: Bool {
    isQuiet
      && everyone.allSatisfy {
        !$0.devices.shard.hasRetries && $0.devices.shard.doubt == nil
          && $0.connections.awakeConnections.allSatisfy {
            ($0.driver as? CourierConnection)?.earlyAnswers?.areNew != true
          }
      }
  }

  /// The largest of what has a limit.
  package struct Extent: Sendable {
    package var unsentBytes = 0
    package var openRequests = 0
    package var connections = 0
  }

  package func extent() -> Extent {
    var extent = Extent()
    for worker in everyone {
      extent.openRequests = max(extent.openRequests, worker.providers.openRequests.count)
      extent.connections += worker.connections.count
      extent.unsentBytes = max(extent.unsentBytes, worker.largestUnsent)
    }
    return extent
  }
}

extension Worker {
  /// Bytes that the connection which has most of them waiting has not got rid of.
  fileprivate var largestUnsent: Int {
    connections.awakeConnections.reduce(0) { max($0, $1.unsentByteCount) }
  }
}
