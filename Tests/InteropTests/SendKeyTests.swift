import Foundation
import Testing

/// Which key `apus send`, `apus doctor` and `apus token` sign with if the data directory has several.
@Suite("The key that commands sign with", .serialized, .timeLimit(.minutes(30)))
struct SendKeyTests {
  private static let second = "com.example.two"

  /// Runs a command with the data directory; returns both of its outputs.
  @discardableResult
  private func run(
    _ arguments: String..., in installation: Installation, expecting code: Int = 0
  ) throws -> String {
    try Programs.run(
      URL(filePath: "/bin/sh"),
      [
        "-c", #"timeout 60 "$0" "$@" 2>&1; code=$?; [ $code = \#(code) ] || exit 1"#,
        installation.apus.path, arguments[0], "--data", installation.directory.path,
      ] + arguments.dropFirst())
  }

  /// Adds a second app, and replaces the first key by others.
  ///
  /// - Parameter keys: Their ids and options, oldest first.
  private func replace(
    _ own: String, by keys: [(id: String, options: [String])], in installation: Installation
  ) throws {
    try run("app", "--add", Self.second, in: installation)
    try run("key", "--revoke", own, in: installation)
    for key in keys {
      try Programs.run(
        installation.apus,
        ["key", "--add", "--id", key.id, "--data", installation.directory.path] + key.options)
    }
  }

  private func installation(keys: [(id: String, options: [String])]) throws -> Installation {
    let installation = try Installation()
    try replace(installation.text("key_id"), by: keys, in: installation)
    return installation
  }

  /// The key of `apus doctor`, which the service must accept.
  private func key(
    _ installation: Installation, topic: String = Installation.topic, to address: String? = nil
  ) throws -> String {
    let text = try run(
      "doctor", address ?? "localhost:\(installation.providerPort)", "--topic", topic, "--json",
      in: installation)
    let checks = try text.split(separator: "\n").map { try Programs.json($0) }
    #expect(checks.allSatisfy { $0["state"] as? String != "bad" }, "\(text)")
    let credential = checks.first { $0["check"] as? String == "credential" }?["text"] as? String
    return try #require(credential).split(separator: " ").dropFirst().first.map(String.init) ?? ""
  }

  private func keyOfToken(_ installation: Installation, _ options: [String] = []) throws -> String {
    let made = try Programs.json(
      Programs.run(
        installation.apus,
        ["token", "make", "--json", "--data", installation.directory.path] + options))
    return try #require(made["key_id"] as? String)
  }

