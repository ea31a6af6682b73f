import Foundation
import Testing

@Suite("apus dev in a terminal and in CI", .serialized, .timeLimit(.minutes(30)))
struct DevCommandTests {
  @Test(
    "A JSON line reports ready, another the end; SIGTERM leaves nothing behind")
  func ready() throws {
    let dev = try DevProcess()
    #expect(dev.ready["mode"] as? String == "lenient")
    #expect(dev.ready["host"] as? String == "localhost")
    #expect(dev.ready["topics"] as? [String] == ["com.example.app"])
    for listener in ["http2", "courier", "gateway", "feedback"] {
      let ports = try #require(dev.ready[listener] as? [String: Int], "\(listener)")
      #expect(Set(ports.keys) == ["production", "development"])
    }
    for file in ["authority_file", "key_file", "certificate_file", "data"] {
      #expect(FileManager.default.fileExists(atPath: dev.text(file)), "\(file)")
    }
    #expect((dev.ready["snippets"] as? [String: String])?.count == 12)
    #expect(dev.text("device_token") == (try dev.token()))
    #expect((dev.ready["ready_milliseconds"] as? Int ?? 0) > 0)
    #expect(try dev.stop() == 0)
    let counts = try dev.program.first("stopped")["violations"] as? [String: Int]
    #expect(counts == ["error": 0, "warning": 0, "note": 0])
    #expect(!FileManager.default.fileExists(atPath: dev.text("data")))
  }

  @Test("Without --json it prints the same as text, with a snippet for each library")
  func text() throws {
    let scratch = try Scratch()
    defer { scratch.remove() }
    let output = try Programs.run(
      URL(filePath: "/bin/sh"),
      // Stops the service once the name of the last library is printed.
      [
        "-c",
        #"mkfifo "$1/out"; "$0" dev --free-ports > "$1/out" & pid=$!; while IFS= read -r line; do "#
          + #"echo "$line"; case $line in "legacy sender, PHP") kill $pid;; esac; done < "$1/out"; wait $pid"#,
        Programs.product("apus").path, scratch.path,
      ])
    for word in ["development service, lenient", "console", "key id", "curl --http2"] {
      #expect(output.contains(word), "\(word)")
    }
    let names = [
      "curl", "Python, aioapns", "Python, httpx", "Python, apns2", "Node, node-apn", "Go, apns2",
      "Java, Pushy", "Ruby, rpush", "PHP, curl", "Swift, APNSwift", "legacy sender, Python",
      "legacy sender, PHP",
    ]
    for name in names {
      #expect(output.contains("\n\(name)\n"), "\(name)")
    }
  }

