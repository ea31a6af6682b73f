import ApusDirectory
import ApusLoop
import ApusModel
import ApusWeb
import ApusWebhooks
import ApusWire

/// Webhooks as the administration shows and changes them.
struct AdminWebhooks {
  private let view: ServiceView
  private let input: AdminInput
  private let changes: AdminChanges

  init(_ view: ServiceView, _ input: AdminInput) {
    self.view = view
    self.input = input
    changes = AdminChanges(view, input)
  }

  private static let nameForm = "letters, digits, - and _, at most 64"

  private func name() throws(AdminProblem) -> String {
    try input.parameter("name", { Webhook.isName($0) ? $0 : nil }, Self.nameForm)
  }

  func list() throws(AdminProblem) -> WebResponse {
    try input.requireAllUsed()
    let webhooks = try changes.attempt { try view.directory.webhooks() }
    let facts = view.service.webhookFacts()
    let reports = view.otherParts?.reports() ?? []
    let values = webhooks.map { webhook in
      let state = view.directory.webhookState(webhook.name)
      let known = facts.first { $0.name == webhook.name }
      return JSONValue.fields([
        "name": .string(webhook.name), "url": .string(shown(webhook.url)),
        "events": .array(webhook.events.names.map { .string($0) }),
        "rotating": .bool(webhook.secrets.count > 1),
        "delivered": .number(
          reports.reduce(known?.delivered ?? 0) { $0 + ($1.webhooks[webhook.name]?.delivered ?? 0) }
        ),
        "waiting": .number(
          reports.reduce(known?.waiting ?? 0) { $0 + ($1.webhooks[webhook.name]?.waiting ?? 0) }),
        "failures": .number(state?.failures ?? 0), "error": state?.error.map { .string($0) },
      ])
    }
    return WebResponse(json: .fields(["webhooks": .array(values)]))
  }

  /// A URL's path may be a secret: only callers who may change webhooks see it.
  private func shown(_ url: String) -> String {
    guard !input.scopes.contains(.trust), let start = url.firstRange(of: "://") else { return url }
    let host = url[start.upperBound...].prefix { $0 != "/" && $0 != "?" }
    return "\(url[..<start.upperBound])\(host)"
  }

  func add() throws(AdminProblem) -> WebResponse {
    let name = try input.value("name", Self.nameForm) { Webhook.isName($0) ? $0 : nil }
    let url = try input.required(
      try input.value("url", "an https URL, or an http URL to the service's own machine") {
        Webhook.isURL($0) ? $0 : nil
      }, "url")
    let names = try input.texts("events", maximumCount: EventKind.allCases.count)
    try input.requireAllUsed()
    let events: EventKinds
    do throws(UnknownEvent) { events = try EventKinds(names: names) } catch {
      throw AdminProblem(.invalid, "\(error)")
    }
    let webhook = Webhook(
      name: name ?? "default", url: url, events: events,
      secrets: [Webhook.makeSecret()])
    try changes.attempt { try view.directory.add(webhook) }
    changes.record(.webhookAdded, "webhook \(webhook.name) to \(url)")
    return WebResponse(
      json: .fields([
        "name": .string(webhook.name), "url": .string(url),
        "events": .array(webhook.events.names.map { .string($0) }),
        // Only this response contains the secret.
        "secret": .string(webhook.secrets[0]),
      ]), status: 201)
  }

  /// Throws `notFound` if there is no webhook of that name.
  private func existing(_ name: String) throws(AdminProblem) -> Webhook {
    let webhooks = try changes.attempt { try view.directory.webhooks() }
    guard let webhook = webhooks.first(where: { $0.name == name }) else {
      throw AdminProblem(.notFound, "the webhook \(name) does not exist")
    }
    return webhook
  }

  func test() throws(AdminProblem) -> WebResponse {
    let name = try name()
    try input.requireAllUsed()
    let problem = try existing(name).test(nowMilliseconds: EventLoop.wallClockMilliseconds())
    return WebResponse(
      json: .fields(["delivered": .bool(problem == nil), "error": problem.map { .string($0) }]))
  }

  func rotate() throws(AdminProblem) -> WebResponse {
    let name = try name()
    let isFinish = try input.bool("finish")
    try input.requireAllUsed()
    _ = try existing(name)
    let secret = try changes.attempt {
      try view.directory.rotateWebhook(name, isFinish: isFinish)
    }
    changes.record(.webhookRotated, "webhook \(name)" + (isFinish ? ", finished" : ""))
    return WebResponse(
      json: .fields(["name": .string(name), "secret": secret.map { .string($0) }]))
  }

  func remove() throws(AdminProblem) -> WebResponse {
    let name = try name()
    try input.requireAllUsed()
    _ = try existing(name)
    try changes.attempt { try view.directory.removeWebhook(name) }
    changes.record(.webhookRemoved, "webhook \(name)")
    return WebResponse(json: .fields(["removed": .string(name)]))
  }
}
