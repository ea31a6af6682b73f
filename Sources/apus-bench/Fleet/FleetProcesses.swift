import ApusCommand
import ApusLoop
import Glibc

/// A fleet spread over several processes: starts them, forwards signals, and sums up their reports.
final class FleetProcesses {
  private let loop = EventLoop(name: "fleet")
  private let settings: FleetSettings
  private var parts: [FleetProcess] = []
  private var failure: CommandFailure?
  private var isStopping = false
  private var isRegistered = false
  private var awaitsCuts = false

  init(_ settings: FleetSettings) { self.settings = settings }

  func run() throws(CommandFailure) {
    for index in 0..<settings.processCount {
      let part = try FleetProcess(settings.part(index), index: index, loop: loop)
      part.link.onReport = { [unowned self, unowned part] in heard($0, from: part) }
      part.link.onEnd = { [unowned self, unowned part] in ended(part) }
      parts.append(part)
    }
    do throws(SocketError) {
      let handlers: [(Int32, () -> Void)] = [
        (SIGINT, { [unowned self] in stop() }), (SIGTERM, { [unowned self] in stop() }),
        (SIGUSR1, { [unowned self] in cut(SIGUSR1) }),
        (SIGUSR2, { [unowned self] in if settings.misbehaviour == .die { cut(SIGUSR2) } }),
        (SIGHUP, { [unowned self] in for part in parts { part.signal(SIGHUP) } }),
      ]
      let signals = try handlers.map { (signal, handler) throws(SocketError) in
        try SignalWatcher(loop: loop, signal: signal, handler: handler)
      }
      let timer = LoopTimer(loop: loop) { [unowned self] in writeStatus() }
      timer.start(
        afterMilliseconds: FleetPart.statusMilliseconds,
        repeatMilliseconds: FleetPart.statusMilliseconds)
      withExtendedLifetime((signals, timer)) { loop.run() }
    } catch {
      throw CommandFailure(.failed, "\(error)")
    }
    writeStatus()
    printLine(status.json.text)
    if let failure { throw failure }
  }

  private var status: FleetStatus {
    var sum = FleetStatus()
    for part in parts { sum += part.status }
    return sum
  }

  private func writeStatus() {
    guard let path = settings.statusPath else { return }
    do throws(CommandFailure) { try writeText(status.json.text + "\n", to: path) } catch {
      report(error.text(speaker: "apus-bench fleet"))
    }
  }

  private func stop() {
    isStopping = true
    for part in parts { part.signal(SIGTERM) }
  }

  /// - Parameter signal: The signal that requests the reports.
  private func cut(_ signal: Int32) {
    awaitsCuts = true
    for part in parts where part.isRunning {
      part.owesCut = true
      part.signal(signal)
    }
    printCut()
  }

  /// Prints the sum once every process has responded. Each then has reset its latency.
  private func printCut() {
    guard awaitsCuts, !parts.contains(where: \.owesCut) else { return }
    awaitsCuts = false
    printLine(status.json.text)
    for part in parts { part.status.latency.removeAll() }
  }

  // MARK: Reports of processes

  private func heard(_ report: FleetReport, from part: FleetProcess) {
    var report = report
    // Periodic reports of a process that has already responded belong to the next slice.
    if awaitsCuts, !part.owesCut, report.occasion == .passing {
      report.status.latency = part.status.latency
    }
    part.status = report.status
    switch report.occasion {
    case .passing, .last: break
    case .cut:
      part.owesCut = false
      printCut()
    case .registered:
      part.isRegistered = true
      finishRegistration()
    }
  }

  private func finishRegistration() {
    guard !isRegistered, parts.allSatisfy(\.isRegistered) else { return }
    isRegistered = true
    guard let path = settings.tokensPath else { return }
    do throws(CommandFailure) {
      let paths = parts.indices.compactMap { settings.part($0).tokensPath }
      var tokens = ""
      for path in paths { tokens += try readText(path) }
      try writeText(tokens, to: path)
      for path in paths { unsafe unlink(path) }
    } catch {
      fail(error)
    }
  }

  private func ended(_ part: FleetProcess) {
    if let end = part.ended() { fail(CommandFailure(.failed, end)) }
    printCut()
    if !isStopping, !settings.exitsAfterRegistration {
      fail(CommandFailure(.failed, "process \(part.index) ended unexpectedly"))
    }
    if !parts.contains(where: \.isRunning) { loop.stop() }
  }

  private func fail(_ failure: CommandFailure) {
    self.failure = self.failure ?? failure
    if !isStopping { stop() }
  }
}
