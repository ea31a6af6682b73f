import ApusClient
import ApusCommand
import ApusModel
import ApusWire

/// `apus send --dry-run`: shows what would be sent, and any problems with it.
struct DryRun {
  let invocation: Invocation

  init(_ invocation: Invocation) { self.invocation = invocation }

  func show(_ request: PushRequest, _ findings: [LintFinding]) throws(CommandFailure) {
    let problem = Self.problem(with: request)
    let isGood =
      problem == nil && !findings.contains { $0.severity == .error }
      && (findings.isEmpty || !invocation.isOn(SendOptions.strict))
    let json = json(request, findings, problem)
    if !invocation.isOn(ApusOptions.json) {
      Output.standard(Self.text(request))
      for finding in findings { Output.standard("\(NotificationCard.harmless("\(finding)"))\n") }
    }
    guard !isGood else {
      if invocation.isOn(ApusOptions.json) { Output.json(json) }
      return
    }
    var failure = CommandFailure(
      .failed, problem ?? "the push violates a rule", remedy: "Nothing was sent.")
    failure.report = json
    throw failure
  }

  /// Why every service would reject the request; nil if it is valid.
  static func problem(with request: PushRequest) -> String? {
    do throws(PushRequestError) {
      try request.validate()
      return nil
    } catch {
      return error.description
    }
  }

  /// The header fields and the payload as text.
  static func text(_ request: PushRequest) -> String {
    var text =
      request.channel == nil
      ? "POST /3/device/\(request.token)\n"
      : "POST /4/broadcasts/apps/\(NotificationCard.harmless(request.topic ?? ""))\n"
    for (name, value) in fields(request) {
      text += "\(name.text): \(NotificationCard.harmless(value))\n"
    }
    text += "\n\(NotificationCard.harmless(String(decoding: request.payload, as: UTF8.self)))\n\n"
    return text + "\(request.payload.count) of \(request.payloadLimitBytes) bytes\n"
  }

  private static func fields(_ request: PushRequest) -> [(HeaderName, String)] {
    var fields = [(HeaderName.apnsPushType, request.pushType.name.description)]
    func put(_ name: HeaderName, _ value: String?) {
      if let value { fields.append((name, value)) }
    }
    // A broadcast's is in the path.
    put(.apnsTopic, request.channel == nil ? request.topic : nil)
    put(.apnsChannelID, request.channel?.text)
    // A broadcast always has one.
    let priority = request.priority ?? (request.channel == nil ? nil : .immediate)
    put(.apnsPriority, priority.map { "\($0.rawValue)" })
    put(.apnsExpiration, request.expirationSeconds.map { "\($0)" })
    put(.apnsCollapseID, request.collapseID)
    put(request.channel == nil ? .apnsID : .apnsRequestID, request.id?.text)
    return fields
  }

  private func json(
    _ request: PushRequest, _ findings: [LintFinding], _ problem: String?
  ) -> JSONValue {
    let payload = String(decoding: request.payload, as: UTF8.self)
    return .members([
      "outcome": .string("dry run"),
      "token": request.channel == nil ? .string(request.token) : nil,
      "channel": request.channel.map { .string($0.text) },
      "push_type": .string(request.pushType.name.description),
      "topic": request.topic.map(JSONValue.string),
      "priority": request.priority.map { .integer(Int64($0.rawValue)) },
      "expiration": request.expirationSeconds.map(JSONValue.integer),
      "collapse_id": request.collapseID.map(JSONValue.string),
      "payload": JSONValue(text: payload) ?? .string(payload),
      "payload_bytes": .integer(Int64(request.payload.count)),
      "problem": problem.map(JSONValue.string), "findings": .array(findings.map(\.json)),
    ])
  }
}
