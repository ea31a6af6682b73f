import Foundation
import Testing

@Suite("The upstream of an app on the command line", .serialized)
struct UpstreamCommandTests {
  private static let openssl = URL(filePath: "/usr/bin/openssl")
  private static let topic = Installation.topic
  private let installation: Installation
  private var folder: URL { installation.directory.appending(path: "upstreams") }

  init() throws { installation = try Installation() }

  private func run(_ arguments: [String], expecting code: Int = 0) throws -> String {
    try Programs.run(
      URL(filePath: "/bin/sh"),
      [
        "-c", #"timeout 60 "$0" "$@" 2>&1; [ $? = \#(code) ]"#, installation.apus.path, "app",
        "--data", installation.directory.path,
      ] + arguments)
  }

  private func change(_ arguments: [String], expecting code: Int = 0) throws -> String {
    try run(["--change", Self.topic] + arguments, expecting: code)
  }

  private func file(_ name: String) -> String { installation.directory.appending(path: name).path }

  /// A provider key as Apple's page for keys offers it.
  private func makeKey(_ name: String) throws -> String {
    let path = file(name)
    _ = try Programs.run(
      Self.openssl,
      ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", path])
    return path
  }

  /// A certificate and its key in PEM form.
  private func makeCertificate() throws -> (certificate: String, key: String) {
    let (certificate, key) = (file("push.crt"), file("push.key"))
    _ = try Programs.run(
      Self.openssl,
      [
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=push", "-days", "9",
        "-keyout", key, "-out", certificate,
      ])
    return (certificate, key)
  }

  private func listed() throws -> [String: Any]? {
    let text = try run(["--json"])
    #expect(!text.contains("PRIVATE") && !text.contains("s3cret"))
    let app = try Programs.json(text)
    return app["upstream"] as? [String: Any]
  }

  private func names() throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
  }

  private func mode(_ name: String) throws -> Int? {
    try FileManager.default.attributesOfItem(atPath: folder.appending(path: name).path)[
      .posixPermissions] as? Int
  }

