import ApusDevice
import ApusModel

extension AgentConfiguration {
  /// Where things are unless the file says otherwise.
  package struct Defaults: Sendable {
    package var stateDirectory: String
    package var socketPath: String
    package var name: String
    /// Whether the agent can act for other users; then each command must name one.
    package var isPrivileged: Bool

    package init(stateDirectory: String, socketPath: String, name: String, isPrivileged: Bool) {
      self.stateDirectory = stateDirectory
      self.socketPath = socketPath
      self.name = name
      self.isPrivileged = isPrivileged
    }
  }

  /// Reads the text of a file.
  ///
  /// - Throws: The first fault, with file and line.
  package init(path: String, text: String, defaults: Defaults) throws(AgentFault) {
    let file = try SectionFile(path: path, text: text)
    var main = SectionReader(file, file.sections[0])
    services = try main.services()
    authorityFile = try main.requiredPath("authority")
    name = try main.text("name", bytes: 1...Limits.deviceNameBytes) ?? defaults.name
    tags = try main.tags()
    codeFile = try main.path("code-file")
    stateDirectory = try main.path("state") ?? defaults.stateDirectory
    socketPath = try main.path("socket") ?? defaults.socketPath
    keepAlive.minimumSeconds = try main.seconds("keep-alive-from", 10...3600) ?? 60
    keepAlive.maximumSeconds = try main.seconds("keep-alive-to", 10...3600) ?? 900
    if keepAlive.minimumSeconds > keepAlive.maximumSeconds {
      throw main.fault(
        "keep-alive-to", "keep-alive-from is longer than keep-alive-to",
        "For a fixed interval give both the same value.")
    }
    commandLimit = try main.integer("commands", 1...256) ?? 8
    rememberedCount = try main.integer("remember", 512...1_000_000) ?? 4096
    try main.finish()
    for section in file.sections.dropFirst() {
      var reader = SectionReader(file, section)
      switch section.kind {
      case "topic": topics.append(try reader.topicRule(defaults))
      case "user":
        let patterns = try reader.list("topics") ?? []
        guard !patterns.isEmpty else {
          throw file.fault(
            section.line, "[user \(section.name)] allows no topic",
            "Add `topics = com.example.*`, for example.")
        }
        grants.append(UserGrant(user: section.name, topics: patterns))
      default:
        throw file.fault(
          section.line, "there are no sections of the kind \"\(section.kind)\"",
          "Write [topic NAME] or [user NAME].")
      }
      try reader.finish()
    }
    if topics.count > Limits.courierFilterTopics {
      throw AgentFault(
        "\(path): \(topics.count) topics; a device has at most \(Limits.courierFilterTopics)")
    }
  }
}

extension SectionReader {
  fileprivate mutating func tags() throws(AgentFault) -> [String] {
    let tags = try list("tags") ?? []
    if let bad = tags.first(where: { DeviceTag($0) == nil }) {
      throw fault("tags", "\"\(bad)\" is not a tag", "A tag is \(DeviceTag.form).")
    }
    guard tags.count <= Limits.tagsPerDevice else {
      throw fault("tags", "a device has at most \(Limits.tagsPerDevice) tags", nil)
    }
    return tags
  }

  fileprivate mutating func services() throws(AgentFault) -> [DeviceAddress] {
    guard let text = take("service") else {
      throw fault(nil, "service is missing", "Add `service = push.example.com:5223`.")
    }
    var addresses: [DeviceAddress] = []
    for item in text.split(separator: ",", omittingEmptySubsequences: false) {
      addresses.append(try address(item.trimmedBlanks))
    }
    return addresses
  }

  private func address(_ text: String) throws(AgentFault) -> DeviceAddress {
    var host = text[...]
    var port: UInt16? = 5223
    if let colon = text.lastIndex(of: ":"), !text.hasSuffix("]"),
      text.first == "[" || text.firstIndex(of: ":") == colon
    {
      host = text[..<colon]
      port = UInt16(text[text.index(after: colon)...])
    }
    if host.first == "[", host.last == "]" { host = host.dropFirst().dropLast() }
    guard let port, port > 0, !host.isEmpty, host.utf8.allSatisfy({ 0x21...0x7e ~= $0 }) else {
      throw fault(
        "service", "\"\(text)\" is not the address of a service",
        "Write a name, and its port if that is not 5223: push.example.com:5223.")
    }
    return DeviceAddress(host: String(host), port: port)
  }

