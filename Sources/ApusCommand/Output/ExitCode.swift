package import ApusWire

/// The exit code of a command. Scripts rely on the numbers.
package enum ExitCode: Int32, Sendable, CaseIterable {
  case success = 0
  case failed = 1
  case usage = 2
  case unavailable = 3
  case configuration = 4

  /// The meaning, for help and the manual page.
  package var meaning: String {
    switch self {
    case .success: "done"
    case .failed: "the command failed: for example, a push was rejected or a file not written"
    case .usage: "the command line, the environment or the configuration file has an error"
    case .unavailable: "the service cannot be reached, or a port is taken"
    case .configuration: "the data directory, a key or a certificate is missing or unusable"
    }
  }
}

/// Why a command failed: the problem, where it is, and what to do.
package struct CommandFailure: Error, Sendable, Equatable, CustomStringConvertible {
  package var code: ExitCode
  package var problem: String
  /// The source of the value that caused the failure; nil if no value did.
  package var origin: Origin?
  /// What to do, in full sentences.
  package var remedy: String?
  /// The JSON to print instead of the usual error object, if the failure is itself a result.
  package var report: JSONValue?

  package init(
    _ code: ExitCode, _ problem: String, origin: Origin? = nil, remedy: String? = nil
  ) {
    self.code = code
    self.problem = problem
    self.origin = origin
    self.remedy = remedy
  }

  /// One line: source and problem.
  package var description: String {
    if let origin { "\(origin): \(problem)" } else { problem }
  }

  /// The text for standard error, after the name of the program and the command.
  package func text(speaker: String) -> String {
    var text = "\(speaker): \(self)\n"
    for line in (remedy ?? "").split(separator: "\n") { text += "  \(line)\n" }
    return text
  }

  /// The object for standard output with `--json`.
  package var json: JSONValue {
    report
      ?? .members([
        "error": .string(description), "exit_code": .integer(Int64(code.rawValue)),
        "remedy": remedy.map(JSONValue.string),
      ])
  }
}

/// The source of a value.
package enum Origin: Sendable, Hashable, CustomStringConvertible {
  case flag(String)
  case environment(String)
  case file(path: String, line: Int, key: String)
  /// The default of the option with this flag.
  case builtIn(String)

  package var description: String {
    switch self {
    case .flag(let flag): flag
    case .environment(let name): "\(name) (environment)"
    case .file(let path, let line, let key): "\(path), line \(line), \(key)"
    case .builtIn(let flag): "\(flag) (default)"
    }
  }
}
