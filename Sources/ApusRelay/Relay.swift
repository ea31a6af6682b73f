import ApusClient
package import ApusCore
package import ApusDirectory
package import ApusLog
package import ApusModel
package import ApusServer
import Synchronization

/// Sends the notifications of apps that have an upstream there, over few connections: apps with the same upstream and
/// the same credential share them.
package final class Relay: UpstreamRelay {
  private struct State {
    var upstreams: [AppID: Upstream] = [:]
    /// The bundle ids of all apps, which upstreams may rename.
    var bundleIDs: [AppID: [UInt8]] = [:]
    var clients: [UpstreamAccount: APNSClient] = [:]
    /// Accounts whose client cannot be made; they are not tried again before the trust data changes.
    var unusable: Set<UpstreamAccount> = []
    var isStopped = false
  }

  private let state = Mutex(State())
  /// Nil before the start, and after the end.
  private let spool = Mutex<Spool?>(nil)
  private let limits: SpoolLimits
  private let log: Log
  private let simulation: RelaySimulation?

  /// - Parameter simulation: What takes the place of threads, chance and clients.
  package init(
    _ limits: SpoolLimits = SpoolLimits(), log: Log, simulation: RelaySimulation? = nil
  ) {
    self.limits = limits
    self.log = log
    self.simulation = simulation
  }

  // MARK: Trust

  package func trustReplaced(_ trust: Trust) {
    let (unused, changed) = state.withLock { state in
      let changed = Set(trust.upstreams.keys).union(state.upstreams.keys).filter {
        trust.upstreams[$0] != state.upstreams[$0]
      }
      state.upstreams = trust.upstreams
      state.bundleIDs = [:]
      for app in trust.directory.apps where trust.upstreams[app.id] != nil {
        state.bundleIDs[app.id] = app.bundleID
      }
      state.unusable = []
      let accounts = Set(trust.upstreams.values.flatMap(UpstreamAccount.all))
      let unused = state.clients.filter { !accounts.contains($0.key) }
      for account in unused.keys { state.clients[account] = nil }
      return (Array(unused.values), changed)
    }
    if !changed.isEmpty { spool.withLock { $0 }?.upstreamsChanged(changed) }
    // What they are sending is still answered.
    for client in unused { Task { await client.close() } }
  }

  // MARK: Notifications

  package func forward(
    _ notification: RelayedNotification, _ done: @escaping @Sendable (UpstreamAnswer) -> Void
  ) {
    if let simulation { return simulation.sending(notification, done) }
    guard let route = route(notification.topic.app, notification.environment) else {
      return done(.unknown(mayHaveArrived: false))
    }
    route.client.relay(notification, to: route.bundleID) { [log] answer in
      if case .rejected(let rejection) = answer, rejection.concernsCredential {
        UpstreamObserver.report(rejection, route.account, log)
      }
      done(answer)
    }
  }

  private struct Route {
    var client: APNSClient
    var account: UpstreamAccount
    /// That of the app upstream.
    var bundleID: [UInt8]
  }

  private func route(_ app: AppID, _ environment: Environment) -> Route? {
    state.withLock { state in
      guard !state.isStopped, let upstream = state.upstreams[app],
        let bundleID = upstream.bundleID.map({ Array($0.utf8) }) ?? state.bundleIDs[app]
      else { return nil }
      let account = UpstreamAccount(upstream, environment)
      guard let client = state.clients[account] ?? makeClient(account, &state) else { return nil }
      return Route(client: client, account: account, bundleID: bundleID)
    }
  }

  /// Made when it is first needed: each has a thread.
  private func makeClient(_ account: UpstreamAccount, _ state: inout State) -> APNSClient? {
    guard !state.unusable.contains(account) else { return nil }
    do throws(ClientConfigurationError) {
      let client = try APNSClient(account.configuration(UpstreamObserver(account, log)))
      state.clients[account] = client
      return client
    } catch {
      state.unusable.insert(account)
      log(
        .error, "upstream cannot be used", .text("upstream", "\(account.endpoint)"),
        .text("reason", "\(error)"))
      return nil
    }
  }

  // MARK: The spool

  package func start(_ host: RelayHost) throws {
    let sending: Spool.Sending = { [unowned self] in forward($0, $1) }
    let made =
      if let simulation {
        try Spool(
          host, limits, log: log, loop: simulation.loop, entropy: simulation.entropy,
          sending: sending)
      } else {
        try Spool(host, limits, log: log, sending: sending)
      }
    spool.withLock { $0 = made }
    made.start()
  }

  package func keep(_ notification: KeptNotification) -> Bool {
    spool.withLock { $0 }?.keep(notification) ?? false
  }

  package func settled(_ refusal: RelayRefusal, isReported: Bool) {
    spool.withLock { $0 }?.settled(refusal, isReported: isReported)
  }

  /// Calls `done` with figures of all apps that have something in the spool, on a thread of the relay.
  package func report(_ done: @escaping @Sendable ([RelayFigures]) -> Void) {
    if let spool = spool.withLock({ $0 }) { spool.report(done) } else { done([]) }
  }

  package func obey(_ command: RelayCommand, _ app: AppID) {
    spool.withLock { $0 }?.obey(command, app)
  }

  package var isFull: Bool { spool.withLock { $0 }?.isFull ?? false }

  // MARK: The end

  package func stop() {
    spool.withLock { $0.take() }?.stop()
    let clients = state.withLock { state in
      state.isStopped = true
      defer { state.clients = [:] }
      return Array(state.clients.values)
    }
    for client in clients { client.closeImmediately() }
  }
}
