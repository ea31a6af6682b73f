import ApusCommand
import ApusDirectory
import ApusModel
import ApusWire

/// `apus store`
struct StoreCommand {
  let invocation: Invocation
  let user: Operator

  init(_ invocation: Invocation) {
    self.invocation = invocation
    user = Operator(invocation)
  }

  func run() throws(CommandFailure) {
    switch invocation.operands.first {
    case nil: break
    case "copy" where invocation.operands.count == 3:
      return try copy(invocation.operands[1], invocation.operands[2])
    case "schema" where invocation.operands.count == 1:
      return Output.standard(StorePlace.schema)
    default:
      throw CommandFailure(
        .usage, "unknown operands: \(invocation.operands.joined(separator: " "))",
        remedy: "Use `copy FROM TO`, `schema`, or none.")
    }
    guard invocation.isOn(TrustOptions.acceptLoss) else { return try check() }
    guard !user.directory.isInDatabase else { return try acceptOlderDatabase() }
    let repair = try user.attempt {
      try user.directory.acceptLoss(nowSeconds: Process.nowSeconds)
    }
    user.record(.storeLossAccepted, repair.copy ?? user.directory.storePath)
    var text =
      repair.notifications.map { "Repaired the store; it has \(counted($0, "notification")).\n" }
      ?? "Nothing could be recovered. The next start of the service makes a new store.\n"
    if let copy = repair.copy { text += "Copies of the damaged files are in \(copy).\n" }
    for message in repair.messages { text += "  \(message)\n" }
    Report(
      fields: [
        "notifications": repair.notifications.map { .integer(Int64($0)) },
        "copy": repair.copy.map { .string($0) },
        "messages": .array(repair.messages.map { .string($0) }),
      ],
      text: text
    ).print(invocation)
  }

  private func acceptOlderDatabase() throws(CommandFailure) {
    let ended = try user.attempt {
      try user.directory.acceptOlderDatabase(
        keepsTokens: invocation.isOn(TrustOptions.keepsTokens),
        allowsSingleServer: invocation.isOn(StoreOptions.singleDatabase),
        step: .random(in: 256..<1280), nowSeconds: Process.nowSeconds)
    }
    user.record(.storeLossAccepted, "database")
    Report(
      fields: ["ended_tokens": .integer(Int64(ended))],
      text:
        "Accepted what the database has. \(counted(ended, "device token")) ended: apps get new ones when they "
        + "register.\n"
    ).print(invocation)
  }

  private func copy(_ from: String, _ to: String) throws(CommandFailure) {
    let report = try user.attempt {
      try StoreCopy(
        user.directory, allowsSingleServer: invocation.isOn(StoreOptions.singleDatabase),
        nowSeconds: Process.nowSeconds
      ).run(from: StorePlace(from), to: StorePlace(to))
    }
    let place = try user.attempt { try user.directory.storePlace().map { "\($0)" } ?? "" }
    user.record(.storeCopied, place)
    var text = "Copied \(counted(report.rows, "row")). The data directory now uses \(place).\n"
    if let old = report.old { text += "The store that it does not use any more is in \(old).\n" }
    Report(
      fields: [
        "rows": .integer(Int64(report.rows)), "store": .string(place),
        "old": report.old.map { .string($0) },
      ],
      text: text
    ).print(invocation)
  }

  private func check() throws(CommandFailure) {
    let count = try user.attempt { try user.directory.storedNotificationCount() }
    Report(
      fields: ["notifications": .integer(Int64(count))],
      text: "The store is intact; it has \(counted(count, "notification")).\n"
    ).print(invocation)
  }
}
