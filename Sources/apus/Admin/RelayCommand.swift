import ApusCommand
import ApusWire

/// `apus relay`
struct RelayCommand {
  private let invocation: Invocation

  init(_ invocation: Invocation) { self.invocation = invocation }

  func run() throws(CommandFailure) {
    let what = invocation.operands.first ?? "status"
    let topic = invocation.operands.dropFirst().first
    let remote = try AdminRemote.any(invocation)
    switch (what, topic) {
    case ("status", nil): try show(remote)
    case ("status", _):
      throw CommandFailure(.usage, "status takes no topic", remedy: "Use `apus relay status`.")
    case ("pause", let topic?), ("resume", let topic?), ("flush", let topic?),
      ("confirm", let topic?):
      let done = try remote.ask(
        "POST", ["relay", topic], body: .members(["command": .string(what)]))
      remote.show(done, "\(what): passed on to the relay for \(topic).\n")
    case ("pause", nil), ("resume", nil), ("flush", nil), ("confirm", nil):
      throw CommandFailure(
        .usage, "the topic is missing", remedy: "Use `apus relay \(what) TOPIC`.")
    default:
      throw CommandFailure(
        .usage, "unknown action \"\(what)\"",
        remedy: "Use status, pause, resume, flush or confirm.")
    }
  }

  private func show(_ remote: AdminRemote) throws(CommandFailure) {
    let rows = try remote.ask("GET", ["relay"])["apps"]?.array ?? []
    if invocation.isOn(ApusOptions.json) {
      for row in rows { Output.json(row) }
      return
    }
    let counts = [
      "notifications", "bytes", "doubted", "accepted", "rejected", "dead", "expired", "repeated",
    ]
    for row in rows {
      let place = ["topic", "environment"].compactMap { row[$0]?.string }
      let hold = row["hold"]?.string.map { ["held=\($0)"] } ?? []
      let figures = counts.compactMap { name in row[name]?.integer.map { "\(name)=\($0)" } }
      let oldest = row["oldest"]?.string.map { ["oldest=\($0)"] } ?? []
      let answers = (row["answers"]?.object?.members ?? []).map { "\($0.key)=\($0.value.text)" }
      Output.standard((place + hold + figures + oldest + answers).joined(separator: "  ") + "\n")
    }
    if rows.isEmpty { Output.standard("Nothing was kept for an upstream.\n") }
  }
}
