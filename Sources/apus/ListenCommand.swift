import ApusCommand

/// `apus listen`
struct ListenCommand {
  let invocation: Invocation

  init(_ invocation: Invocation) { self.invocation = invocation }

  func run() async throws(CommandFailure) {
    throw CommandFailure(.failed, "this build cannot listen yet")
  }
}
