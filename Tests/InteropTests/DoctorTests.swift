import Foundation
import Testing

/// Broken set-ups, and what `apus doctor` says about each. Those that no test can make for a whole service (a full
/// disk, an expired certificate) are in DirectoryExaminationTests.
@Suite("What apus doctor detects", .serialized, .timeLimit(.minutes(30)))
struct DoctorTests {
  /// The last line of `apus doctor`, and its exit code.
  private func doctor(
    _ directory: String, _ arguments: [String] = []
  ) throws -> (code: Int, last: [String: Any], text: String) {
    let (code, text) = try Programs.attempt(["doctor", "--json", "--data", directory] + arguments)
    return (code, try Programs.json(try #require(text.split(separator: "\n").last)), text)
  }

  private func expect(
    _ check: String, _ words: String, _ code: Int, _ directory: String,
    _ arguments: [String] = [], location: SourceLocation = #_sourceLocation
  ) throws {
    let found = try doctor(directory, arguments)
    #expect(found.code == code, "\(found.text)", sourceLocation: location)
    #expect(found.last["check"] as? String == check, "\(found.text)", sourceLocation: location)
    #expect(found.last["state"] as? String == "bad", sourceLocation: location)
    #expect(
      "\(found.last["text"] ?? "") \(found.last["remedy"] ?? "")".contains(words), "\(found.text)",
      sourceLocation: location)
  }

  @Test("A running service: topic, authority, trust, descriptors")
  func running() throws {
    let (installation, other) = (try Installation(), try Installation())
    try installation.start()
    let data = installation.directory.path
    let good = try doctor(data)
    #expect(good.code == 0, "\(good.text)")
    let states = try good.text.split(separator: "\n").map { line in
      try Programs.json(line)["state"] as? String
    }
    #expect(states.allSatisfy { $0 != "bad" } && states.count == 14, "\(good.text)")

    try expect("topic", "no app com.example.other", 4, data, ["--topic", "com.example.other"])
    try expect("TLS", "authority", 3, data, ["--authority", other.authority])

    let process = try #require(installation.service?.identifier)
    try Programs.run(
      URL(filePath: "/usr/bin/env"), ["prlimit", "--pid", "\(process)", "--nofile=256:"])
    try expect("descriptors", "LimitNOFILE", 4, data)
    try Programs.run(
      URL(filePath: "/usr/bin/env"), ["prlimit", "--pid", "\(process)", "--nofile=8192:"])

    // The running service keeps to what it has read, and the reason is the file.
    let file = installation.directory.appending(path: "directory.conf")
    let text = try String(contentsOf: file, encoding: .utf8)
    try (text + "[app\n").write(to: file, atomically: false, encoding: .utf8)
    try expect("directory", "directory.conf, line", 4, data)
  }

  @Test("Files: a missing server key, and modes")
  func files() throws {
    let installation = try Installation()
    let data = installation.directory.path
    let key = try #require(
      FileManager.default.contentsOfDirectory(atPath: "\(data)/keys").first {
        $0.hasSuffix(".p8")
      })
    for (path, mode) in [("sealing.keys", 0o640), ("keys/\(key)", 0o604), ("server/server.key", 0)]
    {
      try FileManager.default.setAttributes(
        [.posixPermissions: mode], ofItemAtPath: "\(data)/\(path)")
      try expect("modes", "chmod 600 \(data)/\(path)", 4, data)
      try FileManager.default.setAttributes(
        [.posixPermissions: 0o600], ofItemAtPath: "\(data)/\(path)")
    }
    try FileManager.default.removeItem(atPath: "\(data)/server/server.key")
    try expect("files", "apus rotate server", 4, data)
  }

  @Test("Something else on the port")
  func foreign() throws {
    let installation = try Installation()
    let script = """
      import http.server
      server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
      print('{"event":"ready","port":%d}' % server.server_port, flush=True)
      server.serve_forever()
      """
    let server = try Companion(
      URL(filePath: "/usr/bin/env"), ["python3", "-c", script], name: "python")
    let port = try #require(try server.first("ready")["port"] as? Int)
    try expect("TLS", "not a push service", 3, installation.directory.path, ["localhost:\(port)"])
    server.stop()
  }

  @Test("The clock")
  func clock() throws {
    let dev = try DevProcess(["--strict"])
    defer { _ = try? dev.stop() }
    _ = try dev.api("PUT", "clock", #"{"advanceMilliseconds":7200000}"#)
    let port = try #require((dev.ready["http2"] as? [String: Int])?["production"])
    try expect("request", "clock", 1, dev.text("data"), ["localhost:\(port)"])
  }

  @Test("The upstream of an app: the way to it, and the credential for it")
  func upstream() throws {
    let (gateway, other) = (try Installation(), try Installation())
    try other.start()
    let data = gateway.directory.path
    func refused(_ topic: String, _ words: String) throws {
      let said = try shell(#""$0" doctor --data . --upstream \#(topic)"#, in: gateway)
      #expect(said.code == 4 && said.text.contains(words), "\(said)")
    }
    try refused(Installation.topic, "has no upstream")
    try refused("com.example.none", "the service has no app com.example.none")
    func change(_ arguments: [String]) throws {
      let (code, text) = try Programs.attempt(
        ["app", "--data", data, "--change", Installation.topic] + arguments)
      #expect(code == 0, "\(text)")
    }
    try change([
      "--upstream", "https://localhost:\(other.providerPort)", "--upstream-key",
      other.text("key_file"), "--upstream-key-id", other.text("key_id"), "--upstream-team",
      other.text("team"), "--upstream-authority", other.authority,
    ])
    let good = try doctor(data, ["--upstream", Installation.topic])
    #expect(good.code == 0, "\(good.text)")
    #expect(good.last["check"] as? String == "pace", "\(good.text)")
    #expect(good.text.contains("key \(other.text("key_id")) of team"), "\(good.text)")
    try change([
      "--upstream-key", gateway.text("key_file"), "--upstream-key-id", gateway.text("key_id"),
      "--upstream-team", gateway.text("team"),
    ])
    try expect("request", "provider token", 1, data, ["--upstream", Installation.topic])
    try change(["--upstream-authority", "none"])
    try expect("TLS", "authority", 3, data, ["--upstream", Installation.topic])
    try change(["--upstream", "https://localhost:9"])
    try expect("connection", "Nothing listens", 3, data, ["--upstream", Installation.topic])
  }
}
