/// One option. Parsing, help, completions and the manual page all use this description.
package struct OptionDescription: Sendable {
  /// With its two hyphens.
  package var flag: String
  /// The placeholder for the value in help; nil for a switch.
  package var placeholder: String?
  package var isSwitch: Bool { placeholder == nil }
  /// The environment variable; nil for an option that makes sense for one call only, such as the text of a
  /// notification.
  package var environment: String?
  package var fileKey: String?
  /// The value if none is given.
  package var defaultText: String?
  /// Text for help about the default, instead of `defaultText`.
  package var defaultNote: String?
  package var help: String
  package var group: OptionGroup
  /// The names of the commands that have this option.
  package var commands: [String]
  package var isRequired: Bool
  /// Flags of options that satisfy `isRequired` in its place.
  package var alternatives: [String]
  /// May be given several times; the values of one source replace all values of a weaker source.
  package var repeats: Bool
  package var completion: Completion
  /// Describes what is wrong with a value; nil if the value is valid.
  package var check: @Sendable (String) -> String?

  /// Unique among all options of a program: several options may share a flag, each for other commands.
  package var id: String { flag + " " + commands.joined(separator: ",") }
}

/// What the shell completes for a value.
package enum Completion: Sendable, Hashable {
  case nothing
  case file
  case directory
  case words([String])
}

/// The headings of a command's help, in order.
package enum OptionGroup: String, Sendable, CaseIterable {
  case message = "Message"
  case list = "Many recipients"
  case devices = "Devices by name or tag"
  case connection = "Connection"
  case credentials = "Credentials"
  case listeners = "Listeners"
  case service = "Service"
  case change = "What to change"
  case upstream = "Upstream"
  case issue = "What to issue"
  case device = "Device"
  case search = "What to look for"
  case load = "Load"
  case elsewhere = "Remote service"
  case general = "General"
}

/// An option together with the type of its values.
package struct Option<Value: Sendable>: Sendable {
  package let description: OptionDescription
  let read: @Sendable (String) throws(ValueProblem) -> Value

  /// - Parameters:
  ///   - scope: Whether the environment and the configuration file may set it, and under which name.
  ///   - note: Text for help about the default, if `defaultText` says too little.
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
  /// As a flag, as the environment variable `APUS_` with the flag in upper case, and in the file under the flag's name
  /// without the leading hyphens.
  case everywhere
  /// The same under another name, if the flag means different things to different commands.
  case named(String)
  /// Flag and environment only, for the path of the configuration file.
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
