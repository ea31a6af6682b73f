import ApusAdmin
import ApusCommand
import ApusDirectory
import ApusLog
import ApusModel
import ApusWire

/// `apus admin`
struct AdminCommand {
  let invocation: Invocation
  let user: Operator

  init(_ invocation: Invocation) {
    self.invocation = invocation
    user = Operator(invocation)
  }

  func run() throws(CommandFailure) {
    let (what, name) = (invocation.operands[0], invocation.operands.dropFirst().first)
    switch (what, name) {
    case ("list", nil): try list()
    case ("add", let name?): try add(name)
    case ("remove", let name?): try remove(name)
    case ("add", nil), ("remove", nil):
      throw CommandFailure(
        .usage, "the token's name is missing", remedy: "Use `apus admin \(what) NAME`.")
    case ("list", _):
      throw CommandFailure(.usage, "list takes no name", remedy: "Use `apus admin list`.")
    default:
      throw CommandFailure(.usage, "unknown action \"\(what)\"", remedy: "Use add, list or remove.")
    }
  }

  private func add(_ name: String) throws(CommandFailure) {
    let scopes = invocation.value(AdminOptions.scopes)
    let now = Process.nowSeconds
    let expires = invocation[AdminOptions.expires].map { now + Int64($0) * 86_400 }
    let secret = try user.attempt {
      try user.directory.addAdminToken(
        name: name, scopes: scopes, nowSeconds: now, expiresSeconds: expires)
    }
    user.record(.administratorAdded, "token \(name), scopes \(scopes.text)")
    let until = expires.map { "Valid until \(Log.timestamp($0 * 1000))." } ?? "Valid until removed."
    Report(
      fields: [
        "token": .string(secret), "name": .string(name), "scopes": .string(scopes.text),
        "expires": expires.map(JSONValue.integer),
      ], text: "\(secret)\n\n\(until) It is not shown again.\n"
    ).print(invocation)
  }

  private func list() throws(CommandFailure) {
    let tokens = try user.attempt { try user.directory.adminTokens().tokens }
    let now = Process.nowSeconds
    for token in tokens {
      let isOver = token.expiresSeconds.map { $0 <= now } ?? false
      let until = token.expiresSeconds.map { Log.timestamp($0 * 1000) } ?? "removed"
      Report(
        fields: [
          "name": .string(token.name), "scopes": .string(token.scopes.text),
          "made": .integer(token.madeSeconds),
          "expires": token.expiresSeconds.map(JSONValue.integer),
          "state": .string(isOver ? "expired" : "good"),
        ],
        text:
          "\(token.name)  \(token.scopes.text), \(isOver ? "expired" : "valid until") \(until)\n"
      ).print(invocation)
    }
    if tokens.isEmpty, !invocation.isOn(ApusOptions.json) { Output.standard("No tokens.\n") }
  }

  private func remove(_ name: String) throws(CommandFailure) {
    try user.attempt { try user.directory.removeAdminToken(name: name) }
    user.record(.administratorRemoved, "token \(name)")
    Report(
      fields: ["removed": .string(name)],
      text: "Removed the token \(name). A running service no longer accepts it.\n"
    ).print(invocation)
  }
}
