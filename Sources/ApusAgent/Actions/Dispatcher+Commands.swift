import ApusLog
import ApusLoop
import CSystemd
import Glibc

// Commands: starting those that may, and what their end means.

extension Dispatcher {
  func startCommands() {
    guard mayStart else { return }
    while let key = queue.next(topicLimit: { [rules] in rules[$0]?.run?.limit ?? 1 }) {
      guard let delivery = deliveries[key], let rule = delivery.rule.run else {
        queue.ended(key)
        continue
      }
      start(delivery, rule)
    }
  }

  private func start(_ delivery: Delivery, _ rule: RunRule) {
    let arrival = delivery.arrival
    let key = arrival.key
    let started = DeliveryRecord.start(key, seconds: EventLoop.wallClockMilliseconds() / 1000)
    let output = openOutput(of: arrival.topic)
    defer { closeOutput(output) }
    do throws(AgentFault) {
      let process = try CommandProcess(
        CommandProcess.Setup(
          words: rule.words, directory: rule.directory, account: try account(rule.user),
          variables: arrival.variables, input: arrival.payload,
          timeoutSeconds: rule.timeoutSeconds, output: output,
          record: (file.descriptor, started, DeliveryRecord.again(key))), loop: loop
      ) { [weak self] in self?.commandEnded(key, $0) }
      file.learn(started)
      commands[key] = process
    } catch {
      queue.ended(key)
      ended(.run, of: key, .again(error.problem))
    }
  }

  private func commandEnded(_ key: String, _ ending: CommandProcess.Ending) {
    commands[key] = nil
    queue.ended(key)
    let result: ActionResult =
      switch ending {
      case .exited(let code): ActionResult(exitCode: code)
      case .killed(let signal): .failed("signal \(signal)")
      case .timedOut: .failed("timed out")
      }
    if case .again = result {
      do throws(AgentFault) {
        try file.write(DeliveryRecord.again(key), durably: true)
      } catch {
        log(.error, "not recorded", .text("reason", "\(error)"))
      }
    }
    ended(.run, of: key, result)
    startCommands()
    if !mayStart, commands.isEmpty { becomeIdle() }
  }

  private func account(_ name: String?) throws(AgentFault) -> Account? {
    guard let name else { return nil }
    // Looked up each time: a change of the user's groups takes effect.
    guard let account = Account(named: name) else {
      throw AgentFault("there is no user \"\(name)\"")
    }
    return account
  }

  /// Where a command of a topic writes: a stream of the journal that bears its name, or standard error. A stream of its
  /// own, so that the journal ends its last line with it.
  private func openOutput(of topic: String) -> Int32 {
    guard log.hasPriorities else { return STDERR_FILENO }
    let stream = unsafe sd_journal_stream_fd("apus-agent/\(topic)", LOG_INFO, 0)
    return stream >= 0 ? stream : STDERR_FILENO
  }

  private func closeOutput(_ output: Int32) { if output != STDERR_FILENO { close(output) } }

  /// The user chose an action of a notification on the desktop.
  func runAction(_ arrival: Arrival, _ action: String) {
    guard mayStart, let words = rules[arrival.topic]?.show?.onAction else { return }
    let key = "\(arrival.key) \(action)"
    let output = openOutput(of: arrival.topic)
    defer { closeOutput(output) }
    do throws(AgentFault) {
      commands[key] = try CommandProcess(
        CommandProcess.Setup(
          words: words, directory: "/", account: nil,
          variables: arrival.variables + [("APUS_NOTIFICATION_ACTION", action)],
          input: arrival.payload, timeoutSeconds: 60, output: output,
          record: nil), loop: loop
      ) { [weak self] _ in
        guard let self else { return }
        commands[key] = nil
        if !mayStart, commands.isEmpty { becomeIdle() }
      }
    } catch {
      log(
        .warning, "an action of a notification failed", .text("id", arrival.id),
        .text("action", action), .text("reason", "\(error)"))
    }
  }
}
