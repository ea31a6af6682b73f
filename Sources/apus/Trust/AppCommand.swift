import ApusCommand
import ApusCore
import ApusDirectory
import ApusWire

/// `apus app`
struct AppCommand {
  let invocation: Invocation
  let user: Operator

  init(_ invocation: Invocation) {
    self.invocation = invocation
    user = Operator(invocation)
  }

  func run() throws(CommandFailure) {
    try refuseStray()
    if let remote = try AdminRemote(invocation) { return try remote.app() }
    if let topic = invocation[TrustOptions.appToAdd] {
      try add(topic)
    } else if let topic = invocation[TrustOptions.appToChange] {
      try change(topic)
    } else if let topic = invocation[TrustOptions.appToRemove] {
      try user.attempt { try user.directory.removeApp(topic) }
      user.record(.appRemoved, "app \(topic)")
      Report(fields: ["removed": .string(topic)], text: "Removed the app \(topic).\n")
        .print(invocation)
    } else {
      try list()
    }
  }

  /// Rejects an option that nothing would read.
  private func refuseStray() throws(CommandFailure) {
    guard invocation[TrustOptions.appToChange] == nil else { return }
    let isAdded = invocation[TrustOptions.appToAdd] != nil
    let isStray =
      invocation.isGiven(TrustOptions.appBroadcast)
      || !isAdded
        && (invocation.isGiven(TrustOptions.appRetention)
          || UpstreamArguments(invocation).first != nil)
    if isStray { throw invocation.missing(TrustOptions.appToChange.description) }
  }

  private func add(_ topic: String) throws(CommandFailure) {
    let team = try user.team(TrustOptions.appTeam)
    let retention = invocation[TrustOptions.appRetention]
    let upstream = try UpstreamArguments(invocation).addition()
    try user.attempt {
      try user.directory.addApp(topic, team: team, retention: retention, upstream: upstream)
    }
    user.record(.appAdded, "app \(topic)")
    Report(
      fields: [
        "topic": .string(topic), "team": .string(team.text),
        "retain": retention.map { .integer(Int64($0)) },
        "upstream": upstream == nil ? nil : try self.upstream(topic),
      ],
      text: "Added the app \(topic) to team \(team.text).\n"
    ).print(invocation)
  }

  private func change(_ topic: String) throws(CommandFailure) {
    var change = try AppChange(invocation, topic)
    try user.attempt {
      try user.directory.changeApp(
        topic, retention: change.retention, broadcasts: change.broadcasts,
        upstream: change.upstream)
    }
    user.record(.appChanged, "app \(topic)")
    if change.upstream != nil { change.newUpstream = try upstream(topic) }
    if invocation.isOn(ApusOptions.json) {
      Output.json(change.json)
    } else {
      Output.standard(change.text)
    }
  }

  /// The app's upstream; null if it has none.
  private func upstream(_ topic: String) throws(CommandFailure) -> JSONValue {
    let section = try user.sections("app").first { $0.name == topic }
    return section.flatMap { try? UpstreamSettings($0) }?.json ?? .null
  }

  private func list() throws(CommandFailure) {
    let apps = try user.sections("app").map { section in
      JSONValue.members([
        "app": .string(section.name), "team": section["team"].map(JSONValue.string),
        "id": section["id"].map(JSONValue.string),
        "retain": section["retain"].map(JSONValue.string),
        "broadcast": section["broadcast"].map(JSONValue.string),
        "upstream": (try? UpstreamSettings(section))?.json,
      ])
    }
    AdminRemote.show(apps, name: "app", invocation)
  }
}

/// What `apus app --change` changes.
struct AppChange {
  let topic: String
  let retention: Int?
  let broadcasts: Bool?
  let upstream: Edit<UpstreamChange>?
  /// The upstream afterwards, null if there is none any more; nil if it was not changed.
  var newUpstream: JSONValue?

  init(_ invocation: Invocation, _ topic: String) throws(CommandFailure) {
    self.topic = topic
    broadcasts = invocation[TrustOptions.appBroadcast]
    upstream = try UpstreamArguments(invocation).edit()
    retention =
      broadcasts == nil && upstream == nil
      ? try invocation.require(TrustOptions.appRetention) : invocation[TrustOptions.appRetention]
    if broadcasts == false, !invocation.isOn(TrustOptions.appConsent) {
      throw invocation.failure(
        about: TrustOptions.appBroadcast, "the service deletes all channels of \(topic) for good",
        remedy: "Give --yes to confirm that.")
    }
  }

  /// From the administration's answer: what it changed.
  init(_ answer: JSONValue) {
    topic = answer["topic"]?.string ?? ""
    retention = answer["retain"]?.integer.map(Int.init)
    broadcasts = answer["broadcast"]?.bool
    upstream = nil
    newUpstream = answer["upstream"]
  }

  /// As asked of the administration.
  var request: JSONValue {
    .members([
      "retain": retention.map { .integer(Int64($0)) }, "broadcast": broadcasts.map(JSONValue.bool),
      "delete_channels": broadcasts == false ? .bool(true) : nil, "upstream": upstream?.request,
    ])
  }

  var json: JSONValue {
    .members([
      "topic": .string(topic), "retain": retention.map { .integer(Int64($0)) },
      "broadcast": broadcasts.map(JSONValue.bool), "upstream": newUpstream,
    ])
  }

  var text: String {
    var text = ""
    if let retention {
      let what = retention == 1 ? "notification" : "\(retention) notifications"
      text += "The app \(topic) now stores its newest \(what) for an offline device.\n"
    }
    switch broadcasts {
    case true?: text += "The app \(topic) may have channels now.\n"
    case false?:
      text +=
        "The app \(topic) may have no channels any more; the service deletes those that it has.\n"
    case nil: break
    }
    switch newUpstream {
    case .null?: text += "The app \(topic) has no upstream any more.\n"
    case let upstream?: text += Self.text(topic, upstream)
    case nil: break
    }
    return text
  }

  private static func text(_ topic: String, _ upstream: JSONValue) -> String {
    let credential = upstream["key_id"]?.string.map { "the key \($0)" } ?? "a certificate"
    return
      "Pushes of the app \(topic) to device tokens of another service now go to "
      + "\(upstream["service"]?.string ?? ""), with \(credential).\n"
  }
}
