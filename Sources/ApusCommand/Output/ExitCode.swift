package import ApusWire

/// How a command ended, for scripts. The numbers are part of the interface.
package enum ExitCode: Int32, Sendable, CaseIterable {
  case success = 0
  case failed = 1
  case usage = 2
  case unavailable = 3
  case configuration = 4

  /// What the manual says about it.
  package var meaning: String {
    switch self {
    case .success: "done"
    case .failed: "what was asked for did not happen: a push was rejected, a file not written"
    case .usage: "the command line, the environment or the configuration file has a mistake"
    case .unavailable: "the service cannot be reached, or a port is taken"
    case .configuration: "the data directory, a key or a certificate is missing or unusable"
    }
  }
}

/// Why a command ended otherwise than with success: what was wrong, where, and what to do.
package struct CommandFailure: Error, Sendable, Equatable, CustomStringConvertible {
  package var code: ExitCode
  package var problem: String
  /// Where the value that caused it stands; nil where no value did.
  package var origin: Origin?
  /// What to do, as a sentence.
  package var remedy: String?
  /// What a script reads instead of the usual object, where the failure is itself a result.
  package var report: JSONValue?

  package init(
    _ code: ExitCode, _ problem: String, origin: Origin? = nil, remedy: String? = nil
  ) {
    self.code = code
    self.problem = problem
    self.origin = origin
    self.remedy = remedy
  }

  /// One line: where and what.
  package var description: String {
    if let origin { "\(origin): \(problem)" } else { problem }
  }

  /// What a person reads on standard error, after the name of the program and the command.
  package func text(speaker: String) -> String {
    var text = "\(speaker): \(self)\n"
    for line in (remedy ?? "").split(separator: "\n") { text += "  \(line)\n" }
    return text
  }

  /// What a script reads on standard output where it asked for JSON.
  package var json: JSONValue {
    report
      ?? .members([
        "error": .string(description), "exit_code": .integer(Int64(code.rawValue)),
        "remedy": remedy.map(JSONValue.string),
      ])
  }
}

/// Where a value was given.
package enum Origin: Sendable, Hashable, CustomStringConvertible {
  case flag(String)
  case environment(String)
  case file(path: String, line: Int, key: String)
  /// Nowhere: it is the value that the option has when nobody gives one.
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
