import ApusCommand
import ApusDirectory
import ApusModel
import ApusTrust
import ApusWeb
import ApusWire

/// `apus send` to devices by name, tag, or all: a job of the service.
struct SendGroupCommand {
  private let invocation: Invocation

  /// Whether the options name devices.
  static func isAsked(_ invocation: Invocation) -> Bool {
    invocation.isGiven(GroupOptions.device) || invocation.isGiven(GroupOptions.tag)
      || invocation.isOn(GroupOptions.all)
  }

  init(_ invocation: Invocation) { self.invocation = invocation }

  /// Rejects options that only concern devices by name or tag.
  static func refuseOptions(_ invocation: Invocation) throws(CommandFailure) {
    let given = [
      ("--environment", invocation.isGiven(GroupOptions.environment)),
      ("--detach", invocation.isOn(GroupOptions.detach)),
      ("--idempotency-key", invocation.isGiven(GroupOptions.idempotencyKey)),
      ("--admin", invocation.isFlagged(AdminOptions.url)),
    ]
    guard let (flag, _) = given.first(where: \.1) else { return }
    throw CommandFailure(
      .usage, "\(flag) is for devices by name or tag",
      remedy: "Name them with --device, --tag or --all; a provider's request goes to --to.")
  }

  func run() throws(CommandFailure) {
    try refuseOthers()
    let remote = try AdminRemote.any(invocation)
    let body = try body()
    let key = invocation[GroupOptions.idempotencyKey] ?? randomID().text
    let made: JSONValue
    do throws(CommandFailure) {
      made = try ask(remote, body, key)
    } catch {
      guard error.code == .unavailable else { throw error }
      // The service may have accepted it: the same key gives the same job.
      made = try ask(remote, body, key)
    }
    let job = made["job"]?.string ?? ""
    guard !invocation.isOn(GroupOptions.detach) else {
      return remote.show(made, "\(job)\n")
    }
    try JobWatch(remote, job, invocation).wait()
  }

  private func ask(
    _ remote: AdminRemote, _ body: JSONValue, _ key: String
  ) throws(CommandFailure) -> JSONValue {
    try remote.ask(
      "POST", ["notifications"], headers: [WebField("idempotency-key", key)], body: body)
  }

  private func refuseOthers() throws(CommandFailure) {
    let ways = [
      ("--device", invocation.isGiven(GroupOptions.device)),
      ("--tag", invocation.isGiven(GroupOptions.tag)), ("--all", invocation.isOn(GroupOptions.all)),
      ("--token", invocation[ApusOptions.token] != nil),
      ("--channel", invocation[ApusOptions.channel] != nil),
      ("--tokens", invocation[SendOptions.tokens] != nil),
    ].filter(\.1)
    guard ways.count == 1 else {
      throw CommandFailure(
        .usage, "the recipients are given by \(ways.map(\.0).joined(separator: " and "))",
        remedy: "Give one of them.")
    }
    let useless = [
      ("--id", invocation.isGiven(ApusOptions.id), "each device's notification has its own"),
      ("--to", invocation.isGiven(ApusOptions.provider), "the service itself sends"),
      ("--dry-run", invocation.isOn(SendOptions.dryRun), "the service checks the notification"),
    ]
    if let (flag, _, reason) = useless.first(where: \.1) {
      throw CommandFailure(
        .usage, "\(flag) has no effect here: \(reason)", remedy: "Leave it out.")
    }
  }

  private func body() throws(CommandFailure) -> JSONValue {
    let message = try Message(invocation, needsToken: false) { (path) throws(CommandFailure) in
      try Process.payload(path, invocation)
    }
    let topic = try SendCredentials(invocation).topic(message.topicSuffix)
    let devices = invocation.all(GroupOptions.device)
    let tags = invocation.all(GroupOptions.tag).map(\.text)
    return .members([
      "devices": devices.isEmpty ? nil : .strings(devices),
      "tags": tags.isEmpty ? nil : .strings(tags),
      "all": invocation.isOn(GroupOptions.all) ? .bool(true) : nil,
      "topic": topic.map(JSONValue.string),
      "environment": .string(invocation.value(GroupOptions.environment).name),
      "push_type": .string(message.pushType.name.description),
      "priority": message.priority.map { .integer(Int64($0.rawValue)) },
      "expiration": message.expiration.map { .integer($0.seconds(now: Process.nowSeconds)) },
      "collapse_id": message.collapseID.map(JSONValue.string),
      "payload_text": .string(message.payload),
    ])
  }
}

/// Waits for the end of a job, and shows how far it is.
struct JobWatch {
  private let remote: AdminRemote
  private let job: String
  private let invocation: Invocation

  /// From the first look at the job to the next, doubled each time.
  private static let pollMilliseconds = 10...500

  init(_ remote: AdminRemote, _ job: String, _ invocation: Invocation) {
    self.remote = remote
    self.job = job
    self.invocation = invocation
  }

  func wait() throws(CommandFailure) {
    let showsProgress = Process.columns != nil
    var pause = Self.pollMilliseconds.lowerBound
    while true {
      let now = try remote.ask("GET", ["jobs", job])
      if now["ended"] != nil {
        if showsProgress { Output.diagnostic("\r\u{1b}[K") }
        return try report(now)
      }
      if showsProgress { Output.diagnostic("\r\u{1b}[K\(Self.progress(now))") }
      defer { pause = min(2 * pause, Self.pollMilliseconds.upperBound) }
      if Process.isInterrupted(afterMilliseconds: pause) {
        throw CommandFailure(
          .failed, "interrupted; the service goes on with the job \(job)",
          remedy: "`apus job show \(job)` shows how far it is, `apus job cancel \(job)` ends it.")
      }
    }
  }

  private static func progress(_ job: JSONValue) -> String {
    let (all, pending) = (job["devices"]?.integer ?? 0, job["pending"]?.integer ?? 0)
    let state = job["state"]?.string == "waiting" ? ", the store takes no writes" : ""
    return "\(all - pending) of \(all) devices\(state)"
  }

  private func report(_ job: JSONValue) throws(CommandFailure) {
    let outcomes = (job["outcomes"]?.object?.members ?? []).filter { $0.value.integer != 0 }
    let (all, accepted) = (job["devices"]?.integer ?? 0, job["outcomes"]?["accepted"]?.integer ?? 0)
    let text =
      "Accepted for \(accepted) of \(all) \(all == 1 ? "device" : "devices"), job \(self.job).\n"
    if accepted == all { return remote.show(job, text) }
    let others = outcomes.filter { $0.key != "accepted" }
      .map { "\($0.value.text) \($0.key)" }.joined(separator: ", ")
    if !invocation.isOn(ApusOptions.json) { Output.standard(text) }
    var failure = CommandFailure(
      .failed, "not all devices get the notification: \(others)",
      remedy: "`apus job results \(self.job)` has a line for each device.")
    failure.report = job
    throw failure
  }
}
