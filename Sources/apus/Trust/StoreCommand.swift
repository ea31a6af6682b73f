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
    guard invocation.isOn(TrustOptions.acceptLoss) else { return try check() }
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

  private func check() throws(CommandFailure) {
    let count = try user.attempt { try user.directory.storedNotificationCount() }
    Report(
      fields: ["notifications": .integer(Int64(count))],
      text: "The store is intact; it has \(counted(count, "notification")).\n"
    ).print(invocation)
  }
}
