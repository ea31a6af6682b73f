import ApusAgent
import ApusCommand
import ApusLog
import ApusLoop
import Glibc

/// `apus-agent run`: the agent on this thread, until it is stopped.
struct RunCommand {
  let invocation: Invocation

  init(_ invocation: Invocation) { self.invocation = invocation }

  func run() throws(CommandFailure) {
    let configuration = try invocation.readConfiguration()
    // libuv's threads only look up host names, one after the other; each thread costs memory.
    unsafe setenv("UV_THREADPOOL_SIZE", "1", 0)
    var log = Log(minimumLevel: level)
    log.hasPriorities = Log.isJournal(System.environment)
    let loop = EventLoop(name: "agent")
    let manager = ServiceManager(System.environment)
    let agent: Agent
    do throws(AgentFault) {
      agent = try Agent(
        loop: loop, configuration: configuration, log: log, manager: manager,
        code: invocation[AgentOptions.code])
    } catch {
      throw CommandFailure(.failed, error)
    }
    do throws(SocketError) {
      var watchers = try [SIGINT, SIGTERM].map { (signal) throws(SocketError) in
        try SignalWatcher(loop: loop, signal: signal) { agent.stop() }
      }
      watchers.append(
        try SignalWatcher(loop: loop, signal: SIGHUP) { reload(agent, log, manager) })
      // After SIGSTOP, time has passed as in a suspend.
      watchers.append(
        try SignalWatcher(loop: loop, signal: SIGCONT) { agent.verify("continued") })
      withExtendedLifetime(watchers) {
        agent.start()
        loop.run()
      }
    } catch {
      throw CommandFailure(.failed, "\(error)")
    }
  }

  private var level: Log.Level {
    switch invocation.value(AgentOptions.logLevel) {
    case .debug: .debug
    case .info: .info
    case .notice: .notice
    case .warning: .warning
    case .error: .error
    }
  }

  private func reload(_ agent: Agent, _ log: Log, _ manager: ServiceManager?) {
    manager?.reloading(monotonicMicroseconds: EventLoop.monotonicMilliseconds() * 1000)
    do throws(CommandFailure) {
      agent.reload(try invocation.readConfiguration())
    } catch {
      log(.error, "configuration not read, the former one stays", .text("reason", "\(error)"))
      manager?.ready("the configuration has an error")
    }
  }
}
