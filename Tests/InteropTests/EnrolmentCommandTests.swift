import Foundation
import Testing

@Suite("apus code, apus device approve and apus listen --enroll", .serialized)
struct EnrolmentCommandTests {
  private static let openssl = URL(filePath: "/usr/bin/openssl")

  /// Runs the program to its end and returns its standard output and error.
  private func apus(_ installation: Installation, _ arguments: [String]) throws -> String {
    try Programs.run(
      URL(filePath: "/bin/sh"),
      ["-c", #"exec timeout 60 "$0" "$@" 2>&1"#, installation.apus.path] + arguments)
  }

  private func json(_ installation: Installation, _ arguments: [String]) throws -> [String: Any] {
    try Programs.json(
      Programs.run(
        installation.apus, arguments + ["--data", installation.directory.path, "--json"]))
  }

  private func listen(_ installation: Installation, _ file: URL, _ extra: [String]) -> [String] {
    [
      "listen", "--to", "localhost:\(installation.courierPort)", "--authority",
      installation.authority, "--identity", file.path, "--topic", Installation.topic, "--json",
    ] + extra
  }

  @Test(
    "A device enrols and listens at the address that works, and ends when there is none",
    .timeLimit(.minutes(30)))
  func addresses() throws {
    let installation = try Installation()
    try installation.start()
    let code = try #require(try json(installation, ["code"])["code"] as? String)
    let file = installation.directory.appending(path: "device.pem")
    let dead = ["listen", "--to", "localhost:1", "--to", "127.0.0.1:1"]
    let device = try Companion(
      installation.apus,
      dead + listen(installation, file, ["--enroll", code]).dropFirst(), name: "first")
    _ = try device.first("enrolled")
    #expect(try device.first("disconnected")["retry_milliseconds"] as? Int == 0)
    _ = try device.first("token")
    device.stop()
    let text = try Programs.run(
      URL(filePath: "/bin/sh"),
      ["-c", #"timeout 60 "$0" "$@" 2>&1; echo "exit $?""#, installation.apus.path] + dead + [
        "--authority", installation.authority, "--identity", file.path, "--topic", "a.b",
      ])
    #expect(text.contains("127.0.0.1:1") && text.contains("exit 3"), "\(text)")
  }

  @Test("A code enrols a device once; later starts need no code", .timeLimit(.minutes(30)))
  func code() throws {
    let installation = try Installation()
    try installation.start()
    let made = try json(
      installation,
      [
        "code", "--name", "kitchen", "--tag", "floor=2", "--own-tags", "--expires", "1",
      ])
    let code = try #require(made["code"] as? String)
    #expect(code.count == 34)
    let file = installation.directory.appending(path: "device.pem")
    let first = try Companion(
      installation.apus,
      listen(installation, file, ["--enroll", code.lowercased(), "--tag", "kiosk"]),
      name: "first")
    let id = try #require(try first.first("enrolled")["device_id"] as? String)
    let token = try #require(try first.first("token")["token"] as? String)
    first.stop()

    let shown = try json(installation, ["device", "show", "kitchen"])
    #expect(shown["device"] as? String == id && shown["connected"] as? Bool != nil)
    #expect(shown["tags"] as? [String] == ["floor=2", "kiosk"])
    let mode = try FileManager.default.attributesOfItem(atPath: file.path)[.posixPermissions]
    #expect(mode as? Int == 0o600)
    let authority = installation.directory.appending(path: "authority/devices.crt").path
    let verdict = try Programs.run(
      Self.openssl, ["verify", "-CAfile", authority, "-purpose", "sslclient", file.path])
    #expect(verdict.contains("OK"))
    let subject = try Programs.run(Self.openssl, ["x509", "-in", file.path, "-noout", "-subject"])
    #expect(subject.contains("UID = \(id)") && subject.contains("CN = kitchen"))

    let second = try Companion(
      installation.apus, listen(installation, file, ["--enroll", code]), name: "second")
    #expect(try second.first("token")["token"] as? String == token)
    #expect(second.all("enrolled").isEmpty)
    second.stop()

    let other = installation.directory.appending(path: "other.pem")
    let trouble = #expect(throws: Trouble.self) {
      try apus(installation, listen(installation, other, ["--enroll", code]))
    }
    #expect(trouble?.description.contains("ended with 1") == true)
    #expect(trouble?.description.contains("the code is not accepted") == true)
    let list = try json(installation, ["code", "--list"])
    #expect(list["state"] as? String == "used up" && list["used"] as? Int == 1)
    let audit = try String(
      contentsOf: installation.directory.appending(path: "audit.jsonl"), encoding: .utf8)
    for event in ["code.made", "code.used", "enrolment.refused"] {
      #expect(audit.contains("\"event\":\"\(event)\""), "\(event)")
    }
    #expect(audit.contains("device \(id)") && !audit.contains(code))
  }

  @Test("Approval and rejection on the command line", .timeLimit(.minutes(30)))
  func approval() throws {
    let installation = try Installation()
    try installation.start()
    let file = installation.directory.appending(path: "device.pem")
    let device = try Companion(
      installation.apus, listen(installation, file, ["--name", "Tür 2", "--tag", "kiosk"]),
      name: "device")
    let key = try #require(try device.first("pending")["key"] as? String)
    let pending = try json(installation, ["device", "pending"])
    #expect(pending["key"] as? String == key)
    #expect(pending["name"] as? String == "Tür 2")
    #expect(pending["tags"] as? [String] == ["kiosk"])
    #expect(pending["state"] as? String == "waiting")
    let approved = try json(
      installation, ["device", "approve", String(key.prefix(12)), "--tag", "floor=1"])
    let labelled = try json(installation, ["device", "list", "--tag", "floor=1", "--tag", "kiosk"])
    #expect(labelled["name"] as? String == "Tür 2", "\(labelled)")
    let enrolled = try device.first("enrolled")
    #expect(enrolled["device_id"] as? String == approved["device_id"] as? String)
    _ = try device.first("token")
    device.stop()

    let others = ["second", "third"].map { name in
      installation.directory.appending(path: "\(name).pem")
    }
    var unwanted: [String] = []
    for other in others {
      let companion = try Companion(
        installation.apus, listen(installation, other, []), name: other.lastPathComponent)
      unwanted.append(try #require(try companion.first("pending")["key"] as? String))
      companion.stop()
    }
    let said = try Programs.run(
      installation.apus,
      ["device", "reject", "--data", installation.directory.path, "--json"] + unwanted)
    let rejected = try said.split(separator: "\n").map { line in
      try Programs.json(line)["rejected"] as? String
    }
    #expect(rejected == unwanted)
    // The next start asks again with the same key, and ends with the rejection.
    for other in others {
      let trouble = #expect(throws: Trouble.self) {
        try apus(installation, listen(installation, other, []))
      }
      #expect(trouble?.description.contains("the operator has rejected the request") == true)
    }
  }

  @Test("Each error has its own message and exit code", .timeLimit(.minutes(30)))
  func mistakes() throws {
    let installation = try Installation()
    let data = ["--data", installation.directory.path]
    let nowhere = installation.directory.appending(path: "nowhere").path
    for (arguments, code, words) in [
      (["code", "--uses", "0"] + data, 2, "from 1 to"),
      (["code", "--expires", "9000"] + data, 2, "from 1 to"),
      (["code", "--withdraw", "rubbish"] + data, 1, "neither a code"),
      (
        ["code", "--withdraw", "04HM-ASW9-NF6Y-ZZPW-QAC7-CN1J-205A"] + data, 1,
        "the code does not exist"
      ),
      (["code", "--data", nowhere], 4, "apus init"),
      (["device", "approve", "12"] + data, 2, "8 to 64"),
      (["device", "approve", "0123456789"] + data, 4, "no pending request has"),
      (["device", "reject", "0123456789"] + data, 4, "no pending request has"),
      (
        ["device", "approve", "0123456789", "9876543210", "--name", "x"] + data, 2,
        "works with only one KEY"
      ),
      (["device", "--certificate", "x"] + data, 2, "has no effect with list"),
      (["listen", "--enroll", "x", "--topic", "a.b"] + data, 2, "--identity is missing"),
      (["listen", "--topic", "a.b"] + data, 2, "--certificate is missing"),
      (
        ["listen", "--identity", "x", "--certificate", "y", "--topic", "a.b"] + data, 2,
        "combined with"
      ),
    ] {
      let trouble = #expect(throws: Trouble.self) { try apus(installation, arguments) }
      let said = trouble?.description ?? ""
      #expect(said.contains("ended with \(code)"), "\(arguments): \(said)")
      #expect(said.contains(words), "\(arguments): \(said)")
    }
    let code = try json(installation, ["code"])
    #expect(
      try apus(installation, ["code", "--withdraw", code["code"] as? String ?? ""] + data)
        .contains("Withdrew the code"))
    #expect(try apus(installation, ["code", "--list"] + data).isEmpty)
  }
}
