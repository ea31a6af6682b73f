/// A command of a program, as its help describes it.
package struct CommandDescription: Sendable {
  package var name: String
  /// One line for lists, in lower case and without a full stop.
  package var summary: String
  /// Paragraphs.
  package var details: [String]
  /// Operands as the usage line shows them.
  package var operands: String
  package var operandCount: ClosedRange<Int>
  /// Possible words of the first operand, for shell completion; empty if it is free text.
  package var operandWords: [String]
  /// Explains words that the values of several options share.
  package var glossary: Glossary?
  package var examples: [Example]

  package struct Example: Sendable {
    package var purpose: String
    package var line: String
  }

  package struct Glossary: Sendable {
    package var heading: String
    /// The options whose values use these words; help puts the glossary after them.
    package var group: OptionGroup
    package var entries: [(term: String, help: String)]
  }

  package init(
    name: String, summary: String, details: [String] = [], operands: String = "",
    operandCount: ClosedRange<Int> = 0...0, operandWords: [String] = [], glossary: Glossary? = nil,
    examples: [(String, String)] = []
  ) {
    self.name = name
    self.summary = summary
    self.details = details
    self.operands = operands
    self.operandCount = operandCount
    self.operandWords = operandWords
    self.glossary = glossary
    self.examples = examples.map { Example(purpose: $0.0, line: $0.1) }
  }
}

/// A program: its commands and the table of its options.
package struct Program: Sendable {
  package var name: String
  package var summary: String
  package var details: [String]
  package var commands: [CommandDescription]
  package var options: [OptionDescription]

  package init(
    name: String, summary: String, details: [String], commands: [CommandDescription],
    options: [OptionDescription]
  ) {
    self.name = name
    self.summary = summary
    self.details = details
    self.commands = commands
    self.options = options
  }

  package func command(_ name: String) -> CommandDescription? {
    commands.first { $0.name == name }
  }

  /// The options that `command` takes, in the order of the table.
  package func options(of command: CommandDescription) -> [OptionDescription] {
    options.filter { $0.commands.contains(command.name) }
  }

  /// The failure for an unknown command.
  package func unknownCommand(_ name: String) -> CommandFailure {
    let nearest = Suggestion.nearest(to: name, among: commands.map(\.name))
    let question = nearest.map { "Did you mean `\(self.name) \($0)`?\n" } ?? ""
    return CommandFailure(
      .usage, "unknown command \"\(name)\"",
      remedy: "\(question)`\(self.name) help` lists the commands.")
  }
}
