import Foundation
import Testing

@Suite("Webhooks", .timeLimit(.minutes(2)))
struct WebhookTests {
  private let scratch: Scratch
  private let installation: Installation

  init() throws {
    scratch = try Scratch()
    installation = try Installation()
  }

  private func apus(_ arguments: String...) throws -> [String: Any] {
    try Programs.json(
      Programs.run(
        installation.apus, arguments + ["--data", installation.directory.path, "--json"]))
  }

  private func receiver(_ secret: String, port: Int = 0) throws -> (Companion, port: Int) {
    let receiver = try Companion(
      URL(filePath: "/usr/bin/env"),
      [
        "python3", Programs.root.appending(path: "Examples/webhook_receiver.py").path, "--secret",
        secret, "--port", "\(port)",
      ], name: "webhook_receiver.py")
    return (receiver, try #require(receiver.first("listening")["port"] as? Int))
  }

  @Test("The example receiver verifies events, tests and a rotated secret")
  func example() throws {
    defer { scratch.remove() }
    // The port has to be known before the secret. Python is killed, because the tests block signals for it.
    let (probe, port) = try receiver("none")
    probe.stop(SIGKILL)
    let added = try apus("webhook", "add", "http://127.0.0.1:\(port)/", "--name", "example")
    let secret = try #require(added["secret"] as? String)
    #expect(secret.hasPrefix("apuswh_") && secret.count == 71)

    let refused = try Programs.attempt(
      ["webhook", "test", "example", "--data", installation.directory.path], .errors)
    #expect(refused.code == 3 && refused.text.contains("127.0.0.1:\(port)"))
    let (first, _) = try receiver(secret, port: port)
    #expect(try apus("webhook", "test", "example")["delivered"] as? Bool == true)
    _ = try first.first("test")

    try installation.start()
    let status = "\(installation.directory.path)/webhooks/example.state"
    for _ in 0..<100 where !FileManager.default.fileExists(atPath: status) { usleep(50_000) }
    let device = try apus("device", "add", "--name", "phone")
    let phone = try Companion(
      installation.apus,
      [
        "listen", "--to", "localhost:\(installation.courierPort)", "--authority",
        installation.authority, "--certificate",
        try #require(device["certificate_file"] as? String), "--key",
        try #require(device["key_file"] as? String), "--topic", Installation.topic, "--json",
      ], name: "apus listen")
    defer { phone.stop() }
    for kind in ["device.first-seen", "device.connected"] {
      #expect(try first.first(kind)["device"] as? String == device["device_id"] as? String)
    }
    first.stop(SIGKILL)

    let rotated = try #require(
      try apus("webhook", "rotate", "example")["secret"] as? String)
    let (second, _) = try receiver(rotated, port: port)
    #expect(try apus("webhook", "test", "example")["delivered"] as? Bool == true)
    second.stop(SIGKILL)
    let (old, _) = try receiver(secret, port: port)
    #expect(try apus("webhook", "test", "example")["delivered"] as? Bool == true)
    _ = try apus("webhook", "rotate", "example", "--finish")
    let outdated = try Programs.attempt(
      ["webhook", "test", "example", "--data", installation.directory.path], .errors)
    #expect(outdated.code == 3 && outdated.text.contains("the receiver answered 401"))
    old.stop(SIGKILL)
    #expect(try apus("webhook", "remove", "example")["removed"] as? String == "example")
    let audit = try String(
      contentsOf: installation.directory.appending(path: "audit.jsonl"), encoding: .utf8)
    #expect(audit.contains("webhook.added") && audit.contains("webhook.removed"))
    #expect(!audit.contains(secret))
  }

  @Test("Mistakes are explained")
  func mistakes() throws {
    defer { scratch.remove() }
    for (arguments, code, words) in [
      (["add", "http://a.example/"], 2, "https URL"),
      (["add"], 2, "URL is missing"),
      (["add", "https://a.example/", "--event", "token.dead"], 2, "token.died"),
      (["add", "https://a.example/", "--name", "a b"], 2, "letters, digits"),
      (["test", "none"], 4, "there is no webhook none"),
      (["remove", "none"], 4, "there is no webhook none"),
      (["list", "x"], 2, "takes no name"), (["do"], 2, "unknown action"),
    ] as [([String], Int, String)] {
      let outcome = try Programs.attempt(
        ["webhook"] + arguments + ["--data", installation.directory.path], .errors)
      #expect(outcome.code == code && outcome.text.contains(words), "\(outcome)")
    }
  }
}
