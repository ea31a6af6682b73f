import ApusCommand
import ApusLoop
import Glibc

/// The devices of this process and their reports: to a file, to standard output, or to the parent process of a fleet
/// spread over several processes.
final class FleetPart {
  private let loop = EventLoop(name: "fleet")
  private let settings: FleetSettings
  private let crowd: any DeviceCrowd
  private let link: ReportLink?
  private var timer: LoopTimer?
  /// Set by SIGUSR2 with `--misbehave die`.
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
    case let how?: crowd = MisbehavingFleet(how, loop: loop, settings: settings, sources: sources)
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
      // A released watcher stops watching, and the optimiser may release a value after its last use.
      withExtendedLifetime((signals, timer)) {
        // Making certificates took a while, and timers count from the loop's cached time.
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

  // MARK: Reports

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
    // No other code may send anything any more.
    lieDead()
    try? tellLast()
    // Like a power failure: nothing is closed properly.
    fflush(nil)
    _exit(0)
  }

  /// Only answers report requests until it is told to end.
  private func lieDead() {
    while let signal = DeadPeer.wait(for: [SIGTERM, SIGINT, SIGUSR1]), signal == SIGUSR1 { cut() }
  }
}

/// Prints a line on standard output, unbuffered.
func printLine(_ text: String) {
  print(text)
  fflush(nil)
}
