package import ApusModel
package import ApusWire

/// Counters as the administration API returns them and commands print them: an object for each topic and environment,
/// or for each group within one.
package enum CountersReport {
  /// How a topic's counters are grouped. The raw value is that of the parameter `by` of the administration API.
  package enum Parts: String, Sendable, CaseIterable {
    case topic
    case pushType = "push_type"
    case priority
  }

  /// - Parameters:
  ///   - parts: Groups without notifications are left out; topics without notifications are not.
  ///   - text: The name of a topic.
  package static func rows(
    _ counters: [TopicCounters], by parts: Parts, text: (TopicKey) -> String
  ) -> [JSONValue] {
    var rows: [JSONValue] = []
    for topic in counters {
      let name = text(topic.topic)
      switch parts {
      case .topic: rows.append(row(name, nil, topic))
      case .pushType:
        for type in [nil] + PushType.allCases.map(Optional.some) {
          let value = type.map { JSONValue.string("\($0.name)") } ?? .null
          let part = topic.part(of: type)
          if part.accepted > 0 {
            rows.append(row(name, .init(key: parts.rawValue, value: value), part))
          }
        }
      case .priority:
        for priority in [Priority.immediate, .powerSaving, .whenActive] {
          let value = JSONValue.integer(Int64(priority.rawValue))
          let part = topic.part(of: priority)
          if part.accepted > 0 {
            rows.append(row(name, .init(key: parts.rawValue, value: value), part))
          }
        }
      }
    }
    return rows
  }

  private static func row(
    _ topic: String, _ part: JSONObject.Member?, _ counters: TopicCounters
  ) -> JSONValue {
    let states = DeliveryState.allCases.filter { counters[$0] > 0 }.map { state in
      JSONObject.Member(key: "\(state.label)", value: .integer(Int64(counters[state])))
    }
    var members: [JSONObject.Member] = [
      .init(key: "topic", value: .string(topic)),
      .init(key: "environment", value: .string(counters.environment.name)),
    ]
    if let part { members.append(part) }
    members += [
      .init(key: "accepted", value: .integer(Int64(counters.accepted))),
      .init(key: "ended", value: .integer(Int64(counters.ended))),
      .init(key: "pending", value: .integer(counters.pending)),
      .init(key: "balanced", value: .bool(counters.isBalanced)),
      .init(key: "states", value: .object(JSONObject(states))),
    ]
    return .object(JSONObject(members))
  }

  /// Rejected requests, an object for each reason.
  package static func rows(_ refused: [(reason: Reason, number: UInt64)]) -> [JSONValue] {
    refused.map { reason, number in
      .object(
        JSONObject([
          .init(key: "reason", value: .string("\(reason.text)")),
          .init(key: "status", value: .integer(Int64(reason.status))),
          .init(key: "requests", value: .integer(Int64(number))),
        ]))
    }
  }
}
