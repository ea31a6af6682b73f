import ApusCore
import ApusDirectory
import ApusLog
import ApusModel
import ApusTrust
import ApusWeb
import ApusWire

/// What waits for upstreams, as the administration shows and commands it.
struct AdminRelay {
  private let view: ServiceView
  private let input: AdminInput
  private let changes: AdminChanges

  init(_ view: ServiceView, _ input: AdminInput) {
    self.view = view
    self.input = input
    changes = AdminChanges(view, input)
  }

  /// The apps that have an upstream, or something kept for one, in the order of their topics.
  func show() throws(AdminProblem) -> WebResponse {
    try input.requireAllUsed()
    return WebResponse(json: .fields(["apps": .array(view.relayFigures().map(json))]))
  }

  private func json(_ row: (topic: String, figures: RelayFigures)) -> JSONValue {
    let figures = row.figures
    func number(_ value: UInt64) -> JSONValue { .integer(Int64(clamping: value)) }
    return .fields([
      "topic": .string(row.topic),
      "environment": .string(figures.environment.name),
      "notifications": .integer(Int64(figures.count)),
      "bytes": .integer(Int64(figures.byteCount)),
      "doubted": .integer(Int64(figures.doubtedCount)),
      "hold": figures.hold.map { .string($0.name) },
      "accepted": number(figures.ended.accepted),
      "rejected": number(figures.ended.rejected),
      "dead": number(figures.ended.dead),
      "expired": number(figures.ended.expired),
      "repeated": number(figures.ended.repeated),
      "oldest": figures.oldestMilliseconds.map { .string(Log.timestamp($0)) },
      "answers": .object(
        JSONObject(
          figures.answers.others.sorted { $0.key.code < $1.key.code }
            .map { .init(key: $0.key.name, value: number($0.value)) })),
    ])
  }

  func command() throws(AdminProblem) -> WebResponse {
    let topic = try input.parameter("topic", { $0 }, "a bundle id")
    let form = RelayCommand.allCases.map(\.rawValue).joined(separator: ", ")
    let command = try input.required(
      try input.value("command", form) { RelayCommand(rawValue: $0) }, "command")
    try input.requireAllUsed()
    let app = try view.app(topic)
    view.service.relay(command, app.id)
    changes.record(.relayCommanded, "\(command.rawValue) \(topic)")
    return WebResponse(
      json: .fields(["topic": .string(topic), "command": .string(command.rawValue)]))
  }
}

extension ServiceView {
  /// The figures of all apps, in the order of their topics.
  func relayFigures() -> [(topic: String, figures: RelayFigures)] {
    let trust = trust
    return service.relayFigures().map { (text(TopicKey(app: $0.app), trust), $0) }
      .sorted { ($0.0, $0.1.environment.rawValue) < ($1.0, $1.1.environment.rawValue) }
  }
}

extension RelayLane.Hold {
  var name: String {
    switch self {
    case .busy: "busy"
    case .misconfigured: "misconfigured"
    case .paused: "paused"
    }
  }
}
