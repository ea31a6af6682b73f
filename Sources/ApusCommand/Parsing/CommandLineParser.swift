/// What a command line requests.
package enum Request: Sendable {
  /// Help about a command, or about the program if nil.
  case help(CommandDescription?)
  case version
  case run(Invocation)
}

/// Reads a command line, the environment and the configuration file into one `Invocation`.
///
/// For each option, a flag overrides the environment, the environment overrides the file, and the file overrides the
/// default. Pure: the environment and the files are parameters.
package struct CommandLineParser {
  let program: Program
  let environment: [String: String]
  /// Returns the text of a file; nil if it does not exist.
  let readFile: (String) throws(CommandFailure) -> String?

  package init(
    program: Program, environment: [String: String],
    readFile: @escaping (String) throws(CommandFailure) -> String?
  ) {
    self.program = program
    self.environment = environment
    self.readFile = readFile
  }

  /// - Parameter arguments: Without the program's name.
  package func parse(_ arguments: [String]) throws(CommandFailure) -> Request {
    guard let first = arguments.first else {
      throw CommandFailure(
        .usage, "no command given", remedy: "`\(program.name) help` lists the commands.")
    }
    switch first {
    case "--help", "-h": return .help(nil)
    case "--version": return .version
    default: break
    }
    if first.hasPrefix("-") {
      throw CommandFailure(
        .usage, "the command must come before \(first)",
        remedy: "`\(program.name) help` lists the commands.")
    }
    guard let command = program.command(first) else { throw program.unknownCommand(first) }
    var scan = ArgumentScan(program: program, command: command)
    guard try scan.read(arguments.dropFirst()) else { return .help(command) }
    return .run(try resolve(scan))
  }

  // MARK: Precedence

  private func resolve(_ scan: ArgumentScan) throws(CommandFailure) -> Invocation {
    let options = program.options(of: scan.command)
    var values = scan.values
    for option in options where values[option.flag] == nil {
      values[option.flag] = fromEnvironment(option)
    }
    if let file = try configurationFile(options, values) {
      try checkKeys(of: file)
      for option in options where values[option.flag] == nil {
        values[option.flag] = try fromFile(file, option)
      }
    }
    for option in options where values[option.flag] == nil {
      guard let text = option.defaultText else { continue }
      values[option.flag] = split(text, option, .builtIn(option.flag))
    }
    let invocation = Invocation(
      program: program.name, command: scan.command.name, operands: scan.operands,
      warnings: misspeltVariables(), values: values)
    for option in options {
      for given in values[option.flag] ?? [] {
        if let problem = option.check(given.text) { throw failure(option, given, problem) }
      }
      let isThere = ([option.flag] + option.alternatives).contains { values[$0] != nil }
      if option.isRequired, !isThere { throw invocation.missing(option) }
    }
    return invocation
  }

  private func failure(
    _ option: OptionDescription, _ given: Invocation.Given, _ problem: String
  ) -> CommandFailure {
    // A whole payload would fill the screen.
    let text = given.text.count > 60 ? given.text.prefix(57) + "..." : given.text[...]
    return CommandFailure(
      .usage, "\"\(text)\" \(problem)", origin: given.origin,
      remedy: "\(option.flag)\(option.placeholder.map { " " + $0 } ?? ""): \(option.help)")
  }

  private func fromEnvironment(_ option: OptionDescription) -> [Invocation.Given]? {
    guard let name = option.environment, let text = environment[name], !text.isEmpty else {
      return nil
    }
    return split(text, option, .environment(name))
  }

  private func fromFile(
    _ file: ConfigurationFile, _ option: OptionDescription
  ) throws(CommandFailure) -> [Invocation.Given]? {
    let entries = file.entries.filter { $0.key == option.fileKey }
    guard let last = entries.last else { return nil }
    if entries.count > 1, !option.repeats {
      throw CommandFailure(
        .usage, "the setting is already on line \(entries[0].line)",
        origin: file.origin(of: last), remedy: "Keep one of them.")
    }
    return entries.flatMap { split($0.value, option, file.origin(of: $0)) }
  }

  /// Splits the text of a repeatable option at commas and spaces, for sources that give a single text.
  private func split(
    _ text: String, _ option: OptionDescription, _ origin: Origin
  ) -> [Invocation.Given] {
    guard option.repeats else { return [Invocation.Given(text: text, origin: origin)] }
    return text.split { $0 == "," || $0 == " " }.map {
      Invocation.Given(text: String($0), origin: origin)
    }
  }

  // MARK: The file

  /// The file of `--config`, which must exist, or else `apus.conf` in the data directory, which may.
  private func configurationFile(
    _ options: [OptionDescription], _ values: [String: [Invocation.Given]]
  ) throws(CommandFailure) -> ConfigurationFile? {
    if let given = values[Flag.configuration]?.last {
      guard let text = try readFile(given.text) else {
        throw CommandFailure(
          .configuration, "the file \(given.text) does not exist", origin: given.origin)
      }
      return try ConfigurationFile(path: given.text, text: text)
    }
    guard options.contains(where: { $0.flag == Flag.configuration }),
      let data = options.first(where: { $0.flag == Flag.data }),
      let directory = values[Flag.data]?.last?.text ?? data.defaultText
    else { return nil }
    let path = "\(directory)/\(Flag.implicitFile)"
    guard let text = try readFile(path) else { return nil }
    let file = try ConfigurationFile(path: path, text: text)
    if let entry = file.entries.first(where: { $0.key == data.fileKey }) {
      throw CommandFailure(
        .usage, "a file in the data directory cannot change the data directory",
        origin: file.origin(of: entry), remedy: "Remove the line, or name the file with --config.")
    }
    return file
  }

  /// The file may contain settings of other commands, but no unknown ones.
  private func checkKeys(of file: ConfigurationFile) throws(CommandFailure) {
    let known = Set(program.options.compactMap(\.fileKey))
    for entry in file.entries where !known.contains(entry.key) {
      let nearest = Suggestion.nearest(to: entry.key, among: known.sorted())
      throw CommandFailure(
        .usage, "unknown setting", origin: file.origin(of: entry),
        remedy: nearest.map { "Did you mean `\($0)`?" }
          ?? "A setting has the name of a flag, without the leading hyphens.")
    }
  }

  /// Variables that are read but are not options, because secrets must not be on the command line.
  private static let secrets: Set = [AdminOptions.tokenVariable]

  private func misspeltVariables() -> [String] {
    let known = Set(program.options.compactMap(\.environment)).sorted()
    return environment.keys
      .filter { $0.hasPrefix("APUS_") && !known.contains($0) && !Self.secrets.contains($0) }
      .sorted()
      .compactMap { name in
        Suggestion.nearest(to: name, among: known).map {
          "\(name) (environment) has no effect; did you mean \($0)?"
        }
      }
  }
}

/// Flags that the parser handles itself, and the default configuration file.
enum Flag {
  static let help = "--help"
  static let configuration = "--config"
  static let data = "--data"
  static let implicitFile = "apus.conf"
}
