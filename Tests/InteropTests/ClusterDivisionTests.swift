import Foundation
import PostgresServer
import Testing

/// Two nodes, of which one serves until the devices are divided, as an operator would run them.
@Suite("A cluster whose devices are divided afterwards, from the command line", .serialized)
struct ClusterDivisionTests {
  private let nodes: [Installation]
  private var a: Installation { nodes[0] }
  private var b: Installation { nodes[1] }

  init() throws {
    let address = try PostgresServer.shared.address(of: "apus-\(UUID().uuidString.lowercased())")
    let first = try Installation()
    nodes = [
      first, try Installation(existing: URL(filePath: "\(first.directory.path)-b")),
    ]
    let output = try a.run([
      "cluster", "init", "a", "--store", address, "--single-database", "--json",
    ])
    let code = try #require(try Programs.json(output)["code"] as? String)
    _ = try b.run(["cluster", "join", "b", "--store", address, "--code", code])
  }

  private func removeFiles() {
    b.service?.stop()
    try? FileManager.default.removeItem(at: b.directory)
  }

  @Test("Devices and what waits for them are in their parts afterwards, and nothing is lost")
  func divide() throws {
    defer { removeFiles() }
    try a.start(Installation.linked())
    let devices = try (0..<6).map { try a.device("phone-\($0)") }
    let tokens = try devices.map { try $0.connect() }
    for (place, token) in tokens.enumerated() { try a.send(10 * place, to: token) }
    for (place, device) in devices.enumerated() {
      #expect(try device.shown(atLeast: 1) == [10 * place])
      device.disconnect()
    }
    for (place, token) in tokens.enumerated() {
      try a.send(10 * place + 1, to: token, lifetimeSeconds: 3600)
    }
    let divide = ["cluster", "divide", "--parts", "2", "--single-database"]
    let refusal = try b.run(divide, expecting: 4)
    #expect(refusal.contains("a is running: stop the services of all nodes"), "\(refusal)")
    a.service?.stop()
    let report = try Programs.json(b.run(divide + ["--json"]))
    #expect(report["parts"] as? Int == 2)
    // At least the rows of six devices, and what waits for them.
    #expect(try #require(report["rows"] as? Int) >= 12, "\(report)")

    // Node a does not know yet.
    try a.start(Installation.linked())
    try b.start(Installation.linked())
    try b.wait(for: ["a": "serving", "b": "serving"])
    #expect(try b.parts() == ["a": "0", "b": "1"])
    // For three of them a newer one, which replaces what waits.
    for place in 0..<3 {
      try b.send(10 * place + 2, to: tokens[place], lifetimeSeconds: 3600)
    }
    for (place, device) in devices.enumerated() {
      #expect(try device.connect() == tokens[place])
      #expect(try device.shown(atLeast: 1) == [10 * place + (place < 3 ? 2 : 1)])
    }
    // The last lines may be a second late.
    usleep(1_500_000)
    let counts = try Programs.json(b.run(["log", "--counts", "--json"]))
    #expect(counts["accepted"] as? Int == 15, "\(counts)")
    for token in tokens {
      #expect(try a.run(["log", "--token", token]).contains("Delivered"))
    }
    for device in devices { device.disconnect() }
  }

  /// The member "n" of the broadcasts that were shown, once there are that many.
  private func shown(_ listener: Companion, _ count: Int) throws -> [Int] {
    try listener.wait(for: "\(count) broadcasts") { lines in
      let numbers = lines.compactMap { ($0["payload"] as? [String: Any])?["n"] as? Int }
      return numbers.count >= count ? numbers : nil
    }
  }

  @Test("Devices stay subscribed, and have a stored broadcast once")
  func broadcasts() throws {
    defer { removeFiles() }
    _ = try a.run(["app", "--change", Installation.topic, "--broadcast", "on"])
    try a.start(Installation.linked())
    let channel = try a.run(["channel", "create", "--topic", Installation.topic])
      .trimmingCharacters(in: .whitespacesAndNewlines)
    func broadcast(_ n: Int) throws {
      _ = try a.run([
        "send", "--channel", channel, "--topic", Installation.topic, "--expiration", "+1h",
        "--payload", #"{"aps":{"timestamp":\#(n),"event":"update","content-state":{}},"n":\#(n)}"#,
      ])
    }
    let devices = try (0..<6).map { try a.device("phone-\($0)") }
    func listen(_ device: InstalledDevice) throws -> Companion {
      try device.listen(["--topic", Installation.topic, "--channel", channel])
    }
    var listeners = try devices.map { try listen($0) }
    for listener in listeners { _ = try listener.first("subscribed") }
    try broadcast(1)
    for listener in listeners { #expect(try shown(listener, 1) == [1]) }
    for listener in listeners[..<3] { listener.stop() }
    try broadcast(2)
    for listener in listeners[3...] {
      #expect(try shown(listener, 2) == [1, 2])
      listener.stop()
    }
    a.service?.stop()
    _ = try a.run(["cluster", "divide", "--parts", "2", "--single-database"])
    for node in nodes { try node.start(Installation.linked()) }
    try b.wait(for: ["a": "serving", "b": "serving"])

    listeners = try devices.map { try listen($0) }
    defer { for listener in listeners { listener.stop() } }
    for listener in listeners[..<3] { #expect(try shown(listener, 1) == [2]) }
    try broadcast(3)
    for listener in listeners[..<3] { #expect(try shown(listener, 2) == [2, 3]) }
    for listener in listeners[3...] { #expect(try shown(listener, 1) == [3]) }
    // Nodes say once in a second how many subscribers they have counted.
    usleep(2_500_000)
    let listed = try Programs.json(a.run(["channel", "show", channel, "--json"]))
    #expect(listed["subscriptions"] as? Int == 6, "\(listed)")
  }
}
