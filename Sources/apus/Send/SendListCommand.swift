import ApusClient
import ApusCommand
import ApusLoop
import ApusModel
import ApusWire
import Glibc

/// `apus send --tokens`: one message to many recipients.
struct SendListCommand {
  let invocation: Invocation

  init(_ invocation: Invocation) { self.invocation = invocation }

  func run() throws(CommandFailure) {
    try SendGroupCommand.refuseOptions(invocation)
    let template = try MessageTemplate(invocation) { (path) throws(CommandFailure) in
      if path == "-", invocation[SendOptions.tokens] == "-" {
        throw invocation.failure(
          about: SendOptions.tokens, "standard input cannot be both the list and the payload")
      }
      return try Process.payload(path, invocation)
    }
    let list = try RecipientList(invocation)
    let credentials = SendCredentials(invocation)
    if invocation.isOn(SendOptions.dryRun) {
      return try DryRunOfList(invocation, list, template, credentials).run()
    }
    let results = try ResultsFile(invocation, list: list)
    let client = try invocation.client(credentials)
    let run = SendRun(
      results: results, printsOutcomes: invocation.isOn(ApusOptions.json), list: list)
    let signals = try watchSignals(run)
    let started = Process.milliseconds
    let concurrency = invocation.value(SendOptions.concurrency)
    let sending = BackgroundWork {
      await run.send(with: client, concurrency: concurrency)
      await client.close()
    }
    let progress = isatty(STDERR_FILENO) == 1 ? BackgroundWork { await run.showProgress() } : nil
    do throws(CommandFailure) {
      var feeder = RowFeeder(invocation, list, template, credentials, run, results)
      try feeder.feed()
    } catch {
      run.fail(error)
    }
    run.rows.end()
    sending.wait()
    run.changeTally { $0.finish() }
    run.finish()
    progress?.wait()
    withExtendedLifetime(signals) {}
    var failure = run.failure
    if let error = results.finish() { failure = failure ?? error }
    try report(run.tally, milliseconds: Process.milliseconds - started, failure)
  }

  /// The first signal lets pushes in flight finish, the second ends the program.
  private func watchSignals(_ run: SendRun) throws(CommandFailure) -> SignalLoop {
    try SignalLoop([SIGINT, SIGTERM]) { count in
      if count > 1 { Process.end(.failed) }
      run.interrupt()
    }
  }

  private func report(
    _ tally: RunTally, milliseconds: Int64, _ failure: CommandFailure?
  ) throws(CommandFailure) {
    let json = tally.json(milliseconds: milliseconds)
    if !invocation.isOn(ApusOptions.json) {
      Output.standard(tally.text(milliseconds: milliseconds))
    } else if failure == nil, tally.isAllAccepted {
      Output.json(json)
    }
    guard failure != nil || !tally.isAllAccepted else { return }
    var failure =
      failure ?? Self.failure(tally, hasResults: invocation.isGiven(SendOptions.results))
    if failure.report == nil { failure.report = json }
    throw failure
  }

  private static func failure(_ tally: RunTally, hasResults: Bool) -> CommandFailure {
    let goOn = hasResults ? "To continue, add --resume to the command." : nil
    switch tally.stop {
    case .credentialRefused(let reason):
      return CommandFailure(
        .failed, "the service rejects the credential: \(reason)",
        remedy: "`apus doctor` and `apus token check` explain why."
          + (goOn.map { "\n" + $0 } ?? ""))
    case .unreachable(let cause):
      return CommandFailure(.unavailable, cause, remedy: goOn)
    case .interrupted:
      return CommandFailure(.failed, "interrupted before the end of the list", remedy: goOn)
    case nil:
      let bad = tally.rejected + tally.unknown + tally.invalid + tally.leftInDoubt
      return CommandFailure(
        .failed,
        bad == 1 ? "1 row was not accepted" : "\(Digits.grouped(bad)) rows were not accepted",
        remedy: hasResults ? nil : "--results FILE records the outcome of each row.")
    }
  }
}

/// Watches signals on a separate thread until the program ends.
final class SignalLoop {
  private let loop = EventLoop(name: "signals")

  /// Keeps the watchers alive as long as their handler.
  private final class Box {
    var watchers: [SignalWatcher] = []
    var count = 0
  }

  /// - Parameter handler: Receives the number of signals so far.
  init(
    _ signals: [Int32], handler: @escaping @Sendable (Int) -> Void
  ) throws(CommandFailure) {
    let box = Box()
    do throws(SocketError) {
      for signal in signals {
        let watcher = try SignalWatcher(loop: loop, signal: signal) {
          box.count += 1
          handler(box.count)
        }
        box.watchers.append(watcher)
      }
    } catch {
      throw CommandFailure(.failed, "\(error)")
    }
    loop.start()
  }
}