  @Test(
    "--fail-on exits with 1 only for violations of that severity or higher",
    arguments: [
      (#"{"aps":{"alert":"hi"}}"#, "warning", 0), (#"{"aps":{}}"#, "warning", 1),
      (#"{"aps":{}}"#, "error", 0),
    ] as [(String, String, Int32)])
  func failOn(payload: String, severity: String, code: Int32) throws {
    let scratch = try Scratch()
    defer { scratch.remove() }
    let report = scratch.url.appending(path: "violations.xml")
    let dev = try DevProcess(["--strict", "--fail-on", severity, "--junit", report.path])
    let sent = try dev.api("POST", "send", #"{"device":"phone","payload":\#(payload)}"#)
    #expect((sent["verdict"] as? [String: Any])?["status"] as? Int == 200)
    #expect(try dev.stop() == code)
    let counts = try dev.program.first("stopped")["violations"] as? [String: Int]
    #expect((counts?["warning"] ?? 0 > 0) == (payload == #"{"aps":{}}"#))
    let xml = try String(contentsOf: report, encoding: .utf8)
    #expect(xml.hasPrefix("<?xml"))
    #expect(xml.contains("<failure") == (payload == #"{"aps":{}}"#))
  }

  @Test(
    "--data keeps the key, the authority and the device tokens for the next run, but no pushes")
  func keptDirectory() throws {
    let scratch = try Scratch()
    defer { scratch.remove() }
    let data = "\(scratch.path)/kept"
    func run() throws -> [String] {
      let dev = try DevProcess(["--data", data, "--device", "phone"])
      let status = try dev.api("GET", "status")
      #expect((status["counts"] as? [String: Int])?["received"] == 0)
      let token = try dev.token()
      let sent = try dev.api(
        "POST", "send", #"{"token":"\#(token)","payload":{"aps":{"badge":1}}}"#)
      #expect((sent["verdict"] as? [String: Any])?["accepted"] as? Bool == true)
      let files = try ["authority_file", "key_file", "certificate_file"].map { name in
        try String(contentsOfFile: dev.text(name), encoding: .utf8)
      }
      #expect(try dev.stop() == 0)
      return files + [dev.text("key_id"), dev.text("team"), token]
    }
    let first = try run()
    #expect(try run() == first)
    #expect(FileManager.default.fileExists(atPath: data))
  }

  @Test("A second service on the same port or directory fails with a remedy")
  func collisions() throws {
    let scratch = try Scratch()
    defer { scratch.remove() }
    let data = "\(scratch.path)/kept"
    let dev = try DevProcess(["--data", data])
    let port = try #require((dev.ready["http2"] as? [String: Int])?["production"])
    let console = try #require(dev.text("console").split(separator: ":").last?.dropLast())
    let free = [
      "--port", "0", "--courier-port", "0", "--gateway-port", "0", "--feedback-port", "0",
      "--console-port", "0",
    ]
    for (option, value) in [("--port", "\(port)"), ("--console-port", "\(console)")] {
      var arguments = free
      arguments[try #require(free.firstIndex(of: option)) + 1] = value
      let (code, text) = try DevProcess.failure(arguments)
      #expect(code == 3)
      #expect(text.lowercased().contains("127.0.0.1:\(value): address already in use"), "\(text)")
      #expect(text.contains(option == "--port" ? "--free-ports" : "--console-port"), "\(text)")
    }
    let (code, text) = try DevProcess.failure(["--free-ports", "--data", data])
    #expect(code == 4)
    #expect(text.contains("another `apus dev` uses \(data): stop it, or give another --data"))
    // The first service is unaffected.
    #expect(try dev.api("GET", "status")["mode"] as? String == "lenient")
    #expect(try dev.stop() == 0)
  }

  @Test("Invalid files of faults and texts are rejected with name, line and column")
  func badFiles() throws {
    let scratch = try Scratch()
    defer { scratch.remove() }
    let faults = try scratch.write(
      "[\n  {\"effect\": {\"type\": \"noAnswr\"}}\n]", "faults.json")
    let broken = try scratch.write("[\n  {\"effect\" {}}\n]", "broken.json")
    let strings = try scratch.write(
      "\"A\" = \"a\";\n\"B\" \"b\";\n", "de.lproj/Localizable.strings")
    for (arguments, words) in [
      (["--faults", faults], "\(faults), line 2, column 15: [0].effect.type: must be one of"),
      (["--faults", broken], "\(broken), line 2, column 13: this is not JSON"),
      (["--strings", scratch.path], "\(strings), line 2, column 5: "),
    ] {
      let (code, text) = try DevProcess.failure(["--free-ports"] + arguments)
      #expect(code == 4)
      #expect(text.contains(words), "\(text)")
    }
  }

  @Test("A file of faults is armed from the start, and texts are localized")
  func goodFiles() throws {
    let scratch = try Scratch()
    defer { scratch.remove() }
    _ = try scratch.write(#""HI" = "Hallo %@";"#, "de.lproj/Localizable.strings")
    let faults = try scratch.write(
      #"[{"nth":1,"effect":{"type":"respond","reason":"TooManyRequests"}}]"#, "faults.json")
    let dev = try DevProcess(["--faults", faults, "--strings", scratch.path])
    defer { _ = try? dev.stop() }
    _ = try dev.api("PATCH", "devices/phone", #"{"language":"de"}"#)
    let payload = #"{"aps":{"alert":{"loc-key":"HI","loc-args":["Ann"]}}}"#
    let statuses = try (0..<2).map { _ in
      let sent = try dev.api("POST", "send", #"{"device":"phone","payload":\#(payload)}"#)
      return (sent["verdict"] as? [String: Any])?["status"] as? Int
    }
    #expect(statuses == [429, 200])
    let answer = try dev.api("POST", "pushes/wait", #"{"match":{"body":"Hallo Ann"},"count":2}"#)
    #expect((answer["pushes"] as? [[String: Any]])?.count == 2)
  }

  // MARK: The examples

  @Test("The example's test suite starts its own service and passes")
  func pythonExample() throws {
    let output = try Programs.bytes(
      URL(filePath: "/bin/sh"),
      [
        "-c", #"cd "$0" && exec timeout 120 python3 -B -m unittest -v test_example 2>&1"#, examples,
      ],
      environment: ["APUS": Programs.product("apus").path])
    #expect(String(decoding: output, as: UTF8.self).contains("\nOK\n"))
  }

  @Test("The example's shell script waits for a push and prints what the device shows")
  func shellExample() throws {
    let dev = try DevProcess()
    defer { _ = try? dev.stop() }
    let push = #"{"device":"phone","payload":{"aps":{"alert":{"title":"Say \"hi\""}}}}"#
    _ = try dev.api("POST", "send", push)
    let printed = try Programs.run(
      URL(filePath: "/bin/sh"),
      ["\(examples)/wait-for-push.sh", #"Say "hi""#, dev.text("console")])
    #expect(try Programs.json(printed)["title"] as? String == #"Say "hi""#)
  }

  private var examples: String { Programs.root.appending(path: "Examples/dev").path }
}
