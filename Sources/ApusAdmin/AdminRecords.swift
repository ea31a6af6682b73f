import ApusCore
import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusStore
import ApusTrust
import ApusWeb
import ApusWire

/// The records of the service: audit log, ledger and counters.
struct AdminRecords {
  let view: ServiceView
  let input: AdminInput

  init(_ view: ServiceView, _ input: AdminInput) {
    self.view = view
    self.input = input
  }

  // MARK: Audit

  /// - Parameter refusalsAlone: Only refused peers and rejected requests, each with its explanation.
  func audit(refusalsAlone: Bool) throws(AdminProblem) -> WebResponse {
    let limit = try limit()
    let before = try input.integer("before", 0...Int64.max, default: -1)
    let event = try input.text("event")
    let actor = try input.text("actor")
    let refused = refusalsAlone ? try refusalQuery() : RefusalLog.Query()
    try input.requireAllUsed()
    let page: AuditReader.Page
    do throws(FileError) {
      page = try AuditReader(path: view.directory.auditFile).page(
        before: before < 0 ? nil : before, limit: limit
      ) { line in
        let name = line["event"]?.string ?? ""
        return (!refusalsAlone || Self.refusals.contains(name)) && (event ?? name) == name
          && (actor.map { line["actor"]?.string?.hasPrefix($0) == true } ?? true)
          && refused.matches(line)
      }
    } catch {
      throw AdminProblem(.failed, "\(error)")
    }
    return WebResponse(
      json: .fields([
        "entries": .array(page.lines.map(\.json)), "next": page.next.map(JSONValue.integer),
      ]))
  }

  private func refusalQuery() throws(AdminProblem) -> RefusalLog.Query {
    var query = RefusalLog.Query()
    query.id = try input.value("id", "8-4-4-4-12 hexadecimal digits") { NotificationID(string: $0) }
    query.topic = try input.text("topic")
    if let text = try input.text("device") { query.device = try view.device(called: text) }
    query.token = try input.text("token")
    query.sinceMilliseconds = try moment("since_milliseconds")
    query.untilMilliseconds = try moment("until_milliseconds")
    return query
  }

  private static let refusals = Set(
    AuditEvent.allCases.map(\.rawValue).filter { $0.hasSuffix(".refused") }
      + [AuditEvent.connectionClosed.rawValue])

  private func limit() throws(AdminProblem) -> Int {
    Int(try input.integer("limit", 1...Int64(Limits.adminPageLines), default: 100))
  }

  // MARK: Ledger

  /// The newest matching lines, oldest first.
  func ledger() throws(AdminProblem) -> WebResponse {
    let trust = view.trust
    let limit = try limit()
    let query = try query(trust)
    let labels = view.labels.currentIndex()
    let after = try input.value("after", "the \"position\" of an earlier response") {
      LedgerPosition(text: $0)
    }
    try input.requireAllUsed()
    var newest = NewestLines(limit: limit)
    var position = after ?? LedgerPosition()
    do throws(StoreError) {
      try view.rows().readLedger(query, from: &position) { newest.add($0) }
    } catch {
      throw AdminProblem(.unavailable, "the ledger cannot be read: \(error)")
    }
    let lines = newest.take()
    return WebResponse(
      json: .fields([
        "lines": .array(lines.map { json($0, trust, labels) }), "position": .string(position.text),
      ]))
  }

  private func query(_ trust: Trust) throws(AdminProblem) -> LedgerQuery {
    var query = LedgerQuery()
    let form = "8-4-4-4-12 hexadecimal digits"
    query.id = try input.value("id", form) { NotificationID(string: $0) }
    query.uniqueID = try input.value("unique_id", form) { NotificationID(string: $0) }
    if let text = try input.text("device") { query.device = try view.device(called: text) }
    query.environment = try input.environment()
    for label in try input.texts("states", maximumCount: DeliveryState.allCases.count) {
      guard let state = DeliveryState.allCases.first(where: { "\($0.label)" == label }) else {
        throw AdminProblem(
          .invalid,
          "\"\(label)\" is not a state; the states are "
            + DeliveryState.allCases.map { "\"\($0.label)\"" }.joined(separator: ", "))
      }
      query.states.insert(state)
    }
    query.sinceMilliseconds = try moment("since_milliseconds")
    query.untilMilliseconds = try moment("until_milliseconds")
    if let text = try input.text("topic") {
      guard let topic = Self.topic(text, trust) else {
        throw AdminProblem(.notFound, "the service has no app \"\(text)\"")
      }
      query.topic = topic
    }
    let token = try input.value("token", "a device token: 2 to 200 hexadecimal digits") { text in
      let digits = Array(text.utf8)
      return Hex.decode(digits.span)
    }
    if let token { try narrow(&query, to: token, trust) }
    return query
  }

