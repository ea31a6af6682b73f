import Foundation
import Testing

/// The administration of a running service, with curl and with the commands.
@Suite("Administration", .serialized)
struct AdminTests {
  private static let curl = URL(filePath: "/usr/bin/curl")

  /// Starts a service with the administration socket and a TLS listener; returns the URL of the listener.
  private func start(_ extra: [String] = []) throws -> (Installation, url: String) {
    let installation = try Installation()
    try installation.start(["--admin-listen", "127.0.0.1:0"] + extra)
    let ready = try #require(installation.service).first("ready")
    let places = try #require(ready["admin"] as? [String])
    return (installation, try #require(places.first { $0.hasPrefix("https://") }))
  }

  private func socket(_ installation: Installation) -> String {
    installation.directory.appending(path: "admin.sock").path
  }

  /// Makes an administration token and writes it to a file.
  private func token(
    _ name: String, _ scopes: String, in installation: Installation
  ) throws -> (file: String, secret: String) {
    let made = try Programs.json(
      Programs.run(
        installation.apus,
        ["admin", "add", name, "--scopes", scopes, "--data", installation.directory.path, "--json"])
    )
    let secret = try #require(made["token"] as? String)
    let file = installation.directory.appending(path: "\(name).token").path
    try "\(secret)\n".write(toFile: file, atomically: true, encoding: .utf8)
    return (file, secret)
  }

  private func apus(
    _ arguments: [String], at url: String, _ token: String, _ installation: Installation,
    expecting code: Int = 0
  ) throws -> String {
    try Programs.run(
      URL(filePath: "/bin/sh"),
      [
        "-c", #"timeout 60 "$0" "$@" 2>&1; [ $? = \#(code) ]"#, installation.apus.path,
      ] + arguments + [
        // Only the given authority is used, nothing else of the data directory.
        "--data", "/nonexistent", "--admin", url, "--token-file", token, "--admin-authority",
        installation.authority,
      ])
  }

  @Test("curl is answered over the socket: health, status, metrics, and the description")
  func socketWithCurl() throws {
    let (installation, _) = try start()
    func get(_ path: String) throws -> String {
      try Programs.run(
        Self.curl,
        [
          "--silent", "--show-error", "--fail", "--max-time", "30", "--unix-socket",
          socket(installation),
          "http://localhost\(path)",
        ])
    }
    #expect(try get("/healthz") == "ok\n")
    #expect(try get("/readyz") == "ready\n")
    let status = try Programs.json(get("/v1/status"))
    #expect(status["ready"] as? Bool == true)
    let listeners = try #require(status["listeners"] as? [[String: Any]])
    #expect(
      Set(listeners.compactMap { $0["kind"] as? String }) == [
        "http2", "courier", "gateway", "feedback",
      ])
    let device = try installation.device("phone")
    let deviceToken = try device.connect()
    try installation.send(1, to: deviceToken)
    _ = try #require(device.listener).first("notification")
    let metrics = try get("/metrics")
    #expect(
      metrics.contains("apus_connections{listener=\"courier\",environment=\"production\"} 1\n"))
    #expect(
      metrics.contains(
        "apus_notifications_total{topic=\"com.example.app\",environment=\"production\","
          + "state=\"Received by APNs\",push_type=\"alert\",priority=\"10\"} 1\n"))
    #expect(metrics.contains("apus_certificate_expiry_seconds{kind=\"server\""))
    let description = try Programs.json(get("/v1/openapi.json"))
    #expect((description["paths"] as? [String: Any])?["/v1/status"] != nil)
  }

  @Test("The commands work remotely as they do locally, within the token's scopes")
  func remoteCommands() throws {
    let (installation, url) = try start()
    let (trust, _) = try token("kim", "trust", in: installation)
    let (read, _) = try token("lee", "read", in: installation)
    let made = try Programs.json(
      apus(["team", "--add", "Kitchen", "--json"], at: url, trust, installation))
    let team = try #require(made["team"] as? String)
    _ = try apus(
      ["app", "--add", "com.example.clock", "--team", team, "--retain", "3"], at: url, trust,
      installation)
    let apps = try apus(["app"], at: url, read, installation)
    #expect(apps.contains("com.example.clock  team \(team), ") && apps.contains(", retain 3"))
    let stray = try apus(["app", "--retain", "5"], at: url, trust, installation, expecting: 2)
    #expect(stray.contains("--change"))
    let change = ["app", "--change", "com.example.clock", "--retain", "5"]
    #expect(
      try apus(change, at: url, trust, installation)
        == "The app com.example.clock now stores its newest 5 notifications for an offline device.\n"
    )
    let changed = try apus(
      ["app", "--change", "com.example.clock", "--broadcast", "on", "--json"], at: url, trust,
      installation)
    #expect(changed == #"{"topic":"com.example.clock","broadcast":true}"# + "\n")
    let key = installation.directory.appending(path: "AuthKey_ABC123DEFG.p8").path
    try FileManager.default.copyItem(atPath: installation.text("key_file"), toPath: key)
    let upstream = [
      "app", "--change", "com.example.clock", "--upstream", "apple", "--upstream-key", key,
      "--upstream-team", "APPLETEAM1", "--upstream-proxy", "me@proxy.example:3128",
    ]
    #expect(
      try apus(upstream, at: url, trust, installation).hasSuffix(
        "now go to apple, with the key ABC123DEFG.\n"))
    #expect(
      try apus(["app"], at: url, read, installation).contains(
        "upstream service apple, key id ABC123DEFG, team APPLETEAM1, "
          + "proxy proxy.example:3128, proxy user me, spool no"))
    let none = ["app", "--change", "com.example.clock", "--upstream", "none"]
    #expect(
      try apus(none, at: url, trust, installation)
        == "The app com.example.clock has no upstream any more.\n")
    let refused = try apus(
      ["app", "--remove", "com.example.clock"], at: url, read, installation, expecting: 1)
    #expect(refused.contains("lee") && refused.contains("trust"))
    let pending = try apus(
      ["device", "approve", "0123456789"], at: url, trust, installation, expecting: 1)
    #expect(pending.contains("operate"))
    _ = try apus(["app", "--remove", "com.example.clock"], at: url, trust, installation)
    // The local command sees the same.
    let here = try Programs.run(installation.apus, ["app", "--data", installation.directory.path])
    #expect(!here.contains("com.example.clock"))
    #expect(try apus(["status"], at: url, read, installation).contains("ready"))
    #expect(try apus(["log", "--counts"], at: url, read, installation).isEmpty)
    let audit = try String(
      contentsOf: installation.directory.appending(path: "audit.jsonl"), encoding: .utf8)
    #expect(
      audit.contains(
        #""event":"team.added","actor":"token kim","subject":"team \#(team)","from":"127.0.0.1:"#))
  }

  @Test("A key added remotely works at once, and is revoked within a second")
  func keyFromElsewhere() throws {
    let (installation, url) = try start()
    let (trust, _) = try token("kim", "trust", in: installation)
    let folder = installation.directory.appending(path: "elsewhere")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    let said = try Programs.run(
      URL(filePath: "/bin/sh"),
      [
        "-c", #"cd "$0" && exec timeout 60 "$@""#, folder.path, installation.apus.path, "key",
        "--add", "--json", "--data", "/nonexistent", "--admin", url, "--token-file", trust,
        "--admin-authority", installation.authority,
      ])
    let file = try #require(try Programs.json(said)["key_file"] as? String)
    let mode = try FileManager.default.attributesOfItem(
      atPath: folder.appending(path: file).path)[.posixPermissions]
    #expect(mode as? Int == 0o600)
    #expect(!said.contains("PRIVATE KEY"))
  }

  @Test("apus log --follow prints each new line of a remote service once")
  func followFromElsewhere() throws {
    let (installation, url) = try start()
    let (read, _) = try token("lee", "read", in: installation)
    let device = try installation.device("phone")
    let deviceToken = try device.connect()
    try installation.send(1, to: deviceToken)
    let log = try Companion(
      installation.apus,
      [
        "log", "--follow", "--json", "--data", "/nonexistent", "--admin", url, "--token-file", read,
        "--admin-authority", installation.authority,
      ], name: "apus log --follow")
    func delivered(_ count: Int) throws {
      _ = try log.wait(for: "\(count) deliveries") { lines in
        lines.filter { $0["state"] as? String == "Delivered to Device" }.count >= count ? true : nil
      }
    }
    try delivered(1)
    try installation.send(2, to: deviceToken)
    try delivered(2)
    let lines = try log.wait(for: "lines") { lines in
      lines.compactMap { line in (line["id"] as? String).map { "\($0) \(line["state"] ?? "")" } }
    }
    #expect(Set(lines).count == lines.count)
    log.stop(SIGINT)
    installation.service?.stop()
  }

  @Test(
    "The service's certificate can be replaced while administrators are connected"
  )
  func rotation() throws {
    let (installation, url) = try start()
    let (trust, _) = try token("kim", "trust", in: installation)
    let port = try #require(url.split(separator: ":").last)
    func shown() throws -> String {
      try Programs.run(
        URL(filePath: "/bin/sh"),
        [
          "-c",
          "timeout 30 openssl s_client -connect 127.0.0.1:\(port) </dev/null 2>/dev/null "
            + "| openssl x509 -noout -fingerprint -sha256",
        ])
    }
    let before = try shown()
    _ = try apus(["rotate", "server"], at: url, trust, installation)
    var after = before
    for _ in 0..<600 where after == before {
      usleep(100_000)
      after = try shown()
    }
    #expect(after != before && after.contains("Fingerprint"))
    #expect(try apus(["status"], at: url, trust, installation).contains("ready"))
  }

  @Test("sslscan finds nothing weak on the administration listener")
  func scan() throws {
    let (installation, url) = try start()
    defer { withExtendedLifetime(installation) {} }
    let report = try Programs.run(
      URL(filePath: "/usr/bin/sslscan"),
      ["--no-colour", "--sni-name=localhost", String(url.dropFirst("https://".count))])
    let lines = report.split(separator: "\n").map(String.init)
    for version in ["SSLv2", "SSLv3", "TLSv1.0", "TLSv1.1"] {
      #expect(lines.contains { $0.hasPrefix(version) && $0.hasSuffix("disabled") })
    }
    #expect(lines.contains { $0.hasPrefix("TLSv1.3") && $0.hasSuffix("enabled") })
    let ciphers = lines.filter { $0.hasPrefix("Accepted") || $0.hasPrefix("Preferred") }
    #expect(!ciphers.isEmpty)
    for cipher in ciphers {
      for weak in ["RC4", "DES", "NULL", "EXP", "MD5", "ADH", "AECDH", "CBC", " 40 ", " 56 "] {
        #expect(!cipher.contains(weak), "\(cipher)")
      }
      #expect(cipher.contains("TLSv1.3") || cipher.contains("ECDHE"), "\(cipher)")
    }
  }

  @Test("A token's secret is in no log, no audit line, no error and no command line")
  func secrets() throws {
    let (installation, url) = try start()
    let (file, secret) = try token("kim", "read", in: installation)
    let wrong = "apus_" + String(repeating: "w", count: 43)
    let wrongFile = installation.directory.appending(path: "wrong.token").path
    try wrong.write(toFile: wrongFile, atomically: true, encoding: .utf8)
    var said = try apus(["app"], at: url, file, installation)
    said += try apus(["app", "--add", "com.example.x"], at: url, file, installation, expecting: 1)
    said += try apus(["app"], at: url, wrongFile, installation, expecting: 1)
    try "\(secret) \(secret)".write(toFile: wrongFile, atomically: true, encoding: .utf8)
    said += try apus(["app"], at: url, wrongFile, installation, expecting: 4)
    let audit = try String(
      contentsOf: installation.directory.appending(path: "audit.jsonl"), encoding: .utf8)
    #expect(audit.contains("unknown token"))
    for text in [said, audit] {
      #expect(!text.contains(secret) && !text.contains(wrong))
      #expect(!text.contains(secret.dropFirst(5).prefix(12)))
    }
    // No option takes a token on the command line.
    let help = try Programs.run(installation.apus, ["app", "--help"])
    #expect(help.contains("--token-file") && !help.contains("--token "))
  }

  @Test("A second service on the same data directory fails, and the first one continues")
  func twoServices() throws {
    let (installation, _) = try start()
    let said = try Programs.run(
      URL(filePath: "/bin/sh"),
      [
        "-c", #"timeout 60 "$0" "$@" 2>&1; [ $? != 0 ]"#, installation.apus.path, "serve", "--data",
        installation.directory.path, "--ephemeral", "--http2-listen", "127.0.0.1:0",
        "--http2-development-listen", "off", "--courier-listen", "off",
        "--courier-development-listen", "off", "--gateway-listen", "off",
        "--gateway-development-listen", "off", "--feedback-listen", "off",
        "--feedback-development-listen", "off",
      ])
    #expect(said.contains("admin.sock") && said.contains("another service listens"))
    let status = try Programs.run(
      installation.apus, ["status", "--data", installation.directory.path])
    #expect(status.contains("ready"))
    installation.service?.stop()
    let down = try Programs.run(
      URL(filePath: "/bin/sh"),
      [
        "-c", #""$0" "$@" 2>&1; [ $? = 3 ]"#, installation.apus.path, "status", "--data",
        installation.directory.path,
      ])
    #expect(down.contains("apus serve"))
  }
}
