/// Completions for shells, generated from the table of options.
package enum Shell: String, Sendable, CaseIterable {
  case bash
  case zsh
  case fish

  package func completions(for program: Program) -> String {
    switch self {
    case .bash: bash(program)
    case .zsh: zsh(program)
    case .fish: fish(program)
    }
  }

  private func flags(_ program: Program, _ command: CommandDescription) -> [String] {
    program.options(of: command).map(\.flag) + [Flag.help]
  }

  private func operandWords(_ program: Program, _ command: CommandDescription) -> [String] {
    command.operands == "[COMMAND]" ? program.commands.map(\.name) : command.operandWords
  }

  // MARK: bash

  private func bash(_ program: Program) -> String {
    let function = "_\(program.name.map { $0 == "-" ? "_" : String($0) }.joined())"
    var text = """
      # bash completions of \(program.name)
      \(function)() {
        local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
        COMPREPLY=()
        if ((COMP_CWORD == 1)); then
          COMPREPLY=($(compgen -W "\(program.commands.map(\.name).joined(separator: " ")) --help --version" -- "$word"))
          return
        fi
        case "${COMP_WORDS[1]} $before" in

      """
    for command in program.commands {
      for option in program.options(of: command) {
        guard let action = bashAction(option) else { continue }
        text += "    \"\(command.name) \(option.flag)\") \(action); return ;;\n"
      }
    }
    text += "  esac\n  case \"${COMP_WORDS[1]}\" in\n"
    for command in program.commands {
      let words = flags(program, command) + operandWords(program, command)
      text +=
        "    \(command.name)) COMPREPLY=($(compgen -W \"\(words.joined(separator: " "))\" -- \"$word\")) ;;\n"
    }
    return text + "  esac\n}\ncomplete -o filenames -F \(function) \(program.name)\n"
  }

  private func bashAction(_ option: OptionDescription) -> String? {
    if option.isSwitch { return nil }
    return switch option.completion {
    case .nothing: ":"
    case .file: "COMPREPLY=($(compgen -f -- \"$word\"))"
    case .directory: "COMPREPLY=($(compgen -d -- \"$word\"))"
    case .words(let words):
      "COMPREPLY=($(compgen -W \"\(words.joined(separator: " "))\" -- \"$word\"))"
    }
  }

  // MARK: zsh

  private func zsh(_ program: Program) -> String {
    var text = """
      #compdef \(program.name)
      # zsh completions of \(program.name)
      _\(program.name)() {
        local -a commands
        commands=(

      """
    for command in program.commands {
      text += "    \(Self.quoted("\(command.name):\(command.summary)"))\n"
    }
    text += """
        )
        if ((CURRENT == 2)); then
          _describe -t commands command commands
          return
        fi
        local command=$words[2]
        shift words
        ((CURRENT -= 1))
        case $command in

      """
    for command in program.commands {
      text += "    \(command.name))\n      _arguments"
      for option in program.options(of: command) {
        text += " \\\n        \(Self.quoted(zshSpecification(option)))"
      }
      text += " \\\n        '--help[describe the command]'"
      let words = operandWords(program, command)
      if !words.isEmpty { text += " \\\n        '1:word:(\(words.joined(separator: " ")))'" }
      text += " ;;\n"
    }
    return text
      + "  esac\n}\nif [ \"$funcstack[1]\" = _\(program.name) ]; then _\(program.name) \"$@\"; "
      + "else compdef _\(program.name) \(program.name); fi\n"
  }

  private func zshSpecification(_ option: OptionDescription) -> String {
    let help = Self.escaped(option.help, "[]\\:")
    let head = "\(option.repeats ? "*" : "")\(option.flag)[\(help)]"
    guard let placeholder = option.placeholder else { return head }
    let name = Self.escaped(placeholder.lowercased(), ":")
    return "\(head):\(name):" + zshAction(option.completion)
  }

  private func zshAction(_ completion: Completion) -> String {
    switch completion {
    case .nothing: ""
    case .file: "_files"
    case .directory: "_files -/"
    case .words(let words): "(\(words.joined(separator: " ")))"
    }
  }

  // MARK: fish

  private func fish(_ program: Program) -> String {
    var text = "# fish completions of \(program.name)\ncomplete -c \(program.name) -f\n"
    for command in program.commands {
      text +=
        "complete -c \(program.name) -n __fish_use_subcommand -a \(command.name)"
        + " -d \(Self.quoted(command.summary))\n"
    }
    for command in program.commands {
      let prefix =
        "complete -c \(program.name) -n '__fish_seen_subcommand_from \(command.name)'"
      for option in program.options(of: command) {
        text +=
          "\(prefix) -l \(option.flag.dropFirst(2))\(fishAction(option))"
          + " -d \(Self.quoted(option.help))\n"
      }
      let words = operandWords(program, command)
      if !words.isEmpty { text += "\(prefix) -a '\(words.joined(separator: " "))'\n" }
    }
    return text
  }

  private func fishAction(_ option: OptionDescription) -> String {
    if option.isSwitch { return "" }
    return switch option.completion {
    case .nothing: " -x"
    case .file: " -r -F"
    case .directory: " -x -a '(__fish_complete_directories)'"
    case .words(let words): " -x -a '\(words.joined(separator: " "))'"
    }
  }

  /// With a backslash before each of the `special` characters.
  private static func escaped(_ text: String, _ special: String) -> String {
    text.map { special.contains($0) ? "\\\($0)" : String($0) }.joined()
  }

  /// In single quotes, for the shell. Fish reads a backslash there as an escape, so help texts must not contain any.
  private static func quoted(_ text: String) -> String {
    "'" + text.map { $0 == "'" ? "'\\''" : String($0) }.joined() + "'"
  }
}
