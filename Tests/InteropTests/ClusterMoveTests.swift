import Foundation
import PostgresServer
import Testing

/// Two nodes that serve, each one part of the devices, over two database servers.
@Suite("A cluster with several databases, from the command line", .serialized)
struct ClusterMoveTests {
  private let nodes: [Installation]
  private var a: Installation { nodes[0] }
  private var b: Installation { nodes[1] }
  private let servers: [PostgresServer]
  private let other: String

  init() throws {
    servers = [try PostgresServer(), try PostgresServer()]
    let main = try servers[0].address(of: "apus")
    other = try servers[1].address(of: "apus")
    let first = try Installation()
    nodes = [first, try Installation(existing: URL(filePath: "\(first.directory.path)-b"))]
    let output = try a.run([
      "cluster", "init", "a", "--store", main, "--single-database", "--parts", "2", "--json",
    ])
    let code = try #require(try Programs.json(output)["code"] as? String)
    _ = try b.run(["cluster", "join", "b", "--store", main, "--code", code])
  }

  private func start() throws {
    for node in nodes { try node.start(Installation.linked()) }
    try b.wait(for: ["a": "serving", "b": "serving"])
  }

  @Test(
    "What waits arrives once from the other database, and one that is away stops its part alone")
  func move() throws {
    defer {
      b.service?.stop()
      try? FileManager.default.removeItem(at: b.directory)
    }
    try start()
    let devices = try (0..<6).map { try a.device("phone-\($0)") }
    let tokens = try devices.map { try $0.connect() }
    for device in devices { device.disconnect() }
    for (place, token) in tokens.enumerated() {
      try a.send(10 * place, to: token, lifetimeSeconds: 3600)
    }
    let move = ["cluster", "move", "1", "--store", other, "--single-database"]
    let refusal = try b.run(move, expecting: 4)
    #expect(refusal.contains("is running: stop the services of all nodes"), "\(refusal)")
    for node in nodes { node.service?.stop() }
    let report = try Programs.json(b.run(move + ["--json"]))
    #expect(try #require(report["rows"] as? Int) > 0, "\(report)")
    // Again, as after an interruption.
    let again = try b.run(move)
    #expect(again.contains("which had its rows already"), "\(again)")

    try start()
    let parts = try a.run(["cluster", "parts"])
    let lines = parts.split(separator: "\n").map { $0.split(separator: " ").map(String.init) }
    #expect(lines.map { $0[0] } == ["PART", "0", "1"], "\(parts)")
    #expect(Set(lines.dropFirst().map { $0[1] }) == ["a", "b"], "\(parts)")
    #expect(lines[2][2].contains(servers[1].directory.path()), "\(parts)")
    for (place, device) in devices.enumerated() {
      #expect(try device.connect() == tokens[place])
      #expect(try device.shown(atLeast: 1) == [10 * place])
      device.disconnect()
    }
    usleep(1_500_000)
    let counts = try Programs.json(b.run(["log", "--counts", "--json"]))
    #expect(counts["accepted"] as? Int == 6 && counts["ended"] as? Int == 6, "\(counts)")

    // Pushes that must be stored, to each device.
    func accepted() -> [Bool] {
      tokens.map { token in (try? a.send(7, to: token, lifetimeSeconds: 3600)) != nil }
    }
    try servers[1].kill()
    let without = accepted()
    #expect(Set(without) == [true, false], "\(without)")
    try servers[1].start()
    let deadline = Date(timeIntervalSinceNow: 20)
    while accepted().contains(false), Date.now < deadline { usleep(200_000) }
    #expect(accepted() == tokens.map { _ in true })

    // One of each part.
    let (elsewhere, first) = (without.firstIndex(of: false) ?? 0, without.firstIndex(of: true) ?? 0)
    try servers[0].kill()
    // Now the lease was not renewed for too long.
    usleep(6_000_000)
    try a.send(8, to: tokens[elsewhere], lifetimeSeconds: 3600)
    #expect(throws: (any Error).self) { try a.send(8, to: tokens[first], lifetimeSeconds: 3600) }
    try servers[0].start()
    while (try? a.send(9, to: tokens[first], lifetimeSeconds: 3600)) == nil { usleep(200_000) }
    _ = try devices[elsewhere].connect()
    #expect(try devices[elsewhere].shown(atLeast: 1) == [8])
  }
}