  fileprivate mutating func topicRule(
    _ defaults: AgentConfiguration.Defaults
  ) throws(AgentFault) -> TopicRule {
    guard TopicRule.isTopic(section.name) else {
      throw fault(nil, "\"\(section.name)\" is not a topic such as com.example.app", nil)
    }
    var rule = TopicRule(topic: section.name)
    rule.run = try runRule(defaults)
    rule.show = try showRule(defaults)
    rule.write = try path("write").map { WriteRule(path: $0) }
    rule.forward = try list("forward")
    if rule.run == nil, rule.show == nil, rule.write == nil, rule.forward == nil {
      throw fault(
        nil, "nothing happens with the notifications of \(rule.topic)",
        "Add `run = COMMAND`, `show = yes`, `write = FILE` or `forward = USER`.")
    }
    return rule
  }

  private mutating func runRule(
    _ defaults: AgentConfiguration.Defaults
  ) throws(AgentFault) -> RunRule? {
    guard let words = try command("run") else {
      for key in ["user", "directory", "timeout", "limit", "after-kill"] where has(key) {
        throw fault(key, "\(key) is for a command, and there is none", "Add `run = COMMAND`.")
      }
      return nil
    }
    var rule = RunRule(user: take("user"), words: words)
    if rule.user == nil, defaults.isPrivileged {
      throw fault(
        "run", "the command has no user, and must not run with the agent's privileges",
        "Add `user = NAME`.")
    }
    if rule.user != nil, !defaults.isPrivileged {
      throw fault(
        "user", "an agent without privileges cannot act for another user",
        "Remove the line, or use the agent of the system.")
    }
    rule.directory = try path("directory") ?? rule.directory
    rule.timeoutSeconds = try seconds("timeout", 1...86_400) ?? rule.timeoutSeconds
    rule.limit = try integer("limit", 1...32) ?? rule.limit
    rule.afterKill = try choice("after-kill", AfterKill.allCases) ?? rule.afterKill
    return rule
  }

  private mutating func showRule(
    _ defaults: AgentConfiguration.Defaults
  ) throws(AgentFault) -> ShowRule? {
    let categories = try categories()
    let isShown = try truth("show") ?? false
    if isShown, defaults.isPrivileged {
      throw fault(
        "show", "the agent of the system has no desktop",
        "Move the topic to the agent of a user: ~/.config/apus-agent/agent.conf.")
    }
    var rule = ShowRule()
    rule.application = take("application")
    rule.icon = take("icon")
    rule.desktop = take("desktop")
    rule.strings = try path("strings")
    rule.sounds = try path("sounds")
    rule.onAction = try command("on-action")
    rule.categories = categories
    if !isShown, rule != ShowRule() {
      throw fault(
        nil, "the topic has settings for the desktop, and is not shown", "Add `show = yes`.")
    }
    return isShown ? rule : nil
  }

  /// `category.NAME = id:Label, id:Label`.
  private mutating func categories() throws(AgentFault) -> [String: [CategoryAction]] {
    var categories: [String: [CategoryAction]] = [:]
    for entry in entries(withPrefix: "category.") {
      var actions: [CategoryAction] = []
      for item in entry.value.split(separator: ",") {
        let parts = item.split(separator: ":", maxSplits: 1).map(\.trimmedBlanks)
        guard parts.count == 2, !parts[0].isEmpty, !parts[1].isEmpty else {
          throw fault(
            entry.key, "\"\(item.trimmedBlanks)\" is not an action",
            "Write an id and a label for each: reply:Reply, mute:Mute for an hour.")
        }
        actions.append(CategoryAction(id: parts[0], label: parts[1]))
      }
      categories[String(entry.key.dropFirst("category.".count))] = actions
    }
    return categories
  }
}