  /// A token that this service did not issue may be one of an upstream's devices.
  private func narrow(
    _ query: inout LedgerQuery, to bytes: [UInt8], _ trust: Trust
  ) throws(AdminProblem) {
    guard let token = DeviceToken(bytes: bytes.span),
      let claims = TokenSealer(trust.sealingKeys).open(token)
    else {
      guard !trust.upstreams.isEmpty else {
        throw AdminProblem(.notFound, "this service did not issue the token")
      }
      query.tokenPrefix = NotificationFacts.tokenPrefix(of: bytes.span)
      query.device = DeviceID.none
      return
    }
    if let device = query.device, device != claims.device {
      throw AdminProblem(.invalid, "the token belongs to the device \(claims.device.text)")
    }
    query.tokenPrefix = token.words.0
    query.device = claims.device
    query.environment = claims.environment
  }

  private func moment(_ name: String) throws(AdminProblem) -> Int64? {
    let value = try input.integer(name, 0...Int64.max, default: -1)
    return value < 0 ? nil : value
  }

  /// The key of a topic; nil if it belongs to no app of the service.
  static func topic(_ text: String, _ trust: Trust) -> TopicKey? {
    let bytes = Array(text.utf8)
    let suffix = TopicSuffix(of: bytes.span)
    // A bundle id may itself end in a topic suffix.
    if let app = trust.directory.app(bundleID: bytes.span) { return TopicKey(app: app.id) }
    let bundle = Array(bytes.dropLast(suffix.text.utf8CodeUnitCount))
    return trust.directory.app(bundleID: bundle.span).map { TopicKey(app: $0.id, suffix: suffix) }
  }

  private func json(_ record: LedgerRecord, _ trust: Trust, _ labels: LabelIndex) -> JSONValue {
    let facts = record.event.facts
    let cause = record.event.causeText
    return .fields([
      "time": .string(Log.timestamp(record.milliseconds)),
      "milliseconds": .integer(record.milliseconds),
      "state": .string("\(record.event.state.label)"),
      "cause": cause.isEmpty ? nil : .string(cause),
      "topic": .string(view.text(facts.topic, trust)),
      "environment": .string(facts.environment.name), "id": .string(facts.id.text),
      // Zero for notifications that an earlier version stored.
      "unique_id": facts.uniqueID == NotificationID(high: 0, low: 0)
        ? nil : .string(facts.uniqueID.text),
      "device": facts.device == .none ? nil : .string(facts.device.text),
      "device_name": (labels.name(of: facts.device)?.text).map(JSONValue.string),
      "token": .string(DeviceToken(words: (facts.tokenPrefix, 0, 0, 0)).redacted),
      "push_type": facts.pushType.map { .string("\($0.name)") },
      "priority": .number(facts.priority.rawValue),
      "interface": .string(facts.interface == .http2 ? "http2" : "binary"),
    ])
  }

  // MARK: Counters

  func counters() throws(AdminProblem) -> WebResponse {
    let parts =
      try input.value("by", CountersReport.Parts.allCases.map(\.rawValue).joined(separator: ", ")) {
        CountersReport.Parts(rawValue: $0)
      } ?? .topic
    try input.requireAllUsed()
    let trust = view.trust
    let topics = CountersReport.rows(view.topicCounters(), by: parts) {
      view.text($0, trust)
    }
    return WebResponse(
      json: .fields([
        "topics": .array(topics), "refused": .array(CountersReport.rows(view.rejections())),
      ]))
  }
}

/// Keeps the newest of all lines added, each worker's lines in their order.
struct NewestLines {
  private let limit: Int
  private var found: [(record: LedgerRecord, index: Int)] = []
  private var index = 0

  init(limit: Int) { self.limit = limit }

  mutating func add(_ record: LedgerRecord) {
    found.append((record, index))
    index += 1
    if found.count >= 2 * limit + 1024 { keepNewest() }
  }

  /// Oldest first.
  mutating func take() -> [LedgerRecord] {
    keepNewest()
    return found.map(\.record)
  }

  private mutating func keepNewest() {
    found.sort { ($0.record.milliseconds, $0.index) < ($1.record.milliseconds, $1.index) }
    found.removeFirst(max(0, found.count - limit))
  }
}
