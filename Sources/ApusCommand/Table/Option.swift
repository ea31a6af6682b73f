/// One option, described once: parsing, help, completions and the manual page all come from this.
package struct OptionDescription: Sendable {
  /// With its hyphens.
  package var flag: String
  /// What stands for the value in help; nil for a switch, which takes none.
  package var placeholder: String?
  package var isSwitch: Bool { placeholder == nil }
  /// Nil for what makes sense for one call only, such as the text of a notification.
  package var environment: String?
  package var fileKey: String?
  /// Read as if it had been given where nobody gives one.
  package var defaultText: String?
  /// What help says about the default instead of `defaultText`.
  package var defaultNote: String?
  package var help: String
  package var group: OptionGroup
  /// The commands that take it, by name.
  package var commands: [String]
  package var isRequired: Bool
  /// Flags of the options that take its place where it is required.
  package var alternatives: [String]
  /// May be given several times; a source with several values replaces all values of a weaker one.
  package var repeats: Bool
  package var completion: Completion
  /// What is wrong with a value; nil where nothing is.
  package var check: @Sendable (String) -> String?

  /// The name that it has among all options of a program: several options may share a flag, each for other commands.
  package var id: String { flag + " " + commands.joined(separator: ",") }
}

/// What the shell offers for a value.
package enum Completion: Sendable, Hashable {
  case nothing
  case file
  case directory
  case words([String])
}

/// The headings of a command's help, in their order.
package enum OptionGroup: String, Sendable, CaseIterable {
  case message = "Message"
  case list = "Many recipients"
  case connection = "Connection"
  case credentials = "Credentials"
  case listeners = "Listeners"
  case service = "Service"
  case change = "What to change"
  case issue = "What to issue"
  case device = "Device"
  case search = "What to look for"
  case load = "Load"
  case elsewhere = "A service elsewhere"
  case general = "General"
}

/// An option together with the type of its values.
package struct Option<Value: Sendable>: Sendable {
  package let description: OptionDescription
  let read: @Sendable (String) throws(ValueProblem) -> Value

  /// - Parameters:
  ///   - scope: Whether the environment and the configuration file may give it, and under which name.
  ///   - note: What help says about the default, where the default's own text says too little.
  init<Verb: RawRepresentable<String>>(
    _ flag: String, _ syntax: ValueSyntax<Value>, in commands: [Verb], group: OptionGroup,
    scope: OptionScope = .everywhere, default defaultText: String? = nil, note: String? = nil,
    isRequired: Bool = false, alternatives: [String] = [], repeats: Bool = false, help: String
  ) {
    let read = syntax.read
    description = OptionDescription(
      flag: flag, placeholder: syntax.placeholder, environment: scope.environment(flag: flag),
      fileKey: scope.fileKey(flag: flag), defaultText: defaultText, defaultNote: note, help: help,
      group: group, commands: commands.map(\.rawValue), isRequired: isRequired,
      alternatives: alternatives, repeats: repeats,
      completion: syntax.completion,
      check: { text in
        do throws(ValueProblem) {
          _ = try read(text)
          return nil
        } catch {
          return error.text
        }
      })
    self.read = read
  }
}

/// Where an option may be given.
package enum OptionScope: Sendable {
  /// Flag, `APUS_` and the flag in capitals, and the flag without hyphens in front as the file's key.
  case everywhere
  /// The same under a name of its own, where a flag means different things to different commands.
  case named(String)
  /// Flag and environment: what the configuration file could not say of itself.
  case flagAndEnvironment
  case flagOnly

  private func name(_ flag: String) -> String? {
    switch self {
    case .everywhere, .flagAndEnvironment: String(flag.drop { $0 == "-" })
    case .named(let name): name
    case .flagOnly: nil
    }
  }

  func environment(flag: String) -> String? {
    name(flag).map { "APUS_" + String($0.uppercased().map { $0 == "-" ? "_" : $0 }) }
  }

  func fileKey(flag: String) -> String? {
    if case .flagAndEnvironment = self { nil } else { name(flag) }
  }
}
