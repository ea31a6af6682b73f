/// Splits the arguments after a command's name into options and operands.
struct ArgumentScan {
  let program: Program
  let command: CommandDescription
  private let options: [OptionDescription]
  /// By flag.
  private(set) var values: [String: [Invocation.Given]] = [:]
  private(set) var operands: [String] = []

  init(program: Program, command: CommandDescription) {
    self.program = program
    self.command = command
    options = program.options(of: command)
  }

  /// Returns false as soon as it finds `--help`.
  mutating func read(_ arguments: ArraySlice<String>) throws(CommandFailure) -> Bool {
    var rest = arguments
    while let argument = rest.popFirst() {
      if argument == "--" {
        for operand in rest { try take(operand: operand) }
        break
      }
      if argument == Flag.help || argument == "-h" { return false }
      guard argument.hasPrefix("-"), argument != "-" else {
        try take(operand: argument)
        continue
      }
      try take(flag: argument, &rest)
    }
    if operands.count < command.operandCount.lowerBound {
      throw CommandFailure(
        .usage, "\(command.operands) is missing", remedy: seeHelp)
    }
    return true
  }

  private mutating func take(
    flag argument: String, _ rest: inout ArraySlice<String>
  ) throws(CommandFailure) {
    let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
    let flag = String(parts[0])
    guard let option = options.first(where: { $0.flag == flag }) else { throw unknown(flag) }
    let text: String
    if parts.count == 2 {
      text = String(parts[1])
    } else if option.isSwitch {
      text = "yes"
    } else if let next = rest.first, !options.contains(where: { $0.flag == next }) {
      text = next
      rest.removeFirst()
    } else {
      throw CommandFailure(
        .usage, "\(flag) needs a value",
        remedy: "\(flag) \(option.placeholder ?? ""): \(option.help)")
    }
    let given = Invocation.Given(text: text, origin: .flag(flag))
    // The last one counts, so that a script can put its defaults before its caller's arguments.
    values[flag] = (option.repeats ? values[flag] ?? [] : []) + [given]
  }

  private mutating func take(operand: String) throws(CommandFailure) {
    guard operands.count < command.operandCount.upperBound else {
      let flag = "--" + operand
      let hint =
        options.contains { $0.flag == flag } ? "Did you mean \(flag)?\n" : ""
      throw CommandFailure(
        .usage, "unexpected argument \"\(operand)\"", remedy: hint + seeHelp)
    }
    operands.append(operand)
  }

  private func unknown(_ flag: String) -> CommandFailure {
    let problem = "unknown option \(flag)"
    if let nearest = Suggestion.nearest(to: flag, among: options.map(\.flag) + [Flag.help]) {
      return CommandFailure(.usage, problem, remedy: "Did you mean \(nearest)?\n\(seeHelp)")
    }
    let owners = program.options.filter { $0.flag == flag }.flatMap(\.commands)
    guard owners.isEmpty else {
      let list = owners.map { "`\(program.name) \($0)`" }.joined(separator: ", ")
      return CommandFailure(.usage, problem, remedy: "It is an option of \(list).\n\(seeHelp)")
    }
    return CommandFailure(.usage, problem, remedy: seeHelp)
  }

  private var seeHelp: String { "`\(program.name) \(command.name) --help` lists its options." }
}
