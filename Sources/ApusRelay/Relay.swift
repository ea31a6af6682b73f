import ApusClient
package import ApusCore
package import ApusDirectory
package import ApusLog
import ApusLoop
package import ApusModel
package import ApusServer
import ApusStore
import Synchronization

/// Sends the notifications of apps that have an upstream there, over few connections: apps with the same upstream and
/// the same credential share them.
package final class Relay: UpstreamRelay {
  private struct State {
    var upstreams: [AppID: Upstream] = [:]
    /// The bundle ids of all apps, which upstreams may rename.
    var bundleIDs: [AppID: [UInt8]] = [:]
    var clients: [UpstreamAccount: Client] = [:]
    /// What was found since the trust data changed: a look for the client compares the whole credential.
    var routes: [RelayTopic: Route] = [:]
    /// Accounts whose client cannot be made; they are not tried again before the trust data changes.
    var unusable: Set<UpstreamAccount> = []
    var isStopped = false
  }

  private struct Client {
    var client: APNSClient
    var observer: UpstreamObserver
  }

  /// Between start and end.
  private struct Running {
    var host: RelayHost
    /// Made when it is first needed: it has a thread.
    var spool: Spool?
  }

  private let state = Mutex(State())
  private let running = Mutex<Running?>(nil)
  private let answers = AnswerRegister()
  private let quotas = RelayQuotas()
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
    quotas.replace(trust, nowMilliseconds: EventLoop.monotonicMilliseconds())
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
      state.routes = [:]
      let accounts = Set(trust.upstreams.values.flatMap(UpstreamAccount.all))
      let unused = state.clients.filter { !accounts.contains($0.key) }
      for account in unused.keys { state.clients[account] = nil }
      return (Array(unused.values), changed)
    }
    if !changed.isEmpty {
      do {
        try openSpool()
        spool?.upstreamsChanged(changed)
      } catch {
        log(.error, "the relay cannot keep notifications", .text("reason", "\(error)"))
      }
    }
    // What they are sending is still answered.
    for unused in unused { Task { await unused.client.close() } }
  }

  // MARK: Notifications

  package func forward(
    _ notification: RelayedNotification, _ done: @escaping @Sendable (UpstreamAnswer) -> Void
  ) {
    if let simulation { return simulation.sending(notification, done) }
    let topic = RelayTopic(notification)
    guard let route = route(topic) else {
      return done(.unknown(mayHaveArrived: false))
    }
    let began = EventLoop.monotonicMilliseconds()
    route.client.relay(notification, to: route.bundleID) { [weak self] answer in
      self?.note(
        answer, topic, route.account,
        afterMilliseconds: EventLoop.monotonicMilliseconds() - began)
      done(answer)
    }
  }

  /// Counts what an upstream answered, and tells the operator what concerns him.
  func note(
    _ answer: UpstreamAnswer, _ topic: RelayTopic, _ account: UpstreamAccount,
    afterMilliseconds passed: UInt64
  ) {
    let isNew = answers.add(answer, topic, afterMilliseconds: passed)
    guard case .rejected(let rejection) = answer else { return }
    if isNew { reportFailing(topic, rejection) }
    if rejection.concernsCredential { UpstreamObserver.report(rejection, account, log) }
  }

  private func reportFailing(_ topic: RelayTopic, _ rejection: UpstreamRejection) {
    running.withLock { $0?.host }?.failing(
      topic.app, topic.environment, "\(rejection.status) \(rejection.reason)")
  }

  /// Where the notifications of a topic go.
  struct Route {
    var client: APNSClient
    var account: UpstreamAccount
    /// That of the app upstream.
    var bundleID: [UInt8]
  }

  /// Where they go now; nil if the app has no upstream that can be used.
  func route(_ topic: RelayTopic) -> Route? {
    state.withLock { state in
      if let route = state.routes[topic] { return route }
      guard !state.isStopped, let upstream = state.upstreams[topic.app],
        let bundleID = upstream.bundleID.map({ Array($0.utf8) }) ?? state.bundleIDs[topic.app]
      else { return nil }
      let account = UpstreamAccount(upstream, topic.environment)
      guard let client = state.clients[account]?.client ?? makeClient(account, &state) else {
        return nil
      }
      let route = Route(client: client, account: account, bundleID: bundleID)
      state.routes[topic] = route
      return route
    }
  }

  /// Made when it is first needed: each has a thread.
  private func makeClient(_ account: UpstreamAccount, _ state: inout State) -> APNSClient? {
    guard !state.unusable.contains(account) else { return nil }
    do throws(ClientConfigurationError) {
      let observer = UpstreamObserver(account, log)
      let client = try APNSClient(account.configuration(observer))
      state.clients[account] = Client(client: client, observer: observer)
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
    running.withLock { $0 = Running(host: host) }
    let hasUpstreams = state.withLock { !$0.upstreams.isEmpty }
    if try hasUpstreams || SpoolRows.isUsed(host.store) { try openSpool() }
  }

  private func openSpool() throws {
    try running.withLock { running in
      guard let host = running?.host, running?.spool == nil else { return }
      let spool = try makeSpool(host)
      running?.spool = spool
      spool.start()
    }
  }

  private func makeSpool(_ host: RelayHost) throws(StoreError) -> Spool {
    try Spool(host, limits, log: log, of: self, simulation: simulation)
  }

  private var spool: Spool? { running.withLock { $0?.spool } }

  package func admit(_ app: AppID) -> Int {
    quotas.admit(app, nowMilliseconds: EventLoop.monotonicMilliseconds())
  }

  package func charge(_ app: AppID) -> Int {
    quotas.charge(app, nowMilliseconds: EventLoop.monotonicMilliseconds())
  }

  package func keep(_ notification: KeptNotification) -> Bool {
    spool?.keep(notification) ?? false
  }

  package func keep(contentsOf notifications: inout [KeptNotification]) {
    spool?.keep(contentsOf: &notifications)
  }

  package func settled(_ refusal: RelayRefusal, isReported: Bool) {
    spool?.settled(refusal, isReported: isReported)
  }

  /// Calls `done` with figures of all apps that have something in the spool, on a thread of the relay.
  package func report(_ done: @escaping @Sendable ([RelayFigures]) -> Void) {
    let answers = answers.all
    guard let spool else { return done(answers.figures(in: [])) }
    spool.report { done(answers.figures(in: $0)) }
  }

  package func reportCounters(_ done: @escaping @Sendable ([TopicCounters]) -> Void) {
    if let spool { spool.reportCounters(done) } else { done([]) }
  }

  package func connections() -> [(upstream: String, count: Int)] {
    state.withLock { state in
      state.clients.map { ("\($0.key.endpoint)", $0.value.observer.connectionCount) }
    }
  }

  package func obey(_ command: RelayCommand, _ app: AppID) {
    spool?.obey(command, app)
  }

  package var isFull: Bool { spool?.isFull ?? false }

  // MARK: The end

  package func stop() {
    running.withLock { $0.take() }?.spool?.stop()
    let clients = state.withLock { state in
      state.isStopped = true
      state.routes = [:]
      defer { state.clients = [:] }
      return Array(state.clients.values)
    }
    for client in clients { client.client.closeImmediately() }
  }
}

/// What upstreams answered, for each topic.
private final class AnswerRegister: Sendable {
  private let answers = Mutex<[RelayTopic: UpstreamAnswers]>([:])

  var all: [RelayTopic: UpstreamAnswers] { answers.withLock { $0 } }

  /// Returns whether the topic's upstream now fails, and did not before.
  func add(
    _ answer: UpstreamAnswer, _ topic: RelayTopic, afterMilliseconds: UInt64
  ) -> Bool {
    answers.withLock {
      $0[topic, default: UpstreamAnswers()].add(answer, afterMilliseconds: afterMilliseconds)
    }
  }
}

extension [RelayTopic: UpstreamAnswers] {
  /// `figures` with the answers in them; also of topics of which nothing was kept.
  fileprivate func figures(in figures: [RelayFigures]) -> [RelayFigures] {
    var (rest, figures) = (self, figures)
    for index in figures.indices {
      let topic = RelayTopic(
        app: figures[index].app, environment: figures[index].environment)
      if let answers = rest.removeValue(forKey: topic) { figures[index].answers = answers }
    }
    for (topic, answers) in rest {
      var passed = RelayFigures(app: topic.app, environment: topic.environment)
      passed.answers = answers
      figures.append(passed)
    }
    return figures
  }
}
