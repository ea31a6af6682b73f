import Foundation
import PostgresServer
import Testing

/// Two nodes that serve one part of the devices each, and one that stands by, as an operator would run them.
@Suite("A cluster whose devices are divided, from the command line", .serialized)
struct DividedClusterTests {
  private let address: String
  private let nodes: [Installation]
  private var a: Installation { nodes[0] }
  private var b: Installation { nodes[1] }
  private var c: Installation { nodes[2] }

  init() throws {
    address = try PostgresServer.shared.address(of: "apus-\(UUID().uuidString.lowercased())")
    let first = try Installation()
    nodes =
      try [first]
      + ["b", "c"].map {
        try Installation(existing: URL(filePath: "\(first.directory.path)-\($0)"))
      }
    var code = try code(
      a.run([
        "cluster", "init", "a", "--store", address, "--single-database", "--parts", "2", "--json",
      ]))
    for (node, name) in zip(nodes.dropFirst(), ["b", "c"]) {
      _ = try node.run(["cluster", "join", name, "--store", address, "--code", code])
      code = try self.code(a.run(["cluster", "invite", "--json"]))
    }
    for node in nodes.prefix(2) { try node.start(Installation.linked()) }
    try c.launch(Installation.linked())
    _ = try #require(c.service).first("standby")
  }

  private func code(_ output: String) throws -> String {
    try #require(try Programs.json(output)["code"] as? String)
  }

  private func removeFiles() {
    for node in nodes.dropFirst() {
      node.service?.stop()
      try? FileManager.default.removeItem(at: node.directory)
    }
  }

  /// Connects devices at each node, and returns their tokens.
  private func connect(_ devices: [InstalledDevice]) throws -> [String] {
    try devices.map { try $0.connect() }
  }

  @Test("Every node accepts everything for all devices, and each part survives its node")
  func kill() throws {
    defer { removeFiles() }
    try a.wait(for: ["a": "serving", "b": "serving", "c": "standby"])
    #expect(try c.parts() == ["a": "0", "b": "1"])
    // Six devices are all in one part once in 32 runs, which changes nothing below.
    let devices = try (0..<6).map { try nodes[$0 / 2].device("phone-\($0)") }
    let tokens = try connect(devices)
    for (place, token) in tokens.enumerated() {
      for (n, node) in nodes.enumerated() { try node.send(10 * place + n, to: token) }
    }
    for (place, device) in devices.enumerated() {
      #expect(try device.shown(atLeast: 3) == (0..<3).map { 10 * place + $0 })
    }

    b.service?.stop(SIGKILL)
    for (place, token) in tokens.enumerated() {
      try a.send(10 * place + 3, to: token, lifetimeSeconds: 3600)
    }
    try c.wait(for: "c", toBe: "serving")
    #expect(try c.parts() == ["a": "0", "c": "1"])
    // Those of the killed node connect to no other one.
    for (place, device) in devices.enumerated() where !(2...3).contains(place) {
      #expect(try device.shown(atLeast: 4) == (0..<4).map { 10 * place + $0 })
    }
    // It comes back, and stands by.
    try b.launch(Installation.linked())
    _ = try #require(b.service).first("standby")
    for (place, device) in devices.enumerated() where (2...3).contains(place) {
      #expect(try device.shown(atLeast: 4) == (0..<4).map { 10 * place + $0 })
    }
    for device in devices { device.disconnect() }
  }

  @Test("Every node shows and drains all parts")
  func administration() throws {
    defer { removeFiles() }
    try a.wait(for: ["a": "serving", "b": "serving", "c": "standby"])
    let devices = try (0..<6).map { try nodes[$0 / 2].device("phone-\($0)") }
    let tokens = try connect(devices)
    for token in tokens { try a.send(0, to: token) }
    for device in devices { #expect(try device.shown(atLeast: 1) == [0]) }
    // The last lines may be a second late.
    usleep(1_500_000)
    for node in nodes {
      let status = try Programs.json(node.run(["status", "--json"]))
      #expect(status["devices_connected"] as? Int == 6, "\(status)")
      // The commands that read the database alone, too.
      for token in tokens {
        #expect(try node.run(["log", "--token", token]).contains("Delivered"))
      }
    }
    let counts = try Programs.json(b.run(["log", "--counts", "--json"]))
    #expect(counts["accepted"] as? Int == 6, "\(counts)")

    #expect(try c.run(["cluster", "drain", "b"]) == "c serves in place of b.\n")
    #expect(try a.parts() == ["a": "0", "c": "1"])
    #expect(try a.run(["cluster", "drain", "c"], expecting: 4).contains("no other node stands by"))
    _ = try b.run(["cluster", "resume", "b"])
    #expect(try a.run(["cluster", "drain", "a"]) == "b serves in place of a.\n")
    #expect(try c.parts() == ["b": "0", "c": "1"])
    for token in tokens { try c.send(1, to: token, lifetimeSeconds: 3600) }
    for device in devices {
      #expect(try device.shown(atLeast: 2) == [0, 1])
      device.disconnect()
    }
    let refusal = try a.run(["store", "copy", address, "embedded"], expecting: 4)
    #expect(refusal.contains("divided into 2 parts"), "\(refusal)")
  }

  @Test("A node without links to others does not start")
  func links() throws {
    defer { removeFiles() }
    c.service?.stop()
    let refusal = try c.run(["serve", "--single-database"], expecting: 4)
    #expect(refusal.contains("has no links to others"), "\(refusal)")
  }
}
