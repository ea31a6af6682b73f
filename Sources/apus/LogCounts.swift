import ApusCommand
import ApusModel
import ApusServer
import ApusWire

/// What `apus log --counts` prints.
struct LogCounts {
  private let invocation: Invocation
  private let log: LedgerLog
  /// Nil for all topics.
  private let topic: TopicKey?

  init(_ invocation: Invocation, _ log: LedgerLog, topic: TopicKey?) {
    self.invocation = invocation
    self.log = log
    self.topic = topic
  }

  func print() throws(CommandFailure) {
    do {
      switch invocation.value(LogOptions.by) {
      case .topic: try print { [Part(counters: $0)] }
      case .pushType:
        try print { counters in
          ([nil] + PushType.allCases.map(Optional.some)).map { type in
            Part(
              key: "push_type", label: type?.name.description ?? "no push type",
              value: type.map { .string($0.name.description) } ?? .null,
              counters: counters.part(of: type))
          }
        }
      case .priority:
        try print { counters in
          [Priority.immediate, .powerSaving, .whenActive].map { priority in
            Part(
              key: "priority", label: "priority \(priority.rawValue)",
              value: .integer(Int64(priority.rawValue)), counters: counters.part(of: priority))
          }
        }
      case .reason: try printRejections()
      }
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
  }

  /// The counters of one topic, or a part of them.
  private struct Part {
    /// How the part is called in JSON, and its value there; empty for the whole.
    var key = ""
    var label = ""
    var value: JSONValue?
    var counters: TopicCounters
  }

  private func print(_ parts: (TopicCounters) -> [Part]) throws {
    let all = try log.counters().filter { topic == nil || $0.topic == topic }
    var text = ""
    for part in all.flatMap(parts) where part.key.isEmpty || part.counters.accepted > 0 {
      if invocation.isOn(ApusOptions.json) {
        Output.json(json(part))
      } else {
        text += self.text(part)
      }
    }
    Output.standard(text)
  }

  private func text(_ part: Part) -> String {
    let counters = part.counters
    var rows = [
      (key: "Accepted", value: "\(counters.accepted)"),
      (key: "Ended", value: "\(counters.ended)"), (key: "Pending", value: "\(counters.pending)"),
    ]
    for state in DeliveryState.allCases where state != .received && counters[state] > 0 {
      rows.append((key: state.label.description, value: "\(counters[state])"))
    }
    let label = part.label.isEmpty ? "" : ", \(part.label)"
    return "\(log.text(counters.topic)), \(counters.environment.name)\(label)\n\(table(rows))"
  }

  private func json(_ part: Part) -> JSONValue {
    let counters = part.counters
    var states: [JSONObject.Member] = []
    for state in DeliveryState.allCases where counters[state] > 0 {
      states.append(.init(key: state.label.description, value: .integer(Int64(counters[state]))))
    }
    var members: [JSONObject.Member] = [
      .init(key: "topic", value: .string(log.text(counters.topic))),
      .init(key: "environment", value: .string(counters.environment.name)),
    ]
    if let value = part.value { members.append(.init(key: part.key, value: value)) }
    members += [
      .init(key: "accepted", value: .integer(Int64(counters.accepted))),
      .init(key: "ended", value: .integer(Int64(counters.ended))),
      .init(key: "pending", value: .integer(counters.pending)),
      .init(key: "balanced", value: .bool(counters.isBalanced)),
      .init(key: "states", value: .object(JSONObject(states))),
    ]
    return .object(JSONObject(members))
  }

  private func printRejections() throws {
    let rejections = try log.rejections()
    if invocation.isOn(ApusOptions.json) {
      for (reason, number) in rejections {
        Output.json(
          .members([
            "reason": .string(reason.text.description), "status": .integer(Int64(reason.status)),
            "requests": .integer(Int64(number)),
          ]))
      }
      return
    }
    Output.standard(
      table(
        rejections.map { (key: "\($0.reason.status) \($0.reason.text)", value: "\($0.number)") }))
  }
}
