import Foundation
import Testing

@Suite("apus device: list, show, add and set", .serialized)
struct DeviceCommandTests {
  private func apus(
    _ arguments: [String], in installation: Installation
  ) throws -> (code: Int32, text: String) {
    let text = try Programs.run(
      URL(filePath: "/bin/sh"),
      [
        "-c", #"timeout 60 "$0" "$@" 2>&1; echo "code $?""#, installation.apus.path, "device",
      ] + arguments + ["--data", installation.directory.path])
    let lines = text.split(separator: "\n")
    let code = lines.last.flatMap { Int32($0.dropFirst("code ".count)) }
    return (try #require(code), lines.dropLast().joined(separator: "\n"))
  }

  private func objects(
    _ arguments: [String], in installation: Installation
  ) throws -> [[String: Any]] {
    try apus(arguments + ["--json"], in: installation).text.split(separator: "\n")
      .filter { $0.hasPrefix("{") }.map { try Programs.json($0) }
  }

  @Test("Without a service, the data directory has names, tags and retirement")
  func offline() throws {
    let installation = try Installation()
    let made = try #require(
      try objects(
        ["add", "--name", "kitchen", "--tag", "floor=2", "--tag", "kiosk"], in: installation
      )
      .first)
    let id = try #require(made["device_id"] as? String)
    #expect(made["tags"] as? [String] == ["floor=2", "kiosk"])
    let list = try apus(["list"], in: installation)
    #expect(
      list.code == 0 && list.text.contains("\(id)  kitchen  floor=2 kiosk  unknown"), "\(list)")
    #expect(list.text.contains("No service runs"))
    let shown = try apus(["show", "kitchen"], in: installation)
    #expect(shown.code == 0 && shown.text.contains("device       \(id)"), "\(shown)")
    #expect(shown.text.contains("until 20") && shown.text.contains("are unknown"), "\(shown)")
    let changed = try apus(
      ["set", "kitchen", "--name", "hall", "--tag", "floor=3", "--untag", "kiosk"], in: installation
    )
    #expect(
      changed.text == "The device \(id) has name \"hall\", tags floor=3 now.", "\(changed)")
    #expect(try objects(["list", "--tag", "floor=3"], in: installation).count == 1)
    #expect(try objects(["list", "--tag", "floor=2"], in: installation).isEmpty)
    #expect(try objects(["list", "HAL"], in: installation).count == 1)
    for (arguments, words) in [
      (["add", "--name", "hall"], "the device \(id) has the name \"hall\""),
      (["show", "kitchen"], "no device has the id or the name \"kitchen\""),
      (["set", "0123456789abcdef", "--name", "hall"], "the device \(id) has the name"),
    ] {
      let said = try apus(arguments, in: installation)
      #expect(said.code == 4 && said.text.contains(words), "\(said)")
    }
    #expect(try apus(["set", "hall"], in: installation).code == 2)
    #expect(try apus(["retire", "hall"], in: installation).code == 0)
    #expect(try apus(["list"], in: installation).text.contains("retired since 20"))
    // The name of a retired device is free.
    #expect(try apus(["add", "--name", "hall"], in: installation).code == 0)
    let audit = try String(
      contentsOf: installation.directory.appending(path: "audit.jsonl"), encoding: .utf8)
    #expect(audit.components(separatedBy: "\"device.labelled\"").count == 4, "\(audit)")
  }

  @Test(
    "The running service has connections, apps, tokens and notifications", .timeLimit(.minutes(10)))
  func online() throws {
    let installation = try Installation()
    try installation.start()
    let device = try installation.device("kitchen")
    let token = try device.connect()
    #expect(
      try apus(["set", "kitchen", "--tag", "floor=2"], in: installation).text.contains("floor=2"))
    let list = try apus([], in: installation)
    #expect(list.code == 0 && list.text.contains("kitchen  floor=2  connected"), "\(list)")
    _ = try Programs.run(
      installation.apus,
      [
        "send", "--to", "localhost:\(installation.providerPort)", "--data",
        installation.directory.path, "--token", token, "--payload",
        #"{"aps":{"alert":"hello"},"n":1}"#,
      ])
    _ = try device.shown(atLeast: 1)
    device.disconnect()
    var shown = try apus(["show", "kitchen"], in: installation)
    // Lines reach the ledger in the store within a second.
    for _ in 0..<100 where !shown.text.contains("Delivered to Device") {
      usleep(100_000)
      shown = try apus(["show", "kitchen"], in: installation)
    }
    for words in ["offline", Installation.topic, "enabled", token, "Delivered to Device"] {
      #expect(shown.code == 0 && shown.text.contains(words), "\(words): \(shown)")
    }
    let one = try #require(try objects(["show", "kitchen"], in: installation).first)
    #expect(one["name"] as? String == "kitchen" && one["tags"] as? [String] == ["floor=2"])
    #expect((one["recent"] as? [Any])?.isEmpty == false)
    #expect((one["certificates_end"] as? [Any])?.count == 1)
    func doctor(_ arguments: [String]) throws -> String {
      try Programs.run(
        URL(filePath: "/bin/sh"),
        [
          "-c", #"timeout 60 "$0" "$@" 2>&1; echo "code $?""#, installation.apus.path, "doctor",
          "--data", installation.directory.path,
        ] + arguments)
    }
    let offline = try doctor(["--device", "kitchen"])
    #expect(offline.contains("kitchen (") && offline.contains("is offline since"), "\(offline)")
    #expect(offline.hasSuffix("code 1\n"), "\(offline)")
    let unknown = try doctor(["--device", "nobody", "--json"])
    #expect(unknown.contains(#""cause":"unknown""#), "\(unknown)")
    _ = try device.connect()
    let fine = try doctor(["--device", "kitchen"])
    #expect(
      fine.contains("acknowledged its last notification") && fine.hasSuffix("code 0\n"), "\(fine)")
    let other = try doctor(["--device", "kitchen", "--topic", "com.example.other", "--json"])
    #expect(other.contains(#""cause":"topic-not-registered""#), "\(other)")
    #expect(try apus(["list", "--tag", "floor=1"], in: installation).text == "None.")
    #expect(try apus(["show", "nobody"], in: installation).code == 4)
  }
}
