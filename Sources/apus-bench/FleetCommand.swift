import ApusCommand
import ApusLoop
import ApusModel
import ApusTrust
import ApusWire
import Glibc

/// `apus-bench fleet`: runs the loop that all devices live on.
struct FleetCommand {
  let invocation: Invocation
  private let data: String

  init(_ invocation: Invocation) {
    self.invocation = invocation
    data = invocation.value(BenchOptions.data)
  }

  func run() throws(CommandFailure) {
    raiseDescriptorLimit()
    let topic = Array(invocation.value(BenchOptions.topic).utf8)
    let hash = TopicHash(of: topic.span)
    let loop = EventLoop(name: "fleet")
    let fleet = Fleet(
      loop: loop, topic: hash, tokensPath: invocation[BenchOptions.printTokens],
      exitsAfterRegistration: invocation.isOn(BenchOptions.exitAfterRegistration))
    try addDevices(to: fleet)
    do throws(SocketError) {
      let signals = try [SIGINT, SIGTERM].map { (signal) throws(SocketError) in
        try SignalWatcher(loop: loop, signal: signal) { fleet.stop() }
      }
      // A watcher that is released watches no longer, and an optimiser may release what is not used again.
      withExtendedLifetime(signals) {
        fleet.start()
        loop.run()
      }
    } catch {
      throw CommandFailure(.failed, "\(error)")
    }
    print(fleet.summary.text)
    if let failure = fleet.failure { throw failure }
  }

  private func addDevices(to fleet: Fleet) throws(CommandFailure) {
    let address: SocketAddress
    do throws(SocketError) {
      address = try SocketAddress(invocation.value(BenchOptions.connect).description)
    } catch {
      throw invocation.failure(about: BenchOptions.connect, "\(error)")
    }
    try DeviceIssue(data: data).issue(0..<(invocation[BenchOptions.devices] ?? 0), to: address) {
      fleet.add($0)
    }
  }
}
