import ApusCommand

/// `apus send`
struct SendCommand {
  let invocation: Invocation

  init(_ invocation: Invocation) { self.invocation = invocation }

  func run() async throws(CommandFailure) {
    let invocation = invocation
    _ = try Message(invocation) { (path) throws(CommandFailure) in
      try Process.text(
        of: path == "-" ? "/dev/stdin" : path, for: ApusOptions.payloadFile, invocation)
    }
    throw CommandFailure(.failed, "this build cannot send yet")
  }
}
