package import ApusDirectory
import ApusTrust
import ApusWire

/// Where events are sent, and which.
package struct Webhook: Sendable, Equatable {
  package var name: String
  package var url: String
  package var events: EventKinds
  /// The current one first, then the one before it until the rotation is finished.
  package var secrets: [String]
  /// A file with the authorities that the receiver's certificate is checked against (PEM); nil: the system's.
  package var authorityFile: String?

  package init(
    name: String, url: String, events: EventKinds, secrets: [String], authorityFile: String? = nil
  ) {
    self.name = name
    self.url = url
    self.events = events
    self.secrets = secrets
    self.authorityFile = authorityFile
  }

  /// 32 random bytes in hexadecimal digits, after a prefix by which scanners for leaked secrets know it.
  package static func makeSecret() -> String {
    let bytes = randomBytes(32)
    return "apuswh_" + String(decoding: Hex.encode(bytes.span), as: UTF8.self)
  }

  /// Letters, digits, `-` and `_`, at most 64: it is part of a file's name.
  package static func isName(_ text: String) -> Bool {
    1...64 ~= text.utf8.count
      && text.utf8.allSatisfy {
        0x30...0x39 ~= $0 || 0x41...0x5a ~= $0 || 0x61...0x7a ~= $0 || $0 == 0x2d || $0 == 0x5f
      }
  }

  /// An absolute URL with the scheme https, or http to this machine.
  package static func isURL(_ text: String) -> Bool {
    guard text.utf8.allSatisfy({ 0x21...0x7e ~= $0 }), let end = text.firstRange(of: "://") else {
      return false
    }
    let host = text[end.upperBound...].prefix { $0 != "/" && $0 != "?" }
    guard !host.isEmpty, !host.contains("@") else { return false }
    switch text[..<end.lowerBound] {
    case "https": return true
    case "http":
      let name = host.first == "[" ? host.prefix { $0 != "]" } + "]" : host.prefix { $0 != ":" }
      return ["localhost", "127.0.0.1", "[::1]"].contains(String(name))
    default: return false
    }
  }
}

/// The webhooks of a data directory, in `webhooks.conf`, which only its owner can read: it contains the secrets.
///
/// ```
/// [webhook orders]
/// url = https://backend.example.com/push-events
/// events = token.died notification.finished
/// secret = apuswh_...
/// previous = apuswh_...
/// authority = /etc/ssl/backend-ca.pem
/// ```
extension DataDirectory {
  package var webhookFile: String { "\(path)/webhooks.conf" }
  package var webhookFolder: String { webhookFolder(ofPart: 0) }

  /// Where the node that has a part of a cluster's devices keeps what it has to tell.
  package func webhookFolder(ofPart part: Int) -> String {
    part == 0 ? "\(path)/webhooks" : "\(path)/webhooks/part-\(part)"
  }

  /// The largest number of webhooks: each has a thread.
  package static let webhookLimit = 16

  package func webhooks() throws -> [Webhook] {
    guard Files.exists(webhookFile) else { return [] }
    let file: SectionFile
    do { file = try SectionFile(text: Files.readText(webhookFile)) } catch {
      throw DirectoryProblem("\(webhookFile): \(error)")
    }
    return try file.sections.map { try webhook($0) }
  }

  private func webhook(_ section: SectionFile.Section) throws -> Webhook {
    func problem(_ text: String) -> DirectoryProblem {
      DirectoryProblem("\(webhookFile), line \(section.line): \(text)")
    }
    guard section.kind == "webhook", Webhook.isName(section.name) else {
      throw problem("a section must be [webhook NAME], the name of letters, digits, - and _")
    }
    guard let url = section["url"], Webhook.isURL(url) else {
      throw problem("url must be an https URL, or an http URL to this machine")
    }
    let events: EventKinds
    do throws(UnknownEvent) { events = try EventKinds(names: section.words("events")) } catch {
      throw problem("\(error)")
    }
    guard let secret = section["secret"], !secret.isEmpty else {
      throw problem("the secret is missing")
    }
    return Webhook(
      name: section.name, url: url, events: events,
      secrets: [secret] + [section["previous"]].compactMap(\.self),
      authorityFile: section["authority"])
  }

  /// - Throws: If there is none of that name.
  package func webhook(_ name: String) throws -> Webhook {
    let hooks = try webhooks()
    return hooks[try index(of: name, in: hooks)]
  }

  /// Adds a webhook. It is told what happens from now on.
  package func add(_ webhook: Webhook) throws {
    try changeWebhooks { hooks in
      guard hooks.count < Self.webhookLimit else {
        throw DirectoryProblem("there are already \(hooks.count) webhooks; remove one")
      }
      guard !hooks.contains(where: { $0.name == webhook.name }) else {
        throw DirectoryProblem("the webhook \(webhook.name) already exists")
      }
      hooks.append(webhook)
    }
  }

  /// Removes a webhook, and what waits for it.
  package func removeWebhook(_ name: String) throws {
    try changing {
      try changeWebhooks { hooks in
        hooks.remove(at: try index(of: name, in: hooks))
      }
      for part in 0..<(try partCount()) {
        try DurableFile.remove(webhookStateFile(name, part))
      }
    }
  }

  /// Gives a webhook another secret. The previous one signs as well until the next call with `isFinish`.
  ///
  /// - Returns: The new secret; nil with `isFinish`, which makes none.
  package func rotateWebhook(_ name: String, isFinish: Bool) throws -> String? {
    let secret = isFinish ? nil : Webhook.makeSecret()
    try changeWebhooks { hooks in
      let index = try index(of: name, in: hooks)
      guard let secret else { return hooks[index].secrets.removeSubrange(1...) }
      hooks[index].secrets = [secret, hooks[index].secrets[0]]
    }
    return secret
  }

  private func index(of name: String, in hooks: [Webhook]) throws(DirectoryProblem) -> Int {
    guard let index = hooks.firstIndex(where: { $0.name == name }) else {
      let known = hooks.map(\.name).joined(separator: ", ")
      throw DirectoryProblem(
        "there is no webhook \(name)" + (known.isEmpty ? "" : ", only \(known)"))
    }
    return index
  }

  private func changeWebhooks(_ change: (inout [Webhook]) throws -> Void) throws {
    try requireProvisioned()
    try changing {
      var hooks = try webhooks()
      try change(&hooks)
      let file = SectionFile(
        sections: hooks.map { hook in
          var values = [
            ("url", hook.url), ("events", hook.events.names.joined(separator: " ")),
            ("secret", hook.secrets[0]),
          ]
          if hook.secrets.count > 1 { values.append(("previous", hook.secrets[1])) }
          if let authority = hook.authorityFile { values.append(("authority", authority)) }
          return .init(kind: "webhook", name: hook.name, values: values)
        })
      try Files.write(
        file.text(heading: "Webhooks. A running service reads this file again when it changes."),
        to: webhookFile, isPrivate: true)
    }
  }

  func webhookStateFile(_ name: String, _ part: Int) -> String {
    "\(webhookFolder(ofPart: part))/\(name).state"
  }
}