  @Test("Keys added later, of another team or the same, do not change which key signs")
  func addedLater() throws {
    let installation = try Installation()
    let own = installation.text("key_id")
    let team = try Programs.json(run("team", "--add", "Other", "--json", in: installation))
    let other = try #require(team["team"] as? String)
    try run("key", "--add", "--team", other, in: installation)
    try run("key", "--add", "--team", installation.text("team"), in: installation)
    try installation.start()
    let device = try installation.device("phone")
    let token = try device.connect()
    try run(
      "send", "--to", "localhost:\(installation.providerPort)", "--token", token, "--payload",
      #"{"aps":{"alert":"Hello"},"n":7}"#, in: installation)
    #expect(try device.shown(atLeast: 1) == [7])
    #expect(try key(installation) == own)
    #expect(try keyOfToken(installation) == own)
    #expect(try keyOfToken(installation, ["--team", other]) != own)
  }

  @Test("The key is one that may send to the app")
  func limitedToApps() throws {
    let installation = try installation(keys: [
      ("FIRSTKEY01", ["--topic", Installation.topic]), ("SECONDKEY1", ["--topic", Self.second]),
    ])
    try installation.start()
    #expect(try key(installation) == "FIRSTKEY01")
    #expect(try key(installation, topic: Self.second) == "SECONDKEY1")
    let said = try run(
      "send", "--to", "localhost:\(installation.providerPort)", "--topic", "\(Self.second).voip",
      "--push-type", "voip", "--payload", #"{"aps":{}}"#, "--token",
      String(repeating: "0", count: 64), in: installation, expecting: 1)
    #expect(said.contains("BadDeviceToken"))
  }

  @Test("Where the environment is unknown, the key is one for both, or else for production")
  func unknownEnvironment() throws {
    let limited = [
      (id: "DEVELOPER1", options: ["--environment", "development"]),
      (id: "PRODUCTION", options: ["--environment", "production"]),
    ]
    let two = try installation(keys: limited)
    try two.start()
    #expect(try key(two) == "PRODUCTION")
    let three = try installation(keys: limited + [("BOTHPLACES", [])])
    try three.start()
    #expect(try key(three) == "BOTHPLACES")
  }

  /// On an address of its own, because the environment is known from the default port only.
  @Test("On the default port for development, the key is one for development")
  func development() throws {
    let folder = FileManager.default.temporaryDirectory.appending(
      path: "apus-keys-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: folder) }
    let installation = try Installation(existing: folder)
    let made = try Programs.json(run("init", "--name", "127.77.19.4", "--json", in: installation))
    let keys = [
      (id: "PRODUCTION", options: ["--environment", "production"]),
      (id: "DEVELOPER1", options: ["--environment", "development"]),
    ]
    try replace(try #require(made["key_id"] as? String), by: keys, in: installation)
    let closed = ["http2", "courier", "courier-development", "gateway", "gateway-development"]
    let off = (closed + ["feedback", "feedback-development"]).flatMap { ["--\($0)-listen", "off"] }
    let service = try Companion(
      installation.apus,
      [
        "serve", "--data", installation.directory.path, "--json", "--http2-development-listen",
        "127.77.19.4:2198",
      ] + off, name: "apus serve")
    defer { service.stop() }
    _ = try service.first("ready")
    #expect(try key(installation, to: "127.77.19.4:2198") == "DEVELOPER1")
  }

  @Test("If no key can be used, the error has the reason for each, and what to do")
  func none() throws {
    let installation = try Installation()
    let own = installation.text("key_id")
    let half = installation.directory.appending(path: "keys/\(own).pub").path
    try run("key", "--revoke", own, in: installation)
    try run("app", "--add", Self.second, in: installation)
    try run("key", "--add", "--id", "SECONDKEY1", "--topic", Self.second, in: installation)
    try run("key", "--add", "--id", "ELSEWHERE1", "--public-key", half, in: installation)
    let said = try run(
      "send", "--token", String(repeating: "0", count: 64), "--topic", Installation.topic,
      "--alert", "Hello", in: installation, expecting: 4)
    #expect(said.contains("has no key that can be used for \(Installation.topic): "), "\(said)")
    for reason in [
      "\(own) is revoked", "SECONDKEY1 is only for \(Self.second)",
      "ELSEWHERE1 has no private half here",
      "apus key --add --team \(installation.text("team"))",
    ] {
      #expect(said.contains(reason), "\(said)")
    }
  }

  @Test("For an unknown app, keys of several teams are an error that names the teams")
  func severalTeams() throws {
    let installation = try Installation()
    let team = try Programs.json(run("team", "--add", "Other", "--json", in: installation))
    let other = try #require(team["team"] as? String)
    try run("key", "--add", "--id", "OTHERTEAM1", "--team", other, in: installation)
    let said = try run(
      "send", "--token", String(repeating: "0", count: 64), "--topic", "com.example.elsewhere",
      "--alert", "Hello", in: installation, expecting: 2)
    #expect(said.contains("OTHERTEAM1 (\(other))") && said.contains("--team"), "\(said)")
    #expect(said.contains(installation.text("team")))
  }

  @Test("The id of a key given as a file is found by its public half")
  func keyFile() throws {
    let installation = try Installation()
    let own = installation.text("key_id")
    let added = try Programs.json(
      run("key", "--add", "--id", "SECONDKEY1", "--json", in: installation))
    let file = try #require(added["key_file"] as? String)
    #expect(try keyOfToken(installation, ["--key", file]) == "SECONDKEY1")
    #expect(try keyOfToken(installation, ["--key", installation.text("key_file")]) == own)
    let foreign = try Installation()
    let said = try run(
      "token", "make", "--key", foreign.text("key_file"), in: installation, expecting: 4)
    #expect(said.contains("\(own) is another key than --key"), "\(said)")
    withExtendedLifetime(foreign) {}
  }
}
