import ApusCommand
import ApusModel
import ApusWeb
import ApusWire

/// `apus channel`
struct ChannelCommand {
  private let invocation: Invocation

  init(_ invocation: Invocation) { self.invocation = invocation }

  func run() throws(CommandFailure) {
    let what = invocation.operands.first ?? "list"
    let channel = invocation.operands.dropFirst().first
    let remote = try AdminRemote.any(invocation)
    switch (what, channel) {
    case ("list", nil): try list(remote)
    case ("create", nil): try create(remote)
    case ("show", let channel?):
      let found = try remote.ask("GET", ["channels", channel])
      remote.show(found, AdminRemote.rows(found))
    case ("delete", let channel?):
      remote.show(
        try remote.ask("DELETE", ["channels", channel]), "Deleted the channel \(channel).\n")
    case ("show", nil), ("delete", nil):
      throw CommandFailure(
        .usage, "the channel is missing",
        remedy: "Use `apus channel \(what) ID`; `apus channel` lists channels.")
    case ("list", _), ("create", _):
      throw CommandFailure(
        .usage, "\(what) takes no channel", remedy: "Use `apus channel \(what)`.")
    default:
      throw CommandFailure(
        .usage, "unknown action \"\(what)\"", remedy: "Use list, create, show or delete.")
    }
  }

  private func create(_ remote: AdminRemote) throws(CommandFailure) {
    let topic = try invocation.require(ChannelOptions.topic)
    let made = try remote.ask(
      "POST", ["channels"],
      body: .members([
        "topic": .string(topic),
        "environment": .string((invocation[ChannelOptions.environment] ?? .production).name),
        "storage": .string(invocation.value(ChannelOptions.storage).name),
      ]))
    remote.show(made, "\(made["channel"]?.string ?? "")\n")
  }

  /// Page by page.
  private func list(_ remote: AdminRemote) throws(CommandFailure) {
    var after: String?
    var isEmpty = true
    repeat {
      var query: [WebField] = []
      if let topic = invocation[ChannelOptions.topic] { query.append(WebField("topic", topic)) }
      if let environment = invocation[ChannelOptions.environment] {
        query.append(WebField("environment", environment.name))
      }
      if let after { query.append(WebField("after", after)) }
      let page = try remote.ask("GET", ["channels"], query: query)
      for row in page["channels"]?.array ?? [] {
        isEmpty = false
        if invocation.isOn(ApusOptions.json) {
          Output.json(row)
        } else {
          let words = ["channel", "topic", "environment", "storage", "created"]
          let figures = ["subscriptions", "published", "delivered"].compactMap { name in
            row[name]?.integer.map { "\(name)=\($0)" }
          }
          let line = words.compactMap { row[$0]?.string } + figures
          Output.standard(line.joined(separator: "  ") + "\n")
        }
      }
      after = page["next"]?.string
    } while after != nil
    if isEmpty, !invocation.isOn(ApusOptions.json) { Output.standard("None.\n") }
  }
}
