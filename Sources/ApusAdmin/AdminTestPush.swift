import ApusThread
import ApusCore
import ApusDirectory
import ApusJobs
import ApusLog
import ApusLoop
import ApusModel
import ApusWeb
import ApusWire
import Synchronization

/// A test push by the operator: `POST /v1/notifications`.
///
/// It is handled like a provider's: the same admission, mailbox and ledger.
struct AdminTestPush {
  private let view: ServiceView
  private let input: AdminInput

  init(_ view: ServiceView, _ input: AdminInput) {
    self.view = view
    self.input = input
  }

  func send() throws(AdminProblem) -> WebResponse {
    let token = try input.required(input.text("token"), "token")
    let topic = try input.text("topic")
    let push = try push(token)
    try input.requireAllUsed()
    try view.state.takeTestPush(nowMilliseconds: monotonicMilliseconds())
    let outcome = try decide(push)
    let status = outcome.rejection?.reason.status ?? 200
    view.audit.record(
      .notificationSent, actor: input.caller?.name ?? "nobody", subject: topic ?? "no topic",
      .text("from", input.caller?.origin ?? "nowhere"),
      .text("environment", push.environment.name), .text("token", "\(token.prefix(8))…"),
      .text("id", outcome.id.text), .number("status", status))
    return WebResponse(
      json: .fields([
        "status": .number(status),
        "reason": outcome.rejection.map { .string("\($0.reason.text)") },
        "explanation": outcome.explanation.isEmpty ? nil : .string(outcome.explanation),
        "apns_id": .string(outcome.id.text),
        "apns_unique_id": outcome.uniqueID.map { .string($0.text) },
        "timestamp": outcome.rejection?.timestampMilliseconds.map(JSONValue.integer),
      ]))
  }

  // MARK: The request

  /// The request as a provider would send it; errors in it are left for the service to report.
  private func push(_ token: String) throws(AdminProblem) -> TestPush {
    let id = try input.text("id")
    let push = try GroupPush(input)
    guard var fields = push.fields, add(.path, "/3/device/\(token)", to: &fields),
      id.map({ add(.apnsID, $0, to: &fields) }) ?? true
    else { throw AdminProblem(.invalid, "the header fields are too long in total") }
    return TestPush(environment: push.environment, fields: fields, payload: push.payload)
  }

  /// False if there is no room.
  private func add(_ name: HeaderName, _ value: String, to fields: inout RequestFields) -> Bool {
    let bytes = Array(value.utf8)
    return fields.add(name, value: bytes.span)
  }

  // MARK: Delivery

  private func decide(_ push: TestPush) throws(AdminProblem) -> TestPushOutcome {
    guard !view.state.isDraining else {
      throw AdminProblem(.unavailable, "the service is shutting down")
    }
    let box = Monitor<TestPushOutcome?>(nil)
    view.service.send(push) { outcome in box.notify { $0 = outcome } }
    guard let outcome = box.take(withinMilliseconds: Int64(Limits.testPushSeconds) * 1000) else {
      throw AdminProblem(
        .unavailable, "the store did not respond within \(Limits.testPushSeconds) s")
    }
    return outcome
  }
}

extension AdminState {
  /// Limited because each push adds a line to the audit log, whose size is not limited.
  private static let testPushLimit = RateLimit(
    capacity: Limits.testPushesAtOnce, refill: 1, perSeconds: 1)

  func takeTestPush(nowMilliseconds: Int64) throws(AdminProblem) {
    let isWithin = testPushes.withLock {
      Self.testPushLimit.take(from: &$0, atMilliseconds: nowMilliseconds)
    }
    guard isWithin else {
      throw AdminProblem(
        .tooManyRequests,
        "test pushes are limited to \(Limits.testPushesAtOnce) at once, then one per second",
        headers: [WebField("Retry-After", "1")])
    }
  }
}

extension GroupPush {
  /// The members of a request that say what is sent, to whomever it is.
  init(_ input: AdminInput) throws(AdminProblem) {
    func number(_ name: String) throws(AdminProblem) -> String? {
      let value = try input.integer(name, 0...Int64.max, default: -1)
      return value < 0 ? nil : "\(value)"
    }
    self.init(environment: try input.environment() ?? .production, payload: [])
    topic = try input.text("topic")
    pushType = try input.text("push_type")
    priority = try number("priority")
    expiration = try number("expiration")
    collapseID = try input.text("collapse_id")
    payload = try Self.payload(input)
  }

  private static func payload(_ input: AdminInput) throws(AdminProblem) -> [UInt8] {
    let object = try input.object("payload")
    let text = try input.value("payload_text", "a text") { $0 }
    switch (object, text) {
    case (let object?, nil): return JSONValue.object(object).bytes
    case (nil, let text?): return Array(text.utf8)
    default: throw AdminProblem(.invalid, "give either \"payload\" or \"payload_text\"")
    }
  }
}
