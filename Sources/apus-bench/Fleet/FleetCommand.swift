import ApusCommand

/// `apus-bench fleet`: devices in this process, or in several that it starts.
struct FleetCommand {
  private let invocation: Invocation
  private let settings: FleetSettings

  init(_ invocation: Invocation) throws(CommandFailure) {
    raiseDescriptorLimit()
    self.invocation = invocation
    settings = try FleetSettings(invocation)
  }

  func run() throws(CommandFailure) {
    if settings.processCount > 1 {
      try FleetProcesses(settings).run()
    } else {
      try FleetPart(settings, invocation).run()
    }
  }
}
