import ApusCore
import ApusModel
import ApusWebhooks
import ApusWire

/// What the node of one part of a cluster's devices knows about them as a whole, and no table has.
///
/// As JSON, because nodes may have different versions:
///
/// ```
/// {"sessions": [2, 0, 1, 1, 0, 5], "dormant": 1, "stored": 7, "open_requests": 3, "connections": [1, 0, 2],
///  "webhooks": [{"name": "default", "delivered": 41, "waiting": 2}], "problem": "..."}
/// ```
struct PartReport: Sendable {
  var sessions = SessionCounts()
  var dormantCount = 0
  var stored: Int64 = 0
  var openRequests = 0
  /// Connections at the node.
  var connections = ConnectionCounts()
  /// Events that were delivered since the start, and that wait, for each webhook.
  var webhooks: [String: (delivered: UInt64, waiting: UInt64)] = [:]
  /// Why it accepts no writes; nil while it does.
  var problem: String?
}

extension PartReport {
  init(_ view: ServiceView) {
    let facts = ServiceFacts(view.service.workerFacts())
    sessions = facts.sessions
    dormantCount = facts.dormancy.count
    stored = facts.stored
    openRequests = facts.openRequests
    connections = facts.connections
    for hook in view.service.webhookFacts() {
      webhooks[hook.name] = (hook.delivered, hook.waiting)
    }
    problem = view.storeProblem
  }

  var json: JSONValue {
    .fields([
      "sessions": .array(sessions.numbers.map { .number($0) }), "dormant": .number(dormantCount),
      "stored": .integer(stored), "open_requests": .number(openRequests),
      "connections": .array(connections.numbers.map { .number($0) }),
      "webhooks": .array(
        webhooks.sorted { $0.key < $1.key }.map { name, count in
          .fields([
            "name": .string(name), "delivered": .number(count.delivered),
            "waiting": .number(count.waiting),
          ])
        }),
      "problem": problem.map { .string($0) },
    ])
  }

  /// Nil for anything else than such a report.
  init?(_ json: JSONValue) {
    func numbers(_ name: String) -> [Int]? {
      json[name]?.array?.compactMap { $0.integer.map { Int($0) } }
    }
    guard let sessions = numbers("sessions").flatMap({ SessionCounts(numbers: $0) }),
      let connections = numbers("connections").flatMap({ ConnectionCounts(numbers: $0) }),
      let dormant = json["dormant"]?.integer, let stored = json["stored"]?.integer,
      let openRequests = json["open_requests"]?.integer
    else { return nil }
    (self.sessions, self.connections, self.stored) = (sessions, connections, stored)
    (dormantCount, self.openRequests) = (Int(dormant), Int(openRequests))
    for hook in json["webhooks"]?.array ?? [] {
      guard let name = hook["name"]?.string, let delivered = hook["delivered"]?.integer,
        let waiting = hook["waiting"]?.integer
      else { continue }
      webhooks[name] = (UInt64(clamping: delivered), UInt64(clamping: waiting))
    }
    problem = json["problem"]?.string
  }
}

/// A device as the node of its part sees it.
///
/// ```
/// {"device": "00112233aabbccdd", "environment": "production", "last_seen": 1764500000000,
///  "session": {"address": "192.0.2.1:40000", "power": "idle", "in_flight": 0, "waiting": 2}}
/// ```
enum PartSighting {
  static func json(_ key: DeviceKey, _ sighting: DeviceSighting) -> JSONValue {
    .fields([
      "device": .string(key.id.text), "environment": .string(key.environment.name),
      "last_seen": sighting.lastSeenMilliseconds.map { .integer($0) },
      "session": sighting.session.map { session in
        .fields([
          "address": session.address.map { .string($0) }, "power": .string(session.power.name),
          "in_flight": .number(session.inFlight), "waiting": .number(session.waiting),
        ])
      },
    ])
  }

  /// Nil for anything else.
  static func read(_ json: JSONValue) -> (DeviceKey, DeviceSighting)? {
    guard let device = json["device"]?.string.flatMap({ DeviceID(text: $0) }),
      let environment = json["environment"]?.string.flatMap({ Environment(name: $0) })
    else { return nil }
    let session = json["session"].map { session in
      DeviceSighting.Session(
        address: session["address"]?.string,
        power: PowerState.allCases.first { $0.name == session["power"]?.string } ?? .idle,
        inFlight: Int(session["in_flight"]?.integer ?? 0),
        waiting: Int(session["waiting"]?.integer ?? 0))
    }
    return (
      DeviceKey(id: device, environment: environment),
      DeviceSighting(session: session, lastSeenMilliseconds: json["last_seen"]?.integer)
    )
  }
}
