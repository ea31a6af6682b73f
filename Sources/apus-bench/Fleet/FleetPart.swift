import ApusCommand
import ApusLoop
import Glibc

/// The devices of this process, and what is told of them: in a file, on standard output, or to the process that spread
/// a fleet over several.
final class FleetPart {
  private let loop = EventLoop(name: "fleet")
  private let settings: FleetSettings
  private let crowd: any DeviceCrowd
  private let link: ReportLink?
  private var timer: LoopTimer?
  /// Set by SIGUSR2, where the devices are to die.
  private var isDead = false

  static let statusMilliseconds: UInt64 = 500

  init(_ settings: FleetSettings, _ invocation: Invocation) throws(CommandFailure) {
    self.settings = settings
    link = try ReportLink.toParent(loop)
    let address = try settings.serviceAddress(invocation)
    let sources = try settings.sourceAddresses(invocation)
    let issue = DeviceIssue(data: settings.data, keepsSessions: settings.resumes)
    switch settings.misbehaviour {
    case nil, .die: crowd = Fleet(loop: loop, settings: settings, sources: sources)
    case let how?: crowd = RogueFleet(how, loop: loop, settings: settings, sources: sources)
    }
    try issue.issue(settings.numbers, to: address) { crowd.add($0) }
    crowd.onRegistration = { [unowned self] in
      link?.send(FleetReport(.registered, crowd.status()))
    }
  }

  func run() throws(CommandFailure) {
    do throws(SocketError) {
      let handlers: [(Int32, () -> Void)] = [
        (SIGINT, { [unowned self] in crowd.stop() }), (SIGTERM, { [unowned self] in crowd.stop() }),
        (SIGUSR1, { [unowned self] in cut() }), (SIGUSR2, { [unowned self] in die() }),
        (SIGHUP, { [unowned self] in crowd.breakConnections() }),
      ]
      let signals = try handlers.map { (signal, handler) throws(SocketError) in
        try SignalWatcher(loop: loop, signal: signal, handler: handler)
      }
      link?.onEnd = { [unowned self] in crowd.stop() }
      let timer = LoopTimer(loop: loop) { [unowned self] in tell() }
      if link != nil || settings.statusPath != nil {
        timer.start(
          afterMilliseconds: Self.statusMilliseconds, repeatMilliseconds: Self.statusMilliseconds)
      }
      // A watcher that is released watches no longer, and an optimiser may release what is not used again.
      withExtendedLifetime((signals, timer)) {
        // To make certificates took a while, and times of this turn count from its beginning.
        loop.updateNow()
        crowd.start()
        loop.run()
      }
    } catch {
      throw CommandFailure(.failed, "\(error)")
    }
    try tellLast()
    if let failure = crowd.failure { throw failure }
  }

  // MARK: What is told

  private func tell() {
    let status = crowd.status()
    link?.send(FleetReport(.passing, status))
    guard let path = settings.statusPath else { return }
    do throws(CommandFailure) { try writeText(status.json.text + "\n", to: path) } catch {
      report(error.text(speaker: "apus-bench fleet"))
    }
  }

  private func cut() {
    let status = crowd.status()
    crowd.cut()
    if let link { link.send(FleetReport(.cut, status)) } else { printLine(status.json.text) }
  }

  private func tellLast() throws(CommandFailure) {
    let status = crowd.status()
    if let link { return link.send(FleetReport(.last, status)) }
    if let path = settings.statusPath { try writeText(status.json.text + "\n", to: path) }
    printLine(status.json.text)
  }

  // MARK: Death

  private func die() {
    guard settings.misbehaviour == .die, let fleet = crowd as? Fleet, !isDead else { return }
    isDead = true
    fleet.silence()
    cut()
    // Nothing that runs could say something any more.
    lieDead()
    try? tellLast()
    // In the way of a power failure: nothing is closed in order.
    fflush(nil)
    _exit(0)
  }

  /// Tells what it is asked for, and does nothing else, until it is to end.
  private func lieDead() {
    while let signal = DeadPeer.wait(for: [SIGTERM, SIGINT, SIGUSR1]), signal == SIGUSR1 { cut() }
  }
}

/// A line on standard output, at once.
func printLine(_ text: String) {
  print(text)
  fflush(nil)
}
