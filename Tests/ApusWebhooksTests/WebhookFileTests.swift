import ApusDirectory
import ApusTesting
import Foundation
import Testing

@testable import ApusWebhooks

@Suite("Webhooks in the data directory")
struct WebhookFileTests {
  private let directory: TestDirectory
  private var data: DataDirectory { directory.data }

  init() throws { directory = try TestDirectory() }

  private func hook(_ name: String = "one") -> Webhook {
    Webhook(
      name: name, url: "https://backend.example.com/e?a=1",
      events: EventKinds([.tokenDied, .trustStale]),
      secrets: [Webhook.makeSecret()], authorityFile: "/etc/ca.pem")
  }

  @Test("They are added, listed and removed; only the owner can read the file")
  func changes() throws {
    #expect(try data.webhooks() == [])
    let (one, two) = (hook("one"), hook("two"))
    try data.add(one)
    try data.add(two)
    #expect(try data.webhooks() == [one, two])
    #expect(throws: DirectoryProblem.self) { try data.add(one) }
    let mode = try FileManager.default.attributesOfItem(atPath: data.webhookFile)[.posixPermissions]
    #expect(mode as? Int == 0o600)
    try data.removeWebhook("one")
    #expect(try data.webhooks() == [two])
    let error = #expect(throws: DirectoryProblem.self) { try data.removeWebhook("one") }
    #expect(error?.description == "there is no webhook one, only two")
  }

  @Test("A rotation keeps the previous secret until it is finished")
  func rotation() throws {
    let hook = hook()
    try data.add(hook)
    let second = try #require(try data.rotateWebhook("one", isFinish: false))
    #expect(try data.webhooks()[0].secrets == [second, hook.secrets[0]])
    // A second one forgets the first secret.
    let third = try #require(try data.rotateWebhook("one", isFinish: false))
    #expect(try data.webhooks()[0].secrets == [third, second])
    #expect(try data.rotateWebhook("one", isFinish: true) == nil)
    #expect(try data.webhooks()[0].secrets == [third])
  }

  @Test("There are at most 16, because each has a thread")
  func limit() throws {
    for number in 0..<16 { try data.add(hook("hook-\(number)")) }
    #expect(throws: DirectoryProblem.self) { try data.add(hook("other")) }
  }

  @Test(
    "A faulty file names the line",
    arguments: [
      ("[webhook a b]\nurl = https://a.example\nsecret = s\n", "line 1"),
      ("[hook a]\nurl = https://a.example\nsecret = s\n", "line 1"),
      ("[webhook a]\nurl = http://a.example\nsecret = s\n", "https URL"),
      ("[webhook a]\nurl = https://a.example\n", "secret is missing"),
      ("[webhook a]\nurl = https://a.example\nsecret = s\nevents = token.dead\n", "token.dead"),
      ("url\n", "line 1"),
    ])
  func faulty(text: String, words: String) throws {
    try Files.write(text, to: data.webhookFile, isPrivate: true)
    let error = #expect(throws: DirectoryProblem.self) { try data.webhooks() }
    #expect(error?.description.contains(words) == true, "\(error as Any)")
  }

  @Test(
    "URLs are https, or http to this machine",
    arguments: [
      ("https://a.example", true), ("https://a.example:8443/x?y=z", true),
      ("http://localhost:80/x", true), ("http://127.0.0.1:1", true), ("http://[::1]:1/", true),
      ("http://a.example", false), ("http://localhost.example", false), ("https://", false),
      ("https:///x", false), ("ftp://a.example", false), ("a.example", false),
      ("https://user:word@a.example", false), ("https://a.example/ x", false),
      ("http://127.0.0.1@a.example/", false), ("https://a.example/\n", false),
    ])
  func urls(url: String, isGood: Bool) { #expect(Webhook.isURL(url) == isGood) }
}
