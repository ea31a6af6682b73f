import ApusAgent
import ApusCommand
import ApusLoop
import Glibc

/// The program: reads the command line, runs the command, and turns its outcome into output and an exit code.
@main
struct ApusAgentMain {
  static func main() {
    SignalWatcher.unblockAll()
    let arguments = Array(CommandLine.arguments.dropFirst())
    do throws(CommandFailure) {
      if arguments.isEmpty {
        Terminal.diagnostic(help(nil))
        _exit(ExitCode.usage.rawValue)
      }
      let parser = CommandLineParser(program: .agent, environment: System.environment) { _ in nil }
      switch try parser.parse(arguments) {
      case .help(let command): Terminal.standard(help(command))
      case .version: Terminal.standard("apus-agent \(Program.version)\n")
      case .run(let invocation):
        for warning in invocation.warnings { Terminal.diagnostic("apus-agent: \(warning)\n") }
        try run(invocation)
      }
    } catch {
      let command = arguments.first.flatMap(AgentVerb.init).map { " \($0.rawValue)" } ?? ""
      Terminal.diagnostic(error.text(speaker: "apus-agent" + command))
      if arguments.contains("--json") { Terminal.standard(error.json.text + "\n") }
      _exit(error.code.rawValue)
    }
    _exit(ExitCode.success.rawValue)
  }

  private static func run(_ invocation: Invocation) throws(CommandFailure) {
    switch AgentVerb(rawValue: invocation.command) {
    case .run: try RunCommand(invocation).run()
    case .check: try CheckCommand(invocation).run()
    case .status, .tokens, .history, .register, .unregister: try AskCommand(invocation).run()
    case .help:
      guard let name = invocation.operands.first else { return Terminal.standard(help(nil)) }
      guard let command = Program.agent.command(name) else {
        throw Program.agent.unknownCommand(name)
      }
      Terminal.standard(help(command))
    case .version: Terminal.standard("apus-agent \(Program.version)\n")
    case .man: Terminal.standard(ManualPage.text(for: .agent, version: Program.version))
    case nil: preconditionFailure("the table has a command that is not a verb")
    }
  }

  private static func help(_ command: CommandDescription?) -> String {
    let help = HelpText(program: .agent, columns: nil, isStyled: false)
    return command.map(help.text) ?? help.overview()
  }
}

/// Results on standard output, everything else on standard error.
enum Terminal {
  static func standard(_ text: String) { write(text, STDOUT_FILENO) }
  static func diagnostic(_ text: String) { write(text, STDERR_FILENO) }

  private static func write(_ text: String, _ descriptor: Int32) {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      let count = unsafe rest.withUnsafeBytes {
        unsafe Glibc.write(descriptor, $0.baseAddress, $0.count)
      }
      guard count > 0 || errno == EINTR else { return }
      rest = rest.dropFirst(max(count, 0))
    }
  }
}