  @Test("A key is copied, its id read from its name, and the upstream listed and removed")
  func key() throws {
    let key = try makeKey("AuthKey_ABC123DEFG.p8")
    let arguments = ["--upstream", "apple", "--upstream-key", key, "--upstream-team", "APPLETEAM1"]
    #expect(
      try change(arguments)
        == "Pushes of the app \(Self.topic) to device tokens of another service now go to apple, "
        + "with the key ABC123DEFG.\n")
    #expect(try names() == ["\(Self.topic).p8"])
    #expect(try mode("\(Self.topic).p8") == 0o600)
    #expect(try listed()?["key_id"] as? String == "ABC123DEFG")
    #expect(
      try run([]).contains(
        "upstream service apple, key id ABC123DEFG, team APPLETEAM1, spool no"))
    let changed = try Programs.json(
      change(["--upstream", "https://push.example.com", "--upstream-spool", "on", "--json"]))
    let upstream = try #require(changed["upstream"] as? [String: Any])
    #expect(upstream["service"] as? String == "https://push.example.com")
    #expect(upstream["spool"] as? Bool == true && upstream["team"] as? String == "APPLETEAM1")
    #expect(
      try change(["--upstream", "none"]) == "The app \(Self.topic) has no upstream any more.\n")
    #expect(try names().isEmpty && listed() == nil)
    let audit = try String(contentsOfFile: file("audit.jsonl"), encoding: .utf8)
    #expect(audit.components(separatedBy: "\"app.changed\"").count == 4)
  }

  @Test("A certificate is taken from PEM and from PKCS#12, and the proxy's password from a file")
  func certificate() throws {
    let pem = try makeCertificate()
    _ = try change([
      "--upstream", "apple-sandbox", "--upstream-certificate", pem.certificate,
      "--upstream-certificate-key", pem.key,
    ])
    #expect(try names() == ["\(Self.topic).crt", "\(Self.topic).key"])
    #expect(try mode("\(Self.topic).key") == 0o600)
    let archive = file("push.p12")
    _ = try Programs.run(
      Self.openssl,
      [
        "pkcs12", "-export", "-in", pem.certificate, "-inkey", pem.key, "-out", archive,
        "-passout", "pass:word",
      ])
    try Data("word\n".utf8).write(to: URL(filePath: file("password")))
    try Data("s3cret\n".utf8).write(to: URL(filePath: file("proxy-password")))
    _ = try change([
      "--upstream-certificate", archive, "--upstream-password-file", file("password"),
      "--upstream-proxy", "http://me@proxy.example:3128", "--upstream-proxy-password-file",
      file("proxy-password"), "--upstream-topic", "com.example.there", "--upstream-authority",
      pem.certificate,
    ])
    let upstream = try #require(try listed())
    #expect(upstream["service"] as? String == "apple-sandbox" && upstream["key_id"] == nil)
    #expect(upstream["proxy"] as? String == "proxy.example:3128")
    #expect(upstream["proxy_user"] as? String == "me")
    #expect(upstream["topic"] as? String == "com.example.there")
    #expect(try mode("\(Self.topic).proxy-password") == 0o600)
    #expect(try names().count == 4)
    _ = try change([
      "--upstream-proxy", "none", "--upstream-topic", "none", "--upstream-authority", "none",
    ])
    #expect(try names() == ["\(Self.topic).crt", "\(Self.topic).key"])
    let wrong = try change(["--upstream-certificate", archive], expecting: 4)
    #expect(wrong.contains("push.p12 is not PEM") && wrong.contains("--upstream-password-file"))
    // A file with both, as `apus cert` writes it.
    let both = file("both.pem")
    let text = try [pem.certificate, pem.key].map {
      try String(contentsOfFile: $0, encoding: .utf8)
    }
    try Data(text.joined().utf8).write(to: URL(filePath: both))
    _ = try change(["--upstream-certificate", both])
    let copied = try String(
      contentsOf: folder.appending(path: "\(Self.topic).crt"), encoding: .utf8)
    #expect(copied.contains("BEGIN CERTIFICATE") && !copied.contains("PRIVATE"))
  }

  @Test("An app is added with its upstream, and removed with the files")
  func added() throws {
    let key = try makeKey("push.p8")
    let made = try Programs.json(
      run([
        "--add", "com.example.clock", "--upstream", "apple", "--upstream-key", key,
        "--upstream-key-id", "ABC123DEFG", "--upstream-team", "APPLETEAM1", "--json",
      ]))
    #expect((made["upstream"] as? [String: Any])?["service"] as? String == "apple")
    #expect(try names() == ["com.example.clock.p8"])
    _ = try run(["--remove", "com.example.clock"])
    #expect(try names().isEmpty)
  }

  @Test("Mistakes name the option, and change nothing")
  func mistakes() throws {
    let (named, unnamed) = (try makeKey("AuthKey_ABC123DEFG.p8"), try makeKey("push.p8"))
    let pem = try makeCertificate()
    let before = try String(contentsOfFile: file("directory.conf"), encoding: .utf8)
    func refused(_ arguments: [String], _ code: Int, _ texts: String...) throws {
      let output = try change(arguments, expecting: code)
      for text in texts { #expect(output.contains(text), "\(arguments): \(output)") }
    }
    let (key, certificate) = ("--upstream-key", "--upstream-certificate")
    try refused(["--upstream", "http://a.example"], 2, "--upstream", "write https://")
    try refused(["--upstream", "apple", "--upstream-proxy", "a"], 2, "[USER@]HOST:PORT")
    try refused(["--upstream", "none", key, named], 2, "Leave --upstream-key out")
    try refused([key, unnamed, "--upstream-team", "APPLETEAM1"], 2, "--upstream-key-id is missing")
    try refused([key, named, "--upstream-key-id", "OTHERKEY01"], 2, "is the key ABC123DEFG")
    try refused([key, file("missing.p8")], 4, "missing.p8", "No such file")
    try refused([key, named, certificate, pem.certificate], 2, "a key is given as well")
    try refused(["--upstream-certificate-key", pem.key], 2, "--upstream-certificate is missing")
    try refused(["--upstream-password-file", pem.key], 2, "--upstream-certificate is missing")
    try refused([certificate, pem.certificate], 2, "--upstream-certificate-key is missing")
    try refused(
      [certificate, pem.certificate, "--upstream-password-file", named], 2, "is not encrypted")
    try refused(
      [certificate, named, "--upstream-certificate-key", pem.key, "--upstream", "apple"], 4,
      "no certificate can be read in the upstream's certificate")
    try refused(
      [certificate, pem.certificate, "--upstream-certificate-key", named, "--upstream", "apple"], 4,
      "is not the key of the first certificate")
    try refused(
      ["--upstream", "apple"], 4, "neither a key nor a certificate", "nothing was changed")
    try refused(["--upstream", "apple", key, named], 4, "needs the id of its team")
    try refused(["--upstream-spool", "on"], 4, "the app has no upstream yet")
    try refused(["--upstream-spool", "maybe"], 2, "--upstream-spool")
    let stray = try run(["--upstream", "apple"], expecting: 2)
    #expect(stray.contains("--change is missing"))
    #expect(try String(contentsOfFile: file("directory.conf"), encoding: .utf8) == before)
    #expect(!FileManager.default.fileExists(atPath: folder.path))
  }
}
