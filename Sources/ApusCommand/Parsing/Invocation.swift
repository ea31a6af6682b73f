/// A command with the checked values of all its options, including defaults.
package struct Invocation: Sendable {
  /// A value as given.
  package struct Given: Sendable, Hashable {
    package var text: String
    package var origin: Origin
  }

  package let program: String
  package let command: String
  package let operands: [String]
  /// Harmless likely mistakes, for standard error.
  package let warnings: [String]
  /// By flag.
  let values: [String: [Given]]

  /// The value, from the strongest of flag, environment, file and default; nil if there is none.
  package subscript<Value>(_ option: Option<Value>) -> Value? { all(option).last }

  /// All values of a repeatable option.
  package func all<Value>(_ option: Option<Value>) -> [Value] {
    given(option).map { given in
      do throws(ValueProblem) {
        return try option.read(given.text)
      } catch {
        preconditionFailure("a value was not checked: \(given.origin) \(error.text)")
      }
    }
  }

  /// The value of an option that this command requires.
  package func require<Value>(_ option: Option<Value>) throws(CommandFailure) -> Value {
    if let value = self[option] { return value }
    throw missing(option.description)
  }

  /// The value of an option that has a default.
  package func value<Value>(_ option: Option<Value>) -> Value {
    guard let value = self[option] else {
      preconditionFailure("\(option.description.flag) of \(command) has no default")
    }
    return value
  }

  /// Whether a switch is on.
  package func isOn(_ option: Option<Bool>) -> Bool { self[option] ?? false }

  /// Whether the value is not the default.
  package func isGiven(_ option: Option<some Sendable>) -> Bool {
    if case .builtIn = given(option).last?.origin ?? .builtIn("") { false } else { true }
  }

  /// Whether it was given on the command line itself, and so for this call.
  package func isFlagged(_ option: Option<some Sendable>) -> Bool {
    isFlagged(option.description)
  }

  package func isFlagged(_ option: OptionDescription) -> Bool { isFlagged(flag: option.flag) }

  func isFlagged(flag: String) -> Bool {
    if case .flag = values[flag]?.last?.origin { true } else { false }
  }

  /// A failure about the value of an option, which names the source of that value.
  package func failure(
    _ code: ExitCode = .usage, about option: Option<some Sendable>, _ problem: String,
    remedy: String? = nil
  ) -> CommandFailure {
    let origin = given(option).last?.origin ?? .flag(option.description.flag)
    return CommandFailure(code, problem, origin: origin, remedy: remedy)
  }

  /// The failure for a missing option.
  package func missing(_ option: OptionDescription) -> CommandFailure {
    var places = ["\(option.flag) \(option.placeholder ?? "")"]
    if let name = option.environment { places.append("set \(name)") }
    if let key = option.fileKey { places.append("write `\(key) = …` into the configuration file") }
    return CommandFailure(
      .usage, "\(option.flag) is missing",
      remedy: "Give \(places.joined(separator: ", or "))\n"
        + "`\(program) \(command) --help` describes it.")
  }

  private func given(_ option: Option<some Sendable>) -> [Given] {
    assert(
      option.description.commands.contains(command), "\(command) has no \(option.description.flag)")
    return values[option.description.flag] ?? []
  }
}
