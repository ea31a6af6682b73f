import ApusCommand
import ApusLoop
import ApusTrust
import Glibc

/// Tools that measure Apus and test it under load.
@main
struct Bench {
  static func main() {
    SignalWatcher.unblockAll()
    let arguments = Array(CommandLine.arguments.dropFirst())
    do throws(CommandFailure) {
      // Only the variable for the data directory is read from the environment.
      let environment = unsafe getenv("APUS_DATA").map { unsafe ["APUS_DATA": String(cString: $0)] }
      let parser = CommandLineParser(program: .bench, environment: environment ?? [:]) { _ in nil }
      switch try parser.parse(arguments) {
      case .help(let command): printHelp(command)
      case .version: print("apus-bench \(Program.version)")
      case .run(let invocation): try run(invocation)
      }
    } catch {
      let command = arguments.first.flatMap(BenchVerb.init).map { " \($0.rawValue)" } ?? ""
      report(error.text(speaker: "apus-bench" + command))
      exit(error.code.rawValue)
    }
  }

  private static func run(_ invocation: Invocation) throws(CommandFailure) {
    switch BenchVerb(rawValue: invocation.command) {
    case .jwt: print(try providerToken(invocation))
    case .fleet: try FleetCommand(invocation).run()
    case .binary: try BinaryCommand(invocation).run()
    case .flood: try FloodCommand(invocation).run()
    case .crash: try CrashCommand(invocation).run()
    case .register: try RegisterCommand(invocation).run()
    case .engine: try EngineCommand(invocation).run()
    case .fetch: try FetchCommand(invocation).run()
    case .send: try SendCommand(invocation).run()
    case .sendBinary: try SendBinaryCommand(invocation).run()
    case .push: try PushCommand(invocation).run()
    case .handshake: try HandshakeCommand(invocation).run()
    case .credentials: try CredentialsCommand(invocation).run()
    case .help:
      guard let name = invocation.operands.first else { return printHelp(nil) }
      guard let command = Program.bench.command(name) else {
        throw Program.bench.unknownCommand(name)
      }
      printHelp(command)
    case .man: print(ManualPage.text(for: .bench, version: Program.version))
    case nil: preconditionFailure("the table has a command that is not a verb")
    }
  }

  private static func printHelp(_ command: CommandDescription?) {
    let help = HelpText(program: .bench, columns: nil, isStyled: false)
    print(command.map(help.text) ?? help.overview(), terminator: "")
  }

  private static func providerToken(_ invocation: Invocation) throws(CommandFailure) -> String {
    let key = try readText(try invocation.require(BenchOptions.key))
    let keyID = try invocation.require(BenchOptions.keyID)
    let team = try invocation.require(BenchOptions.team)
    do throws(TrustFault) {
      return try ProviderToken.sign(
        teamID: team, keyID: keyID, issuedAt: Int64(time(nil)), key: PrivateKey(pem: key))
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
  }
}
