import ApusCommand
import ApusLoop
import ApusWire

/// The program: reads the command line, runs the command, and turns its outcome into output and an exit code.
@main
struct Apus {
  static func main() {
    SignalWatcher.unblockAll()
    let arguments = Array(CommandLine.arguments.dropFirst())
    if arguments.isEmpty {
      Output.diagnostic(help(nil))
      Process.end(.usage)
    }
    do throws(CommandFailure) {
      // The other arguments are for apus-bench.
      if Verb(rawValue: arguments[0]) == .bench {
        try BenchCommand.run(Array(arguments.dropFirst()))
      }
      let parser = CommandLineParser(program: .apus, environment: Process.environment) {
        (path) throws(CommandFailure) in try Process.textIfPresent(path)
      }
      switch try parser.parse(arguments) {
      case .help(let command): print(help(command))
      case .version: print(versionLine)
      case .run(let invocation):
        for warning in invocation.warnings { Output.diagnostic("apus: \(warning)\n") }
        try run(invocation)
      }
    } catch {
      fail(error, arguments)
    }
    Process.end(.success)
  }

  private static func run(_ invocation: Invocation) throws(CommandFailure) {
    guard let verb = Verb(rawValue: invocation.command) else {
      preconditionFailure("the table has a command that is not a verb")
    }
    switch verb {
    case .initialize: try InitializeCommand(invocation).run()
    case .team: try TeamCommand(invocation).run()
    case .app: try AppCommand(invocation).run()
    case .key: try KeyCommand(invocation).run()
    case .rotate: try RotateCommand(invocation).run()
    case .store: try StoreCommand(invocation).run()
    case .cluster: try ClusterCommand(invocation).run()
    case .backup: try BackupCommand(invocation).run()
    case .restore: try RestoreCommand(invocation).run()
    case .check: try CheckCommand(invocation).run()
    case .admin: try AdminCommand(invocation).run()
    case .webhook: try WebhookCommand(invocation).run()
    case .status: try StatusCommand(invocation).run()
    case .cert: try CertificateCommand(invocation).run()
    case .device: try DeviceCommand(invocation).run()
    case .code: try CodeCommand(invocation).run()
    case .serve: try ServeCommand(invocation).run()
    case .dev: try DevCommand(invocation).run()
    case .send: try SendCommand(invocation).run()
    case .job: try JobCommand(invocation).run()
    case .channel: try ChannelCommand(invocation).run()
    case .relay: try RelayCommand(invocation).run()
    case .listen: try ListenCommand(invocation).run()
    case .log: try LogCommand(invocation).run()
    case .token: try TokenCommand(invocation).run()
    case .doctor: try DoctorCommand(invocation).run()
    case .feedback:
      try runBlocking { () async throws(CommandFailure) in
        try await FeedbackCommand(invocation).run()
      }
    case .bench: preconditionFailure("the program became another one")
    case .help: print(help(try invocation.operands.first.map(described)))
    case .version: print(versionLine)
    case .completions: try printCompletions(invocation.operands[0])
    case .man: print(ManualPage.text(for: .apus, version: Program.version))
    }
  }

  private static var versionLine: String { "apus \(Program.version)\n" }

  private static func print(_ text: String) { Output.standard(text) }

  private static func help(_ command: CommandDescription?) -> String {
    let help = HelpText(
      program: .apus, columns: Process.columns, isStyled: Process.wantsStyle)
    return command.map(help.text) ?? help.overview()
  }

  private static func described(_ name: String) throws(CommandFailure) -> CommandDescription {
    guard let command = Program.apus.command(name) else {
      throw Program.apus.unknownCommand(name)
    }
    return command
  }

  private static func printCompletions(_ name: String) throws(CommandFailure) {
    guard let shell = Shell(rawValue: name) else {
      throw CommandFailure(
        .usage, "there are no completions for \"\(name)\"", remedy: "Use bash, zsh or fish.")
    }
    print(shell.completions(for: .apus))
  }

  private static func fail(_ failure: CommandFailure, _ arguments: [String]) -> Never {
    let isCommand = arguments.first.flatMap(Verb.init) != nil
    let speaker = isCommand ? "apus \(arguments[0])" : "apus"
    Output.diagnostic(failure.text(speaker: speaker))
    // The raw arguments decide, because parsing them may have failed.
    if arguments.contains("--json") { Output.json(failure.json) }
    Process.end(failure.code)
  }
}
