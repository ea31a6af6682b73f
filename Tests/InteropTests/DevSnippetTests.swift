import Foundation
import Testing

@Suite("The snippets of apus dev", .serialized, .timeLimit(.minutes(30)))
struct DevSnippetTests {
  private static let password = "a-password-of-tests"

  private func snippet(_ name: String, _ dev: DevProcess) throws -> String {
    try #require((dev.ready["snippets"] as? [String: String])?[name])
  }

  /// Waits for the push, which has no violations.
  private func expectPush(_ match: String, _ dev: DevProcess) throws {
    let found = try dev.api("POST", "pushes/wait", #"{"match":{\#(match)}}"#)
    let push = try #require((found["pushes"] as? [[String: Any]])?.first)
    #expect(push["device"] as? String == "phone")
    #expect((push["verdict"] as? [String: Any])?["accepted"] as? Bool == true)
    #expect((push["violations"] as? [Any])?.isEmpty == true, "\(push["violations"] ?? "")")
  }

  @Test("curl sends a push")
  func curl() throws {
    let dev = try DevProcess(["--strict"])
    defer { _ = try? dev.stop() }
    let command = "set -e\n" + (try snippet("curl", dev))
    #expect(try Programs.run(URL(filePath: "/bin/sh"), ["-c", command]) == "")
    try expectPush(#""title":"Hello","status":200"#, dev)
  }

  @Test(
    "Python libraries and a legacy sender send a push, whichever key the authority has",
    arguments: [
      ("Python, aioapns", "200\n", []), ("Python, httpx", "200\n", []),
      ("Python, httpx", "200\n", ["--rsa"]), ("legacy sender, Python", "", []),
      ("legacy sender, Python", "", ["--rsa"]),
    ] as [(String, String, [String])])
  func python(name: String, output: String, options: [String]) throws {
    let dev = try DevProcess(["--strict"] + options)
    defer { _ = try? dev.stop() }
    #expect(try Programs.run(Programs.python(), ["-c", snippet(name, dev)]) == output)
    try expectPush(#""body":"Hello""#, dev)
  }

  @Test(
    "PHP sends a push, by HTTP/2 and by the binary interface",
    arguments: [("PHP, curl", "200\n"), ("legacy sender, PHP", "")])
  func php(name: String, output: String) throws {
    let dev = try DevProcess(["--strict"])
    defer { _ = try? dev.stop() }
    let code = try snippet(name, dev).replacing("<?php\n", with: "", maxReplacements: 1)
    #expect(try Programs.run(URL(filePath: "/usr/bin/php"), ["-r", code]) == output)
    try expectPush(#""body":"Hello""#, dev)
  }

  @Test(
    "The snippets for libraries that are not here have no mistake in their grammar",
    arguments: [
      ("Python, apns2", ["python3", "-c", "import ast, sys; ast.parse(sys.stdin.read())"], "", ""),
      ("Node, node-apn", ["node", "--check", "-"], "", ""),
      ("Go, apns2", ["gofmt", "-e"], "package main\nfunc main() {\n", "\n}\n"),
      ("Ruby, rpush", ["ruby", "-c"], "", ""),
      ("Swift, APNSwift", ["swiftc", "-frontend", "-parse", "-"], "", ""),
    ] as [(String, [String], String, String)])
  func grammar(name: String, command: [String], before: String, after: String) throws {
    let dev = try DevProcess()
    defer { _ = try? dev.stop() }
    let check = #"text=$1; shift; printf '%s\n' "$text" | "$@" >/dev/null 2>&1; echo $?"#
    for (addition, isRight) in [("", true), (" ) ", false)] {
      let text = try before + snippet(name, dev) + addition + after
      let code = try Programs.run(
        URL(filePath: "/bin/sh"), ["-c", check, "sh", text] + command)
      #expect((code == "0\n") == isRight, "\(code)")
    }
  }

  @Test("On another machine, the snippets fetch the files that they use")
  func otherMachine() throws {
    let scratch = try Scratch()
    defer { scratch.remove() }
    let file = try scratch.write(Self.password + "\n", "password")
    // The name is not in a new service's certificate; the second run of a kept one adds it.
    let kept = ["--data", "\(scratch.path)/kept", "--listen", "0.0.0.0", "--password-file", file]
    let first = try DevProcess(kept)
    #expect(first.text("host") == "localhost")
    let certificate = "\(scratch.path)/kept/server/server.crt"
    let made = try String(contentsOfFile: certificate, encoding: .utf8)
    #expect(try first.stop() == 0)
    let dev = try DevProcess(kept + ["--name", "127.0.0.9", "--name", "push.example"])
    defer { _ = try? dev.stop() }
    #expect(dev.text("host") == "127.0.0.9")
    let renewed = try String(contentsOfFile: certificate, encoding: .utf8)
    #expect(renewed != made)
    let script =
      try "set -e; cd \(scratch.path); APUS_DEV_PASSWORD=\(Self.password)\n"
      + snippet("files", dev) + "\n" + snippet("curl", dev) + "\n"
      + "openssl s_client -connect 127.0.0.1:${0##*:} -CAfile authority.pem "
      + "-verify_hostname push.example -verify_return_error < /dev/null 2>&1 | grep -c '^Verif'"
    let port = try #require((dev.ready["http2"] as? [String: Int])?["production"])
    let printed = try Programs.run(URL(filePath: "/bin/sh"), ["-c", script, ":\(port)"])
    #expect(Int(printed.trimmingCharacters(in: .whitespacesAndNewlines)) ?? 0 > 0)
    let pushes = try Programs.run(
      URL(filePath: "/usr/bin/env"),
      [
        "curl", "--silent", "--header", "authorization: Bearer \(Self.password)",
        "\(dev.text("api"))/pushes",
      ])
    #expect(pushes.contains(#""title":"Hello""#))
    #expect(try dev.stop() == 0)

    // What has all names is kept.
    let last = try DevProcess(kept + ["--name", "127.0.0.9"])
    #expect(try String(contentsOfFile: certificate, encoding: .utf8) == renewed)
    #expect(try last.stop() == 0)
  }

  @Test("The password may be in the environment, and then is not printed")
  func environment() throws {
    let start = #"APUS_DEV_PASSWORD="$1" timeout 60 "$0" dev --free-ports --listen 0.0.0.0 --json"#
    let output = try Programs.run(
      URL(filePath: "/bin/sh"),
      [
        "-c",
        "mkfifo $2/out; (\(start) > $2/out) & read -r line < $2/out; printf %s \"$line\"; "
          + "pkill -P $!",
        Programs.product("apus").path, Self.password, Scratch().path,
      ])
    #expect(try Programs.json(output)["event"] as? String == "ready")
    #expect(!output.contains(Self.password))
    let (code, text) = try DevProcess.failure(["--free-ports", "--listen", "apus"])
    #expect(code == 2 && text.contains("not a numeric address"), "\(text)")
  }

  @Test(
    "Legacy senders may use TLS 1.0 only if asked for, and HTTP/2 never", arguments: [true, false])
  func legacyTLS(isAllowed: Bool) throws {
    let dev = try DevProcess(isAllowed ? ["--legacy-tls", "--rsa"] : ["--rsa"])
    defer { _ = try? dev.stop() }
    for (listener, accepts) in [("gateway", isAllowed), ("feedback", isAllowed), ("http2", false)] {
      let port = try #require((dev.ready[listener] as? [String: Int])?["production"])
      let output = try Programs.run(
        URL(filePath: "/bin/sh"),
        [
          "-c",
          "openssl s_client -connect 127.0.0.1:\(port) -tls1 -cipher 'DEFAULT@SECLEVEL=0' "
            + "< /dev/null 2>&1; true",
        ])
      #expect(output.contains("New, TLSv1.0, Cipher is EC") == accepts, "\(listener): \(output)")
    }
  }

  @Test("A rule that is allowed is not reported; others are")
  func allowed() throws {
    let dev = try DevProcess(["--allow", "alert-empty", "--allow", "connection-per-push"])
    defer { _ = try? dev.stop() }
    for payload in [#"{"aps":{"alert":""}}"#, #"{"aps":{"alert":"x","sound":1}}"#] {
      _ = try dev.api("POST", "send", #"{"device":"phone","payload":\#(payload)}"#)
    }
    let rules = try dev.api("GET", "violations")["rules"] as? [[String: Any]]
    #expect(rules?.compactMap { $0["rule"] as? String } == ["value-type"])
    let (code, text) = try DevProcess.failure(["--free-ports", "--allow", "alert-emty"])
    #expect(code == 2)
    #expect(text.contains("there is no rule \"alert-emty\"") && text.contains("alert-empty"))
  }
}
