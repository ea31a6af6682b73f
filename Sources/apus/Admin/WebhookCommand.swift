import ApusCommand
import ApusDirectory
import ApusModel
import ApusWebhooks
import ApusWire

/// `apus webhook`
struct WebhookCommand {
  private let invocation: Invocation
  private let user: Operator

  init(_ invocation: Invocation) {
    self.invocation = invocation
    user = Operator(invocation)
  }

  func run() throws(CommandFailure) {
    let (what, name) = (invocation.operands[0], invocation.operands.dropFirst().first)
    switch (what, name) {
    case ("list", nil): try list()
    case ("add", let url?): try add(url)
    case ("test", let name?): try test(name)
    case ("rotate", let name?): try rotate(name)
    case ("remove", let name?): try remove(name)
    case ("add", nil):
      throw CommandFailure(.usage, "the URL is missing", remedy: "Use `apus webhook add URL`.")
    case ("test", nil), ("rotate", nil), ("remove", nil):
      throw CommandFailure(
        .usage, "the webhook's name is missing", remedy: "Use `apus webhook \(what) NAME`.")
    case ("list", _):
      throw CommandFailure(.usage, "list takes no name", remedy: "Use `apus webhook list`.")
    default:
      throw CommandFailure(
        .usage, "unknown action \"\(what)\"", remedy: "Use add, list, test, rotate or remove.")
    }
  }

  private func add(_ url: String) throws(CommandFailure) {
    let name = invocation.value(AdminOptions.webhookName)
    guard Webhook.isName(name) else {
      throw invocation.failure(
        about: AdminOptions.webhookName, "a name has letters, digits, - and _, at most 64")
    }
    guard Webhook.isURL(url) else {
      throw CommandFailure(
        .usage, "\(url) is neither an https URL nor an http URL to this machine",
        remedy: "Events name devices and tokens: send them over TLS.")
    }
    let webhook = Webhook(
      name: name, url: url, events: try events(), secrets: [Webhook.makeSecret()],
      authorityFile: invocation[AdminOptions.webhookAuthority])
    try user.attempt { try user.directory.add(webhook) }
    user.record(.webhookAdded, "webhook \(name) to \(url)")
    Report(
      fields: [
        "name": .string(name), "url": .string(url), "events": .strings(webhook.events.names),
        "secret": .string(webhook.secrets[0]),
      ],
      text: """
        \(webhook.secrets[0])

        This is the secret of the webhook \(name), which signs its requests. It is not shown again.
        `apus webhook test \(name)` sends a test event.\n
        """
    ).print(invocation)
  }

  private func events() throws(CommandFailure) -> EventKinds {
    do throws(UnknownEvent) {
      return try EventKinds(names: invocation.all(AdminOptions.webhookEvents))
    } catch {
      throw invocation.failure(about: AdminOptions.webhookEvents, "\(error)")
    }
  }

  private func list() throws(CommandFailure) {
    let webhooks = try user.attempt { try user.directory.webhooks() }
    for webhook in webhooks {
      let state = user.directory.webhookState(webhook.name)
      let trouble = state?.error.map { "failed \(state?.failures ?? 0) times: \($0)" }
      Report(
        fields: [
          "name": .string(webhook.name), "url": .string(webhook.url),
          "events": .strings(webhook.events.names),
          "secrets": .integer(Int64(webhook.secrets.count)),
          "next_event": state.map { .integer(Int64(clamping: $0.position)) },
          "failures": .integer(Int64(state?.failures ?? 0)),
          "error": state?.error.map { .string($0) },
        ],
        text: table([
          ("name", webhook.name), ("url", webhook.url),
          (
            "events",
            webhook.events == .all ? "all" : webhook.events.names.joined(separator: " ")
          ),
          ("state", trouble ?? (state == nil ? "not used yet" : "good")),
        ]) + (webhook.secrets.count > 1 ? "  a secret is being rotated\n" : "") + "\n"
      ).print(invocation)
    }
    if webhooks.isEmpty, !invocation.isOn(ApusOptions.json) { Output.standard("No webhooks.\n") }
  }

  private func test(_ name: String) throws(CommandFailure) {
    let webhook = try user.attempt { try user.directory.webhook(name) }
    if let reason = webhook.test(nowMilliseconds: Process.nowSeconds * 1000) {
      throw CommandFailure(.unavailable, "\(webhook.url): \(reason)")
    }
    Report(
      fields: ["delivered": .bool(true)], text: "\(webhook.url) accepted the test event.\n"
    ).print(invocation)
  }

  private func rotate(_ name: String) throws(CommandFailure) {
    let isFinish = invocation.isOn(AdminOptions.finishRotation)
    let secret = try user.attempt {
      try user.directory.rotateWebhook(name, isFinish: isFinish)
    }
    user.record(.webhookRotated, "webhook \(name)" + (isFinish ? ", finished" : ""))
    Report(
      fields: ["name": .string(name), "secret": secret.map { .string($0) }],
      text: secret.map {
        "\($0)\n\nGive it to the receiver, then run `apus webhook rotate \(name) --finish`.\n"
      } ?? "Only the newest secret of the webhook \(name) signs from now on.\n"
    ).print(invocation)
  }

  private func remove(_ name: String) throws(CommandFailure) {
    try user.attempt { try user.directory.removeWebhook(name) }
    user.record(.webhookRemoved, "webhook \(name)")
    Report(
      fields: ["removed": .string(name)], text: "Removed the webhook \(name).\n"
    ).print(invocation)
  }
}
