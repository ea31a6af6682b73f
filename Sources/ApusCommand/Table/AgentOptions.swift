import ApusModel

/// The commands of `apus-agent`.
package enum AgentVerb: String, Sendable, CaseIterable {
  case run
  case check
  case status
  case tokens
  case history
  case register
  case unregister
  case help
  case version
  case man
}

extension Program {
  package static let agent = Program(
    name: "apus-agent", summary: "receives notifications for the programs of a machine",
    details: [
      """
      One connection to an Apus service for a whole machine, or for the session of a user. agent.conf says for each \
      topic what happens with a notification: a command runs, the desktop shows it, a local program gets it, or it is \
      written to a file.
      """,
      """
      The file is /etc/apus-agent/agent.conf for root, and agent.conf in ~/.config/apus-agent for other users.
      """,
    ],
    commands: [
      CommandDescription(
        name: AgentVerb.run.rawValue, summary: "run the agent",
        details: [
          """
          Enrols itself at the first start: with the code in the file that `code-file` names, with the code in \
          APUS_ENROLMENT_CODE, or else with the approval of the service's operator. Runs until SIGTERM or SIGINT; \
          SIGHUP makes it read agent.conf again.
          """
        ],
        examples: [("As a user, in the foreground", "apus-agent run --log-level debug")]),
      CommandDescription(
        name: AgentVerb.check.rawValue, summary: "check agent.conf",
        details: ["Reads the file and what it refers to, and changes nothing."]),
      CommandDescription(
        name: AgentVerb.status.rawValue, summary: "show what the running agent does"),
      CommandDescription(
        name: AgentVerb.tokens.rawValue, summary: "print the tokens of your topics",
        details: [
          "A provider sends to these. Only topics that the calling user may read are shown."
        ]),
      CommandDescription(
        name: AgentVerb.history.rawValue, summary: "show the last notifications and their outcome"),
      CommandDescription(
        name: AgentVerb.register.rawValue, summary: "register a topic and print its token",
        details: [
          """
          The section [user NAME] of agent.conf must allow it. The service keeps the topic's notifications until a \
          program subscribes to them on the agent's socket.
          """
        ], operands: "TOPIC", operandCount: 1...1,
        examples: [("For a program of yours", "apus-agent register com.example.tool")]),
      CommandDescription(
        name: AgentVerb.unregister.rawValue, summary: "give up a topic", operands: "TOPIC",
        operandCount: 1...1),
      CommandDescription(
        name: AgentVerb.help.rawValue, summary: "describe a command", operands: "[COMMAND]",
        operandCount: 0...1),
      CommandDescription(name: AgentVerb.version.rawValue, summary: "print the version"),
      CommandDescription(
        name: AgentVerb.man.rawValue, summary: "print the manual page",
        examples: [("Read it", "apus-agent man | man -l -")]),
    ], options: AgentOptions.all)
}

/// The options of `apus-agent`.
package enum AgentOptions {
  private static let asking: [AgentVerb] = [.status, .tokens, .history, .register, .unregister]

  package static let file = Option(
    "--file", .file, in: [AgentVerb.run, .check] + asking, group: .general,
    scope: .named("agent-file"),
    note: "agent.conf in /etc/apus-agent or ~/.config/apus-agent", help: "The configuration.")
  package static let socket = Option(
    "--socket", .file, in: asking, group: .general, scope: .named("agent-socket"),
    note: "the one that the configuration names", help: "The running agent's socket.")
  package static let json = Option(
    "--json", .flag, in: asking, group: .general, scope: .flagOnly,
    help: "Print the agent's answer as one JSON object.")
  package static let count = Option(
    "--count", .integer("N", 1...1000), in: [AgentVerb.history], group: .general,
    scope: .flagOnly, default: "20", help: "Number of notifications.")
  package static let logLevel = Option(
    "--log-level", .logLevel, in: [AgentVerb.run], group: .general, default: "info",
    help: "The least important lines to log."
  )
  package static let code = Option(
    "--enrolment-code", .text("CODE"), in: [AgentVerb.run], group: .device, scope: .everywhere,
    help: "The enrolment code for the first start. Other users see options; prefer the environment."
  )

  package static let all: [OptionDescription] = [
    code.description, file.description, socket.description, json.description, count.description,
    logLevel.description,
  ]
}
