/// `--help`, generated from the table of options.
package struct HelpText {
  let program: Program
  /// Columns of the terminal, limited to a readable range.
  let width: Int
  /// Whether headings are bold.
  let isStyled: Bool

  package init(program: Program, columns: Int?, isStyled: Bool) {
    self.program = program
    width = min(max(columns ?? 80, 40), 100)
    self.isStyled = isStyled
  }

  // MARK: The program

  package func overview() -> String {
    var text = "\(program.name): \(program.summary)\n\n"
    text += "\(heading("Usage:")) \(program.name) COMMAND [options]\n"
    for paragraph in program.details {
      text += "\n" + TextLayout.paragraph(paragraph, width: width, indent: 0)
    }
    text += "\n\(heading("Commands"))\n"
    let column = 4 + (program.commands.map(\.name.count).max() ?? 0)
    for command in program.commands {
      text += TextLayout.entry(command.name, command.summary, column: column, width: width)
    }
    text += "\n\(heading("Exit codes"))\n" + exitCodes()
    let closing =
      "`\(program.name) COMMAND --help` describes a command, its options and other ways to set them."
    return text + "\n" + TextLayout.paragraph(closing, width: width, indent: 0)
  }

  // MARK: A command

  package func text(for command: CommandDescription) -> String {
    let options = program.options(of: command)
    let title = "\(program.name) \(command.name): \(command.summary)"
    var text = TextLayout.paragraph(title, width: width, indent: 0) + "\n"
    text += "\(heading("Usage:")) "
    text += TextLayout.paragraph(usage(of: command, options), width: width, indent: 7).dropFirst(7)
    for paragraph in command.details {
      text += "\n" + TextLayout.paragraph(paragraph, width: width, indent: 0)
    }
    let longest = options.map { Self.term(of: $0).count }.max() ?? 0
    let column = min(longest + 4, width > 60 ? 30 : 6)
    for group in OptionGroup.allCases {
      let members = options.filter { $0.group == group }
      if members.isEmpty { continue }
      text += "\n\(heading(group.rawValue))\n"
      for option in members {
        text += TextLayout.entry(
          Self.term(of: option), Self.description(of: option), column: column, width: width)
      }
      if let glossary = command.glossary, glossary.group == group { text += entries(glossary) }
    }
    if options.contains(where: { $0.environment != nil }) {
      let takesFile = options.contains { $0.fileKey != nil }
      text += "\n"
      text += TextLayout.paragraph(
        takesFile ? sources : environmentOnly, width: width, indent: 0)
    }
    if options.contains(where: { $0.flag == "--json" }) {
      text += "\n\(heading("Exit codes"))\n" + exitCodes()
    }
    return text + examples(of: command)
  }

  private func entries(_ glossary: CommandDescription.Glossary) -> String {
    let column = 4 + (glossary.entries.map(\.term.count).max() ?? 0)
    return "\n\(heading(glossary.heading))\n"
      + glossary.entries.map { term, help in
        TextLayout.entry(term, help, column: column, width: width)
      }.joined()
  }

  static func term(of option: OptionDescription) -> String {
    option.flag + (option.placeholder.map { " " + $0 } ?? "")
  }

  /// The option's help, followed by its default and environment variable.
  static func description(of option: OptionDescription) -> String {
    var notes: [String] = []
    if option.isRequired {
      notes.append((["required"] + option.alternatives).joined(separator: " without "))
    }
    if let value = option.defaultNote ?? option.defaultText { notes.append("default: \(value)") }
    if let name = option.environment { notes.append(name) }
    return option.help + (notes.isEmpty ? "" : " [\(notes.joined(separator: "; "))]")
  }

  private func usage(of command: CommandDescription, _ options: [OptionDescription]) -> String {
    var words = [program.name, command.name]
    words += options.filter(\.isRequired).map(Self.term)
    if !command.operands.isEmpty { words.append(command.operands) }
    if options.contains(where: { !$0.isRequired }) { words.append("[options]") }
    return words.joined(separator: " ")
  }

  private var sources: String {
    """
    Options with an upper-case name can be set as environment variables of that name, and in the configuration file \
    as `name = value`, where the name is the variable's without APUS_, in lower case and with hyphens. A flag \
    overrides the environment, and the environment overrides the file.
    """
  }

  private var environmentOnly: String {
    """
    Options with an upper-case name can be set as environment variables of that name. A flag overrides the variable.
    """
  }

  private func exitCodes() -> String {
    ExitCode.allCases.map {
      TextLayout.entry(String($0.rawValue), $0.meaning, column: 5, width: width)
    }.joined()
  }

  private func examples(of command: CommandDescription) -> String {
    if command.examples.isEmpty { return "" }
    var text = "\n\(heading("Examples"))\n"
    for (index, example) in command.examples.enumerated() {
      if index > 0 { text += "\n" }
      text += TextLayout.paragraph("\(example.purpose):", width: width, indent: 2)
      text += TextLayout.shellLine(example.line, width: width, indent: 4)
    }
    return text
  }

  private func heading(_ text: String) -> String { isStyled ? "\u{1b}[1m\(text)\u{1b}[0m" : text }
}
