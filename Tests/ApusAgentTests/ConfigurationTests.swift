import ApusDevice
import Testing

@testable import ApusAgent

@Suite("agent.conf")
struct ConfigurationTests {
  private static let head = "service = push.example.com\nauthority = /etc/service.crt\n"

  private func parse(
    _ text: String, isPrivileged: Bool = true
  ) throws(AgentFault) -> AgentConfiguration {
    try AgentConfiguration(
      path: "agent.conf", text: Self.head + text,
      defaults: .init(
        stateDirectory: "/state", socketPath: "/run/agent.sock", name: "machine",
        isPrivileged: isPrivileged))
  }

  @Test("Everything that the system's agent can have")
  func system() throws {
    let configuration = try parse(
      """
      # A comment.
      keep-alive-from = 2m
      keep-alive-to = 600
      commands = 3

      [topic com.example.backup]
      run = /usr/bin/backup --now \\
            "two words" back\\\\slash
      user = backup
      timeout = 2h
      limit = 4
      after-kill = run-again
      write = /var/log/push

      [topic com.example.chat]
      forward = alice, bob

      [user alice]
      topics = com.example.tool, org.example.*
      """)
    #expect(configuration.services == [DeviceAddress(host: "push.example.com", port: 5223)])
    #expect(configuration.keepAlive == KeepAliveBounds(minimumSeconds: 120, maximumSeconds: 600))
    #expect(configuration.commandLimit == 3 && configuration.stateDirectory == "/state")
    let run = try #require(configuration.rule(for: "com.example.backup")?.run)
    #expect(run.words == ["/usr/bin/backup", "--now", "two words", "back\\slash"])
    #expect(run.user == "backup" && run.timeoutSeconds == 7200 && run.limit == 4)
    #expect(run.afterKill == .runAgain)
    #expect(configuration.rule(for: "com.example.backup")?.write?.path == "/var/log/push")
    #expect(configuration.rule(for: "com.example.chat")?.forward == ["alice", "bob"])
    let grant = try #require(configuration.grants.first)
    #expect(grant.covers("org.example.any") && grant.covers("com.example.tool"))
    #expect(!grant.covers("com.example.tools") && !grant.covers("org.examples"))
  }

  @Test("What a session's agent shows")
  func session() throws {
    let configuration = try parse(
      """
      [topic com.example.chat]
      show = yes
      application = Chat
      strings = /usr/share/chat/strings
      category.MESSAGE = reply:Reply, mute:Mute for an hour
      on-action = /usr/bin/chat --open
      """, isPrivileged: false)
    let show = try #require(configuration.topics[0].show)
    #expect(show.application == "Chat" && show.onAction == ["/usr/bin/chat", "--open"])
    #expect(
      show.categories == [
        "MESSAGE": [
          CategoryAction(id: "reply", label: "Reply"),
          CategoryAction(id: "mute", label: "Mute for an hour"),
        ]
      ])
  }

  @Test("Tags are separated by commas")
  func tags() throws {
    let text = "service = a\nauthority = /a\ntags = floor=2, kiosk\n[topic a]\nwrite = /x\n"
    let configuration = try AgentConfiguration(
      path: "agent.conf", text: text,
      defaults: .init(stateDirectory: "/s", socketPath: "/k", name: "n", isPrivileged: false))
    #expect(configuration.tags == ["floor=2", "kiosk"])
  }

  @Test("Addresses with brackets, with a port, and several")
  func addresses() throws {
    for (text, addresses) in [
      ("192.0.2.1:1234", [("192.0.2.1", UInt16(1234))]),
      ("[2001:db8::1]:99", [("2001:db8::1", 99)]),
      ("[2001:db8::1]", [("2001:db8::1", 5223)]), ("2001:db8::1", [("2001:db8::1", 5223)]),
      ("a, b:99 ,[2001:db8::1]:99", [("a", 5223), ("b", 99), ("2001:db8::1", 99)]),
    ] {
      let configuration = try AgentConfiguration(
        path: "agent.conf", text: "service = \(text)\nauthority = /a\n",
        defaults: .init(stateDirectory: "/s", socketPath: "/s", name: "m", isPrivileged: true))
      #expect(
        configuration.services == addresses.map { DeviceAddress(host: $0.0, port: $0.1) },
        "\(text)")
    }
  }

  @Test(
    "A fault says where it is and what to do",
    arguments: [
      ("keep-alive-from = soon", "line 3: \"soon\" is not a time from 10 s to 3600 s"),
      ("keep-alive-from = 999999999999999999h", "line 3: \"999999999999999999h\" is not a time"),
      ("keep-alive-from = 20m", "keep-alive-from is longer than keep-alive-to"),
      ("nonsense", "line 3: \"nonsense\" is not a setting"),
      ("tags = a=b=c", "line 3: \"a=b=c\" is not a tag"),
      ("colour = red", "line 3: there is no setting \"colour\" here"),
      ("commands = 1\ncommands = 2", "line 4: commands is already set on line 3"),
      ("[topic a]\n[topic a]", "line 4: [topic a] is already on line 3"),
      ("[topic]", "line 3: \"[topic]\" is not the beginning of a section"),
      ("[thing a]", "line 3: there are no sections of the kind \"thing\""),
      ("[topic a]", "line 3: nothing happens with the notifications of a"),
      ("[topic a,b]\nwrite = /x", "line 3: \"a,b\" is not a topic"),
      ("[topic a]\nrun = /bin/true", "line 4: the command has no user"),
      ("[topic a]\nrun = true\nuser = b", "line 4: the command does not begin with an absolute"),
      ("[topic a]\nrun = /bin/true \"x\nuser = b", "line 4: a quotation mark or a backslash"),
      ("[topic a]\nuser = b\nwrite = /x", "line 4: user is for a command, and there is none"),
      ("[topic a]\nwrite = x", "line 4: \"x\" is not an absolute path"),
      ("[topic a]\nshow = yes", "line 4: the agent of the system has no desktop"),
      ("[topic a]\nwrite = /x\nicon = y", "settings for the desktop, and is not shown"),
      ("[topic a]\nshow = maybe", "line 4: \"maybe\" is neither yes nor no"),
      ("[topic a]\ncategory.X = a", "line 4: \"a\" is not an action"),
      ("[user a]", "line 3: [user a] allows no topic"),
      ("name = \\", "the last line ends with a backslash"),
    ])
  func faults(text: String, problem: String) throws {
    let fault = #expect(throws: AgentFault.self) { _ = try parse(text) }
    let said = try #require(fault?.problem)
    #expect(said.hasPrefix("agent.conf, line ") && said.contains(problem), "\(said)")
  }

  @Test("A service and an authority are needed, and another user only with privileges")
  func needed() throws {
    let defaults = AgentConfiguration.Defaults(
      stateDirectory: "/s", socketPath: "/s", name: "m", isPrivileged: false)
    for (text, problem) in [
      ("", "service is missing"), ("service = a:0\n", "\"a:0\" is not the address of a service"),
      ("service = a,, b\n", "\"\" is not the address of a service"),
      ("service = a, b c\n", "\"b c\" is not the address of a service"),
      ("service = a\n", "authority is missing"),
      (Self.head + "[topic a]\nrun = /bin/true\nuser = b", "cannot act for another user"),
    ] {
      let fault = #expect(throws: AgentFault.self) {
        _ = try AgentConfiguration(path: "agent.conf", text: text, defaults: defaults)
      }
      #expect(fault?.problem.contains(problem) == true)
    }
  }
}
