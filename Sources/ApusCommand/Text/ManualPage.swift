/// The manual page in the syntax of man(7), generated from the table of options.
package enum ManualPage {
  package static func text(for program: Program, version: String) -> String {
    var text = """
      .TH \(program.name.uppercased()) 1 "" "\(program.name) \(version)" "User commands"
      .SH NAME
      \(program.name) \\- \(escaped(program.summary))
      .SH SYNOPSIS
      .B \(program.name)
      .I command
      .RI [ options ]
      .SH DESCRIPTION

      """
    text += paragraphs(program.details)
    text += ".SH COMMANDS\n"
    for command in program.commands { text += section(for: command, of: program) }
    text += ".SH EXIT STATUS\n"
    for code in ExitCode.allCases { text += ".TP\n.B \(code.rawValue)\n\(escaped(code.meaning))\n" }
    return text + environment(of: program)
  }

  private static func section(for command: CommandDescription, of program: Program) -> String {
    let operands = command.operands.isEmpty ? "" : " " + command.operands
    var text = ".SS \"\(program.name) \(command.name)\(escaped(operands))\"\n"
    text += line(command.summary.prefix(1).uppercased() + command.summary.dropFirst() + ".")
    if !command.details.isEmpty { text += ".PP\n" + paragraphs(command.details) }
    for option in program.options(of: command) {
      text += ".TP\n.BR \(escaped(option.flag))"
      if let placeholder = option.placeholder { text += " \" \" \\fI\(escaped(placeholder))\\fR" }
      text += "\n" + line(HelpText.description(of: option))
    }
    if let glossary = command.glossary {
      text += ".PP\n" + line(glossary.heading + ":")
      for (term, help) in glossary.entries { text += ".TP\n.B \(escaped(term))\n" + line(help) }
    }
    for example in command.examples {
      text +=
        ".PP\n" + line(example.purpose + ":") + ".PP\n.nf\n.RS\n" + line(example.line)
        + ".RE\n.fi\n"
    }
    return text
  }

  private static func environment(of program: Program) -> String {
    var seen: Set<String> = []
    var text = ".SH ENVIRONMENT\n"
    for option in program.options {
      guard let name = option.environment, seen.insert(name).inserted else { continue }
      let commands = option.commands.joined(separator: ", ")
      text += ".TP\n.B \(name)\n" + line("\(option.flag) of \(commands)")
    }
    return text
  }

  private static func paragraphs(_ paragraphs: [String]) -> String {
    paragraphs.map(line).joined(separator: ".PP\n")
  }

  /// A line of text, escaped if it begins with a full stop or an apostrophe, which would make it a request.
  private static func line(_ text: some StringProtocol) -> String {
    let text = escaped(String(text))
    return (text.hasPrefix(".") || text.hasPrefix("'") ? "\\&" : "") + text + "\n"
  }

  private static func escaped(_ text: String) -> String {
    text.map { character in
      switch character {
      case "\\": "\\e"
      case "-": "\\-"
      case "'": "\\(aq"
      default: String(character)
      }
    }.joined()
  }
}
