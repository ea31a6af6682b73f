import ApusCore
import ApusDirectory
import ApusJobs
import ApusLog
import ApusLoop
import ApusModel
import ApusStore

/// What the administration can see of the running service, from its own threads.
struct ServiceView: Sendable {
  var settings: AdminConfiguration
  var directory: DataDirectory
  var service: any AdministeredService
  var store: any DurableStore
  var jobs: JobService
  var expiries: ExpiryWatch
  var certificates: ServerCertificates
  var audit: AuditLog
  var labels: LabelRegister
  var log: Log
  let state: AdminState
  let history = ServiceHistory()
  /// Identifies the data directory with which the service started.
  var identity: DirectoryIdentity
  var startedMilliseconds = EventLoop.wallClockMilliseconds()
  /// The nodes of the cluster; nil for a service of its own.
  var cluster: ClusterNodes?
  /// Where this node is an edge: the node that decides.
  var decidingNode: (any DecidingNode)?
  /// Where this node decides about part 0 of several: the others.
  var otherParts: OtherParts?

  var trust: Trust { state.trust }
  var nowSeconds: Int64 { EventLoop.wallClockMilliseconds() / 1000 }

  /// The rows of all devices of the cluster.
  func rows() throws(StoreError) -> any StoreReader { try otherParts?.rows() ?? store }

  func ownFacts() -> ServiceFacts { ServiceFacts(service.workerFacts()) }

  /// Figures of all parts: those of this node, and what the other nodes report. Latencies are this node's.
  func facts(_ own: ServiceFacts) -> ServiceFacts {
    var facts = own
    for report in otherParts?.reports() ?? [] { facts.add(report) }
    return facts
  }

  /// What happened to the notifications of all parts.
  func topicCounters() -> [TopicCounters] {
    let own = service.topicCounters()
    return otherParts.map { (own + $0.counters()).added() } ?? own
  }

  func sightings(of devices: [DeviceID]) -> [DeviceKey: DeviceSighting] {
    let own = service.sightings(of: devices)
    return otherParts?.sightings(of: devices).merging(own) { $1 } ?? own
  }

  /// The number of requests that were rejected in all parts, for each reason that occurred.
  func rejections() -> [(reason: Reason, number: UInt64)] {
    Self.list(service.rejections().merging(otherParts?.rejections() ?? [:], uniquingKeysWith: +))
  }

  /// Those of this node.
  func ownRejections() -> [(reason: Reason, number: UInt64)] { Self.list(service.rejections()) }

  private static func list(
    _ total: [Reason: UInt64]
  ) -> [(reason: Reason, number: UInt64)] {
    Reason.allCases.compactMap { reason in
      total[reason].flatMap { $0 > 0 ? (reason, $0) : nil }
    }
  }

  /// Why the service is not ready; nil if it is ready.
  var unreadiness: String? {
    if state.isDraining { return "the service is shutting down" }
    if cluster?.isDraining == true { return "the node is being drained" }
    if let loss = identity.loss { return loss }
    if let reason = decidingNode?.unreadiness { return reason }
    if service.listeners.isEmpty { return "no listener is open" }
    return storeProblem
  }

  var storeProblem: String? {
    Self.problem(ofStoreThatTakesWrites: store.isAvailable, fault: store.fault)
  }

  static func problem(ofStoreThatTakesWrites isAvailable: Bool, fault: StoreError?) -> String? {
    guard !isAvailable else { return nil }
    let reason = fault.map { ": \($0)" } ?? ""
    return "the store accepts no writes, so notifications get a 503\(reason)"
  }

  /// The problem to show to operators: why the service is not ready, otherwise the warning; nil if there is neither.
  ///
  /// - Parameter facts: Those of all parts.
  func problem(_ facts: ServiceFacts) -> String? {
    unreadiness ?? facts.problems.first ?? warning
  }

  /// A problem that does not keep the service from accepting requests; nil if there is none.
  var warning: String? {
    if let staleness = service.staleness {
      return "trust data is stale since \(Log.timestamp(staleness.sinceMilliseconds)); "
        + "changes and revocations do not apply: \(staleness.reason)"
    }
    if let problem = certificates.problem {
      return "a listener keeps its old certificate: \(problem)"
    }
    return relayProblem
  }

  /// Why notifications do not go upstream, if an operator has to act.
  private var relayProblem: String? {
    for (topic, figures) in relayFigures() {
      if figures.hold == .misconfigured || figures.answers.isFailing {
        return
          "the upstream of \(topic) rejects what it is shown: \(figures.count) notifications wait"
      }
      if figures.doubtedCount > 0 {
        return "the upstream of \(topic) takes most device tokens for bad: "
          + "\(figures.doubtedCount) notifications are held; check its environment and topic, or run "
          + "`apus relay confirm \(topic)`"
      }
    }
    return nil
  }

  /// The certificates of the service, its listeners and its authorities.
  func namedCertificates() throws -> [NamedCertificate] {
    try directory.namedCertificates() + certificates.named()
  }

  /// The app with that bundle id. Throws `notFound` if there is none.
  func app(_ topic: String) throws(AdminProblem) -> App {
    let bundle = Array(topic.utf8)
    guard let app = trust.directory.app(bundleID: bundle.span) else {
      throw AdminProblem(.notFound, "the app \(topic) does not exist")
    }
    return app
  }

  /// The device that a caller means by its id or its name. Throws `notFound` if no device has the name.
  func device(called text: String) throws(AdminProblem) -> DeviceID {
    if let id = DeviceID(text: text) { return id }
    if let device = labels.currentIndex().device(called: text) { return device }
    throw AdminProblem(.notFound, "no device has the id or the name \"\(text)\"")
  }

  /// The text of a topic, or the app's number if the app was removed from the directory.
  func text(_ topic: TopicKey, _ trust: Trust) -> String {
    guard let bytes = trust.directory.topicText(topic) else {
      return "app \(topic.app.rawValue)\(topic.suffix.text)"
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}
