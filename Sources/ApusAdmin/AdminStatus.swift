import ApusCore
import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusStore
import ApusWire

/// The status of the service: `GET /v1/status`.
struct AdminStatus {
  private let view: ServiceView
  private let scopes: AdminScopes

  /// - Parameter scopes: The scopes of the caller.
  init(_ view: ServiceView, scopes: AdminScopes) {
    self.view = view
    self.scopes = scopes
  }

  var json: JSONValue {
    let now = EventLoop.wallClockMilliseconds()
    let own = view.ownFacts()
    let facts = view.facts(own)
    let directory = view.trust.directory
    let unreadiness = view.unreadiness
    return .fields([
      "service": .string("apus"),
      "version": .string(view.settings.version),
      "node": view.cluster.map { .string($0.own) },
      "ready": .bool(unreadiness == nil),
      "problem": view.problem(facts).map(JSONValue.string),
      "started": .string(Log.timestamp(view.startedMilliseconds)),
      "uptime_seconds": .number(max(0, now - view.startedMilliseconds) / 1000),
      "data": .string(view.directory.path),
      "ephemeral": .bool(view.service.isEphemeral),
      "workers": .number(view.service.workerCount),
      "listeners": .array(listeners(own.connections)),
      "devices_connected": .number(facts.sessions.connected),
      "devices_dormant": .number(facts.dormancy.count),
      "open_requests": .number(facts.openRequests),
      "pending_notifications": .integer(view.topicCounters().reduce(0) { $0 + $1.pending }),
      "store_available": .bool(view.store.isAvailable),
      "trust": .fields([
        "generation": .number(directory.generation), "teams": .number(directory.teams.count),
        "apps": .number(directory.apps.count), "keys": .number(directory.keys.count),
        "revoked_certificates": .number(directory.revokedCount),
        "retired_devices": .number(directory.retirements.count),
      ]),
      "certificates_ending": .number(view.expiries.entries().count),
      "scopes": .array(scopes.list.map { .string($0) }),
    ])
  }

  /// One object for each kind and environment: the connections of its listeners are counted together.
  private func listeners(_ connections: ConnectionCounts) -> [JSONValue] {
    ListenerKind.allCases.flatMap { kind in
      Environment.allCases.compactMap { environment -> JSONValue? in
        let addresses = view.service.listeners.filter {
          $0.kind == kind && $0.environment == environment
        }
        .flatMap(\.addresses).map { JSONValue.string($0.description) }
        guard !addresses.isEmpty else { return nil }
        return .fields([
          "kind": .string(kind.rawValue), "environment": .string(environment.name),
          "addresses": .array(addresses), "connections": .number(connections[kind, environment]),
        ])
      }
    }
  }
}
