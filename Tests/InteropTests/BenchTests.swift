import Foundation
import Testing

@Suite("Benchmark programs", .serialized)
struct BenchTests {
  private func push(
    _ installation: Installation, _ tokens: URL, rate: Int, seconds: Int = 1
  ) throws -> [String: Any] {
    try Programs.json(
      Programs.run(
        installation.apus,
        [
          "bench", "push", "--data", installation.directory.path, "--connect",
          "127.0.0.1:\(installation.providerPort)", "--tokens", tokens.path, "--rate", "\(rate)",
          "--seconds", "\(seconds)", "--payload-bytes", "300", "--json",
        ]))
  }

  private func number(_ object: [String: Any], _ key: String) -> Int { object[key] as? Int ?? -1 }

  private func latency(_ object: [String: Any], _ key: String = "latency") -> [String: Any] {
    object[key] as? [String: Any] ?? [:]
  }

  @Test(
    "Notifications of a constant-rate provider reach a fleet, and latencies are counted in slices",
    .timeLimit(.minutes(30)))
  func pushed() throws {
    let installation = try Installation()
    try installation.start(["--token-rate", "0"])
    let fleet = try RunningFleet(installation, devices: 5)
    #expect(try fleet.waitForTokens().count == 5)

    let sent = try push(installation, fleet.tokens, rate: 100)
    #expect(number(sent, "sent") == 100)
    #expect(number(sent, "accepted") == 100)
    #expect(number(latency(sent, "request_latency"), "count") == 100)
    // The last push is due ten milliseconds before the end of the second.
    #expect((sent["seconds"] as? Double ?? 0) >= 0.99)
    try fleet.wait(for: "100 acknowledgements") { number($0, "acknowledged") == 100 }

    fleet.companion.signal(SIGUSR1)
    let slice = try fleet.companion.wait(for: "a slice") { $0.first }
    #expect(number(slice, "received") == 100)
    let first = latency(slice)
    #expect(number(first, "count") == 100)
    let times = ["p50_us", "p90_us", "p99_us", "p999_us", "max_us"].map { number(first, $0) }
    #expect(times == times.sorted() && times[0] > 0)

    // As fast as possible. Five devices need not keep up: of the notifications that wait too long for a device, the
    // service keeps the newest.
    let fast = try push(installation, fleet.tokens, rate: 0)
    let count = number(fast, "accepted")
    #expect(count > 0)
    try fleet.wait(for: "acknowledgements of what was sent fast") {
      let acknowledged = number($0, "acknowledged")
      return acknowledged > 100 + count / 10 && acknowledged <= 100 + count
        && number(latency($0), "count") == acknowledged - 100
    }
    fleet.companion.stop()
    #expect(fleet.companion.status == 0)
  }

  @Test(
    "Several processes form one fleet, whose devices reconnect with their sessions",
    .timeLimit(.minutes(30)))
  func processes() throws {
    let installation = try Installation()
    try installation.start()
    let fleet = try RunningFleet(
      installation, devices: 7,
      ["--processes", "2", "--source", "127.0.0.1", "--source", "127.0.0.2"])
    #expect(Set(try fleet.waitForTokens()).count == 7)
    try fleet.wait(for: "connections") {
      number($0, "connected") == 7 && number($0, "resumed") == 0
    }
    fleet.companion.signal(SIGHUP)
    try fleet.wait(for: "resumed connections") {
      number($0, "connected") == 7 && number($0, "resumed") == 7 && number($0, "handshakes") == 14
        && number($0, "disconnections") == 7
    }
    fleet.companion.signal(SIGUSR1)
    let slice = try fleet.companion.wait(for: "a slice") { $0.first }
    #expect(number(slice, "devices") == 7)
    fleet.companion.stop()
    #expect(fleet.companion.status == 0)
    let printed = try fleet.companion.wait(for: "two lines") { $0.count == 2 ? $0[1] : nil }
    #expect(number(printed, "registered") == 7)
  }

  @Test(
    "A fleet with the same numbers has the same tokens, in one process or several",
    .timeLimit(.minutes(30)))
  func sameTokens() throws {
    let installation = try Installation()
    try installation.start()
    let tokens = try [["--first", "3"], ["--first", "3", "--processes", "2"]].map { extra in
      let fleet = try RunningFleet(
        installation, devices: 4, extra + ["--exit-after-registration"])
      let tokens = try fleet.waitForTokens()
      fleet.companion.stop()
      return tokens
    }
    #expect(tokens[0].count == 4)
    #expect(tokens[0] == tokens[1])
  }

  @Test(
    "A good device is served while others misbehave", .timeLimit(.minutes(30)),
    arguments: [
      "slow-reader", "one-byte-writer", "half-open", "handshake-stall", "connection-flood",
    ])
  func misbehaving(how: String) throws {
    let installation = try Installation()
    try installation.start(["--token-rate", "0"])
    let bad = try RunningFleet(
      installation, devices: 5, ["--first", "100", "--misbehave", how])
    try bad.wait(for: "misbehaviour") {
      how == "connection-flood" ? number($0, "handshakes") > 20 : number($0, "connected") == 5
    }
    let good = try RunningFleet(installation, devices: 1)
    _ = try good.waitForTokens()
    if ["slow-reader", "one-byte-writer"].contains(how) {
      #expect(number(try push(installation, bad.tokens, rate: 100), "accepted") == 100)
    }
    #expect(number(try push(installation, good.tokens, rate: 50), "accepted") == 50)
    try good.wait(for: "50 acknowledgements") { number($0, "acknowledged") == 50 }
    if how == "slow-reader" { try bad.wait(for: "none read") { number($0, "received") == 0 } }
    if how == "one-byte-writer" { try bad.wait(for: "answers") { number($0, "received") > 0 } }
  }

  @Test("A dead fleet sends nothing, not even an end", .timeLimit(.minutes(30)))
  func dead() throws {
    let installation = try Installation()
    try installation.start(["--token-rate", "0"])
    let fleet = try RunningFleet(installation, devices: 3, ["--misbehave", "die"])
    _ = try fleet.waitForTokens()
    fleet.companion.signal(SIGUSR2)
    // It reports when it is dead.
    _ = try fleet.companion.wait(for: "its death") { $0.first }
    #expect(number(try push(installation, fleet.tokens, rate: 30), "accepted") == 30)
    fleet.companion.signal(SIGUSR1)
    let status = try fleet.companion.wait(for: "its status") { $0.count == 2 ? $0[1] : nil }
    #expect(number(status, "received") == 0)
    #expect(number(status, "disconnections") == 0)
  }

  @Test("`apus bench` reports a missing apus-bench")
  func missing() throws {
    let folder = FileManager.default.temporaryDirectory.appending(
      path: "apus-alone-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let alone = folder.appending(path: "apus")
    try FileManager.default.copyItem(at: Programs.product("apus"), to: alone)
    let process = Process()
    process.executableURL = alone
    process.arguments = ["bench", "fleet"]
    let errors = Pipe()
    process.standardError = errors
    _ = try Programs.start(process)
    let text = String(
      decoding: try errors.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
    process.waitUntilExit()
    #expect(process.terminationStatus == 4)
    #expect(text.contains("apus bench: cannot run"))
    #expect(text.contains("apus-bench"))
  }
}
