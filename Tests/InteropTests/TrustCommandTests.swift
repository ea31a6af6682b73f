import Foundation
import Testing

@Suite("The commands that manage trust", .serialized)
struct TrustCommandTests {
  private func run(
    _ arguments: [String], in installation: Installation, expecting code: Int = 0
  ) throws -> String {
    let output = try Programs.run(
      URL(filePath: "/bin/sh"),
      [
        "-c", #"timeout 60 "$0" "$@" 2>&1; [ $? = \#(code) ]"#,
        installation.apus.path, arguments[0], "--data", installation.directory.path,
      ] + arguments.dropFirst())
    return output
  }

  private func audit(_ installation: Installation) throws -> [String] {
    let file = installation.directory.appending(path: "audit.jsonl")
    return try String(contentsOf: file, encoding: .utf8).split(separator: "\n").map { line in
      let object = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
      #expect((object?["actor"] as? String)?.hasPrefix("uid ") == true)
      return try #require(object?["event"] as? String)
    }
  }

  @Test("A team, an app and keys are added, listed and revoked, with an audit line each")
  func records() throws {
    let installation = try Installation()
    let made = try Programs.json(run(["team", "--add", "Kitchen", "--json"], in: installation))
    let team = try #require(made["team"] as? String)
    #expect(team.count == 10)
    // There are two teams now, so --team is required.
    let vague = try run(["app", "--add", "com.example.clock"], in: installation, expecting: 2)
    #expect(vague.contains("--team") && vague.contains(team))
    _ = try run(["app", "--add", "com.example.clock", "--team", team], in: installation)
    let key = try Programs.json(
      run(
        ["key", "--add", "--team", team, "--topic", "com.example.clock", "--json"],
        in: installation))
    let id = try #require(key["key_id"] as? String)
    let mode = try FileManager.default.attributesOfItem(
      atPath: #require(key["key_file"] as? String))[.posixPermissions]
    #expect(mode as? Int == 0o600)
    // An app cannot be removed while a key names it.
    let named = try run(["app", "--remove", "com.example.clock"], in: installation, expecting: 4)
    #expect(named.contains("nothing was changed"))
    let list = try run(["key", "--json"], in: installation)
    #expect(list.contains(#""topics":"com.example.clock""#))
    _ = try run(["key", "--revoke", id], in: installation)
    #expect(
      try run(["key", "--revoke", id], in: installation, expecting: 4).contains("already"))
    #expect(try run(["key"], in: installation).contains("revoked yes"))
    #expect(
      try audit(installation)
        == ["service.initialized", "team.added", "app.added", "key.added", "key.revoked"])
  }

  @Test("The retention of an app is set when it is added, and can be changed")
  func retention() throws {
    let installation = try Installation()
    func listed() throws -> String { try run(["app", "--json"], in: installation) }
    #expect(try !listed().contains("retain"))
    _ = try run(["app", "--add", "com.example.clock", "--retain", "3"], in: installation)
    #expect(try listed().contains(#""retain":"3""#))
    let changed = try Programs.json(
      run(["app", "--change", "com.example.clock", "--retain", "100", "--json"], in: installation))
    #expect(changed["retain"] as? Int == 100)
    #expect(try listed().contains(#""retain":"100""#))
    // Invalid values are rejected before anything is changed.
    for wrong in [
      ["--change", "com.example.clock"], ["--retain", "3"],
      ["--change", "com.example.clock", "--retain", "101"],
      ["--change", "com.example.clock", "--retain", "0"],
    ] {
      _ = try run(["app"] + wrong, in: installation, expecting: 2)
    }
    let unknown = try run(
      ["app", "--change", "com.example.none", "--retain", "2"], in: installation, expecting: 4)
    #expect(unknown.contains("com.example.none"))
    #expect(try listed().contains(#""retain":"100""#))
    #expect(try audit(installation) == ["service.initialized", "app.added", "app.changed"])
  }

  @Test("A key made with OpenSSL is registered by its public half")
  func foreignKey() throws {
    let installation = try Installation()
    let (secret, half) = (
      installation.directory.appending(path: "own.p8").path,
      installation.directory.appending(path: "own.pub").path
    )
    let openssl = URL(filePath: "/usr/bin/openssl")
    try Programs.run(
      openssl,
      ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", secret])
    try Programs.run(openssl, ["pkey", "-in", secret, "-pubout", "-out", half])
    let key = try Programs.json(
      run(["key", "--add", "--id", "PROVIDER01", "--public-key", half, "--json"], in: installation))
    #expect(key["key_id"] as? String == "PROVIDER01" && key["key_file"] == nil)
    let again = try run(
      ["key", "--add", "--id", "PROVIDER01"], in: installation, expecting: 4)
    #expect(again.contains("PROVIDER01 already"))
    // RSA keys cannot sign provider tokens.
    try Programs.run(openssl, ["genpkey", "-algorithm", "RSA", "-out", secret])
    try Programs.run(openssl, ["pkey", "-in", secret, "-pubout", "-out", half])
    #expect(
      try run(["key", "--add", "--public-key", half], in: installation, expecting: 4)
        .contains("P-256"))
  }

  @Test("A certificate is revoked once, by its file or its SHA-256")
  func certificate() throws {
    let installation = try Installation()
    let file = try installation.providerCertificate([])
    let said = try Programs.json(
      run(["cert", "--revoke", file, "--json"], in: installation))
    let digest = try #require(said["revoked"] as? String)
    let openssl = try Programs.run(
      URL(filePath: "/usr/bin/openssl"), ["x509", "-in", file, "-noout", "-fingerprint", "-sha256"])
    #expect(openssl.replacingOccurrences(of: ":", with: "").lowercased().contains(digest))
    #expect(
      try run(["cert", "--revoke", digest], in: installation, expecting: 4).contains("already"))
  }

  @Test("Finishing a rotation locks out no device by mistake", .timeLimit(.minutes(30)))
  func lockedOut() throws {
    let installation = try Installation()
    try installation.start()
    let device = try installation.device("phone")
    _ = try device.connect()
    _ = try run(["rotate", "device-authority"], in: installation)
    // An identity in two files cannot be renewed, so the device keeps its old certificate.
    let refusal = try run(
      ["rotate", "device-authority", "--finish"], in: installation, expecting: 1)
    #expect(refusal.contains("1 known device could no longer connect"))
    #expect(refusal.contains("--force"))
    #expect(
      try run(["rotate", "sealing-key", "--force"], in: installation, expecting: 2)
        .contains("--force"))
    let said = try run(
      ["rotate", "device-authority", "--finish", "--force"], in: installation)
    #expect(said.contains("1 known device can no longer connect"))
  }

  @Test("Concurrent rotations are serialized, and no authority is lost")
  func processes() throws {
    let installation = try Installation()
    let file = installation.directory.appending(path: "authority/devices.crt")
    let before = try String(contentsOf: file, encoding: .utf8)
    let processes = try (0..<3).map { _ in
      let process = Process()
      process.executableURL = try Programs.product("apus")
      process.arguments = [
        "rotate", "device-authority", "--data", installation.directory.path,
      ]
      process.standardInput = FileHandle.nullDevice
      return (process, try Programs.start(process))
    }
    for (process, output) in processes {
      _ = try output.readToEnd()
      process.waitUntilExit()
      #expect(process.terminationStatus == 0)
    }
    let after = try String(contentsOf: file, encoding: .utf8)
    #expect(after.components(separatedBy: "BEGIN CERTIFICATE").count - 1 == 4)
    #expect(after.contains(before.trimmingCharacters(in: .whitespacesAndNewlines)))
    // The key matches the newest certificate, so certificates can be issued.
    _ = try run(["device", "add", "--name", "after"], in: installation)
  }

  @Test("OpenSSL verifies the new certificate from the old and the new root")
  func rotation() throws {
    let installation = try Installation()
    let folder = installation.directory
    let old = folder.appending(path: "old.crt").path
    try FileManager.default.copyItem(
      atPath: folder.appending(path: "authority/service.crt").path, toPath: old)
    _ = try run(["rotate", "service-authority"], in: installation)
    let (server, new) = (
      folder.appending(path: "server/server.crt").path,
      folder.appending(path: "authority/service.crt").path
    )
    for root in [old, new] {
      let said = try Programs.run(
        URL(filePath: "/usr/bin/openssl"),
        ["verify", "-purpose", "sslserver", "-CAfile", root, "-untrusted", server, server])
      #expect(said.contains("OK"))
    }
    _ = try run(["rotate", "service-authority", "--finish"], in: installation)
    let first = try run(["rotate", "sealing-key"], in: installation)
    // `apus key rotate` does the same.
    let second = try run(["key", "rotate"], in: installation)
    #expect(first.contains("Key 2 now seals") && second.contains("Key 3 now seals"))
    _ = try run(["key", "rotate", "--add"], in: installation, expecting: 2)
    #expect(try run(["key", "turn"], in: installation, expecting: 2).contains("rotate"))
    _ = try run(["rotate", "device-authority"], in: installation)
    #expect(
      try run(["rotate", "sealing-key", "--finish"], in: installation, expecting: 2)
        .contains("--finish"))
    for wrong in [
      ["device-authority"], ["sealing-key"], ["service-authority", "--finish"],
      ["service-authority", "--authority", installation.authority],
    ] {
      let said = try run(
        ["rotate"] + wrong + ["--authority-name", "Apple"], in: installation, expecting: 2)
      #expect(said.contains("--authority-name"), "\(wrong)")
    }
    #expect(
      try run(
        ["rotate", "service-authority", "--authority-name", "Apus for Apple"], in: installation
      ).contains("Apus for Apple now issues certificates"))
    #expect(try run(["rotate", "moon"], in: installation, expecting: 2).contains("sealing-key"))
  }
}
