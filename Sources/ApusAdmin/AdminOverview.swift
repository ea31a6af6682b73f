import ApusCore
import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusStore
import ApusTrust
import ApusWire

/// The sum of all workers' facts.
struct ServiceFacts {
  var connections = ConnectionCounts()
  var ended = EndedConnections()
  var refusedForDescriptors: UInt64 = 0
  var pauses = ListenerPauses()
  var halfOpenHandshakes = 0
  var sessions = SessionCounts()
  var dormancy = Dormancy()
  var openRequests = 0
  var stored: Int64 = 0
  var lostLedgerLines: UInt64 = 0
  var latencies = Latencies()
  /// Of other parts of the cluster's devices.
  var problems: [String] = []

  init(_ workers: [WorkerFacts]) {
    for worker in workers {
      connections = connections + worker.connections
      ended = ended + worker.ended
      refusedForDescriptors += worker.refusedForDescriptors
      pauses = pauses + worker.pauses
      halfOpenHandshakes += worker.halfOpenHandshakes
      sessions = sessions + worker.sessions
      dormancy = dormancy + worker.dormancy
      openRequests += worker.openRequests
      stored += worker.stored
      lostLedgerLines += worker.lostLedgerLines
      latencies = latencies + worker.latencies
    }
  }

  /// Adds what another node says of its part of the cluster's devices.
  mutating func add(_ report: PartReport) {
    connections = connections + report.connections
    sessions = sessions + report.sessions
    dormancy.count += report.dormantCount
    openRequests += report.openRequests
    stored += report.stored
    if let problem = report.problem { problems.append(problem) }
  }
}

/// Figures of the service: `GET /v1/overview`.
struct AdminOverview {
  private let view: ServiceView

  init(_ view: ServiceView) { self.view = view }

  var json: JSONValue {
    let now = EventLoop.wallClockMilliseconds()
    let facts = view.facts(view.ownFacts())
    let latencies = view.history.lastMinute(of: facts.latencies)
    let unreadiness = view.unreadiness
    return .fields([
      "time": .string(Log.timestamp(now)), "milliseconds": .integer(now),
      "started": .string(Log.timestamp(view.startedMilliseconds)),
      "uptime_seconds": .number(max(0, now - view.startedMilliseconds) / 1000),
      "version": .string(view.settings.version), "ready": .bool(unreadiness == nil),
      "problem": view.problem(facts).map(JSONValue.string),
      "store_available": .bool(view.store.isAvailable),
      "ephemeral": .bool(view.service.isEphemeral),
      "devices": devices(facts.sessions), "providers": providers(facts.connections),
      "stored_notifications": .integer(facts.stored),
      "in_flight": .number(facts.sessions.inFlight),
      "open_requests": .number(facts.openRequests), "totals": totals(),
      "latencies": .fields([
        "acceptance": Self.percentiles(latencies.acceptance),
        "delivery": Self.percentiles(latencies.delivery),
      ]),
      "memory_bytes": residentBytes().map(JSONValue.integer),
      "certificates": .array(certificates(now / 1000)),
    ])
  }

  private func devices(_ sessions: SessionCounts) -> JSONValue {
    .fields([
      "connected": .number(sessions.connected),
      "by_environment": .object(
        JSONObject(
          Environment.allCases.map { .init(key: $0.name, value: .number(sessions[$0])) })),
      "by_power": .object(
        JSONObject(PowerState.allCases.map { .init(key: $0.name, value: .number(sessions[$0])) })),
    ])
  }

  private func providers(_ connections: ConnectionCounts) -> JSONValue {
    func count(_ kind: ListenerKind) -> JSONValue {
      .number(Environment.allCases.reduce(0) { $0 + connections[kind, $1] })
    }
    return .fields([
      "http2": count(.provider), "binary": count(.gateway), "feedback": count(.feedback),
    ])
  }

  private func totals() -> JSONValue {
    let topics = view.topicCounters()
    func sum(_ states: DeliveryState...) -> UInt64 {
      topics.reduce(0) { sum, topic in states.reduce(sum) { $0 + topic[$1] } }
    }
    let discarded = DeliveryState.allCases.filter { $0.isDiscarded && sum($0) > 0 }
    return .fields([
      "accepted": .number(topics.reduce(0) { $0 + $1.accepted }),
      "delivered": .number(sum(.delivered, .deliveredFromStorage)),
      "delivered_from_storage": .number(sum(.deliveredFromStorage)),
      "accepted_upstream": .number(sum(.acceptedUpstream)),
      "stored": .number(sum(.storedDeviceOffline, .storedPowerConsiderations)),
      "pending": .integer(topics.reduce(0) { $0 + $1.pending }),
      "discarded": .array(
        discarded.map {
          .fields(["state": .string("\($0.label)"), "notifications": .number(sum($0))])
        }),
      "refused": .array(
        view.rejections().map { reason, number in
          .fields([
            "reason": .string("\(reason.text)"), "status": .number(reason.status),
            "requests": .number(number),
          ])
        }),
    ])
  }

  private static func percentiles(_ histogram: MillisecondHistogram) -> JSONValue {
    func milliseconds(_ perMille: UInt64) -> JSONValue? {
      histogram.milliseconds(perMille: perMille).map { .number($0) }
    }
    return .fields([
      "count": .number(histogram.count), "p50": milliseconds(500), "p90": milliseconds(900),
      "p99": milliseconds(990),
    ])
  }

  // MARK: Certificates

  /// All known certificates, the first to expire first.
  private func certificates(_ now: Int64) -> [JSONValue] {
    let own = (try? view.namedCertificates()) ?? []
    var ends = own.map {
      (
        entry: ExpiryWatch.Entry(
          kind: $0.kind, name: $0.name, notAfter: $0.certificate.notAfter,
          sha256: $0.certificate.fingerprint), subject: Self.text($0.certificate.subject)
      )
    }
    ends += view.expiries.shown().map { (entry: $0, subject: "") }
    return ends.sorted { ($0.entry.notAfter, $0.entry.name) < ($1.entry.notAfter, $1.entry.name) }
      .map { entry, subject in
        let left = entry.notAfter - now
        let mark = ExpiryWatch.warningDays.last { left <= $0 * 86_400 }
        return .fields([
          "kind": .string(entry.kind.rawValue), "name": .string(entry.name),
          "subject": subject.isEmpty ? nil : .string(subject),
          "sha256": entry.sha256.map { .string($0.hex) },
          "not_after": .string(Log.timestamp(entry.notAfter * 1000)),
          "days_left": .integer(max(0, left) / 86_400), "warning": mark.map(JSONValue.integer),
        ])
      }
  }

  /// `CN=localhost, O=Example`.
  private static func text(_ subject: Certificate.Subject) -> String {
    [
      ("UID", subject.userID), ("CN", subject.commonName), ("OU", subject.organizationalUnit),
      ("O", subject.organization), ("C", subject.country),
    ].compactMap { name, value in value.map { "\(name)=\($0)" } }.joined(separator: ", ")
  }
}

extension PowerState {
  /// The value in the administration API.
  var name: String {
    switch self {
    case .idle: "idle"
    case .active: "active"
    case .lowPower: "low_power"
    }
  }
}
