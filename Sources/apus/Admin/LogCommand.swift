import ApusCommand
import ApusDirectory
import ApusLog
import ApusModel
import ApusWire

/// `apus log`
struct LogCommand {
  let invocation: Invocation

  init(_ invocation: Invocation) { self.invocation = invocation }

  func run() throws(CommandFailure) {
    try refuseCombinations()
    if let remote = try AdminRemote(invocation) {
      guard !invocation.isOn(LogOptions.export) else {
        throw CommandFailure(
          .usage, "--export reads the data directory",
          remedy: "Run it on the service's machine, without --admin.")
      }
      return try remote.log()
    }
    let directory = DataDirectory(path: invocation.value(ApusOptions.data))
    let refusals = LogRefusals(invocation: invocation)
    if invocation.isOn(LogOptions.refused) { return try refusals.print(directory) }
    let log: LedgerLog
    do {
      log = try LedgerLog(directory)
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
    if invocation.isOn(LogOptions.export) {
      return try LogExport(invocation: invocation).print(log, topic: topic(log))
    }
    if invocation.isOn(LogOptions.counts) {
      return try LogCounts(invocation: invocation).print(log, of: directory, topic: topic(log))
    }
    let query = try query(log)
    let labels = LabelRegister(directory)
    var timeline = LogTimeline(invocation)
    let count = try printLines(log, query, &timeline, labels)
    if count == 0, query.id != nil, !timeline.hasRefusals { try refusals.print(directory) }
    guard invocation.isOn(LogOptions.follow) else { return }
    while !Process.isInterrupted(afterMilliseconds: 250) {
      _ = try printLines(log, query, &timeline, labels)
    }
  }

  private func refuseCombinations() throws(CommandFailure) {
    if invocation.isOn(LogOptions.export) {
      return try LogExport(invocation: invocation).refuseCombinations()
    }
    if invocation.isOn(LogOptions.refused) {
      try LogRefusals(invocation: invocation).refuseCombinations()
    }
    guard invocation.isOn(LogOptions.counts) else {
      guard invocation.isGiven(LogOptions.by) else { return }
      throw invocation.failure(
        about: LogOptions.by, "it has no effect without --counts", remedy: "Give --counts as well.")
    }
    if invocation.value(LogOptions.by) == .reason, invocation.isGiven(LogOptions.topic) {
      throw invocation.failure(
        about: LogOptions.topic, "rejected requests are not counted per topic",
        remedy: "Leave one of them out.")
    }
    let given =
      invocation.isOn(LogOptions.follow) || invocation.isGiven(LogOptions.id)
      || invocation.isGiven(LogOptions.uniqueID) || invocation.isGiven(LogOptions.token)
      || invocation.isGiven(LogOptions.device) || invocation.isGiven(LogOptions.state)
      || invocation.isGiven(LogOptions.since) || invocation.isGiven(LogOptions.until)
      || invocation.isGiven(LogOptions.limit)
    guard given else { return }
    throw CommandFailure(
      .usage, "--counts covers everything since the service was created",
      remedy: "Combine it only with --topic and --by.")
  }

  // MARK: Query

  private func query(_ log: LedgerLog) throws(CommandFailure) -> LedgerQuery {
    var query = LedgerQuery()
    query.id = invocation[LogOptions.id]
    query.uniqueID = invocation[LogOptions.uniqueID]
    if let text = invocation[LogOptions.device] {
      query.device = try Operator(invocation).device(text)
    }
    query.states = Set(invocation.all(LogOptions.state).flatMap { $0 })
    query.topic = try topic(log)
    let now = Process.nowSeconds * 1000
    query.sinceMilliseconds = invocation[LogOptions.since]?.milliseconds(nowMilliseconds: now)
    query.untilMilliseconds = invocation[LogOptions.until]?.milliseconds(nowMilliseconds: now)
    if let text = invocation[LogOptions.token] { try narrow(&query, to: text, log) }
    return query
  }

  private func topic(_ log: LedgerLog) throws(CommandFailure) -> TopicKey? {
    guard let text = invocation[LogOptions.topic] else { return nil }
    guard let topic = log.topic(text) else {
      throw invocation.failure(
        .configuration, about: LogOptions.topic, "the service has no app \"\(text)\"",
        remedy: "Its apps are: \(log.apps.joined(separator: ", ")).")
    }
    return topic
  }

  private func narrow(
    _ query: inout LedgerQuery, to text: String, _ log: LedgerLog
  ) throws(CommandFailure) {
    let digits = Array(text.utf8)
    guard let token = DeviceToken(hex: digits.span), let claims = log.claims(of: token) else {
      if log.hasUpstreams, let bytes = Hex.decode(digits.span) {
        query.tokenPrefix = NotificationFacts.tokenPrefix(of: bytes.span)
        query.device = DeviceID.none
        return
      }
      throw invocation.failure(
        .failed, about: LogOptions.token, "this service did not issue the token",
        remedy: "Did another service, or a service with another data directory, issue it?")
    }
    if let device = query.device, device != claims.device {
      throw invocation.failure(
        about: LogOptions.device, "the token belongs to the device \(claims.device.text)",
        remedy: "Leave one of them out.")
    }
    query.tokenPrefix = token.words.0
    query.device = claims.device
    query.environment = claims.environment
  }

  // MARK: Lines

  /// Returns the number of lines.
  private func printLines(
    _ log: LedgerLog, _ query: LedgerQuery, _ timeline: inout LogTimeline, _ labels: LabelRegister
  ) throws(CommandFailure) -> Int {
    let limit = invocation.value(LogOptions.limit)
    do {
      let names = labels.currentIndex()
      let lines = try log.read(query, limit: limit).map { json($0, log, names) }
      let refused =
        timeline.hasRefusals
        ? try RefusalLog(DataDirectory(path: invocation.value(ApusOptions.data)))
          .newest(timeline.query(device: query.device, token: shortToken), limit: limit) : []
      return timeline.print(lines, refused)
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
  }

  /// As the audit log has it.
  private var shortToken: String? {
    invocation[LogOptions.token].flatMap { text in
      let digits = Array(text.utf8)
      return DeviceToken(hex: digits.span)?.redacted
    }
  }

  private func json(
    _ record: LedgerRecord, _ log: LedgerLog, _ labels: LabelIndex
  ) -> JSONValue {
    let facts = record.event.facts
    let cause = record.event.causeText
    return .members([
      "time": .string(Log.timestamp(record.milliseconds)),
      "state": .string(record.event.state.label.description),
      "cause": cause.isEmpty ? nil : .string(cause),
      "topic": .string(log.text(facts.topic)),
      "environment": .string(facts.environment.name),
      "id": .string(facts.id.text),
      // Notifications stored by an earlier version have none.
      "unique_id": facts.uniqueID == NotificationID(high: 0, low: 0)
        ? nil : .string(facts.uniqueID.text),
      "device": facts.device == .none ? nil : .string(facts.device.text),
      "device_name": (labels.name(of: facts.device)?.text).map(JSONValue.string),
      "token": .string(facts.redactedToken),
      "push_type": facts.pushType.map { .string($0.name.description) },
      "priority": .integer(Int64(facts.priority.rawValue)),
      "interface": .string(facts.interface == .http2 ? "http2" : "binary"),
    ])
  }
}

extension NotificationFacts {
  /// The same form as `DeviceToken.redacted`.
  fileprivate var redactedToken: String {
    DeviceToken(words: (tokenPrefix, 0, 0, 0)).redacted
  }
}
