import Foundation
import PostgresServer
import Testing

/// Two nodes of a cluster, as an operator would run them.
@Suite("A cluster, from the command line", .serialized)
struct ClusterCommandTests {
  private let address: String
  private let a: Installation
  private let b: Installation

  /// Node a serves, and node b stands by.
  init() throws {
    address = try PostgresServer.shared.address(of: "apus-\(UUID().uuidString.lowercased())")
    a = try Installation()
    b = try Installation(
      existing: URL(filePath: a.directory.path + "-b"))
    let made = try Programs.json(
      a.run(["cluster", "init", "a", "--store", address, "--single-database", "--json"]))
    let code = try #require(made["code"] as? String)
    _ = try b.run(["cluster", "join", "b", "--store", address, "--code", code])
    try a.start(["--single-database"])
  }

  private func standBy(_ node: Installation) throws {
    try node.launch(["--single-database"])
    _ = try #require(node.service).first("standby")
  }

  private func removeFiles() {
    b.service?.stop()
    try? FileManager.default.removeItem(at: b.directory)
  }

  @Test("After a kill the other node serves, with all that was accepted and the same tokens")
  func kill() throws {
    defer { removeFiles() }
    b.usePorts(of: a)
    try standBy(b)
    let device = try a.device("phone")
    let token = try device.connect()
    device.disconnect()
    try a.send(1, to: token, lifetimeSeconds: 3600)
    // Made on the node that stands by.
    let key = try Programs.json(b.run(["key", "--add", "--json"]))
    try b.wait(for: ["a": "serving", "b": "standby"])

    a.service?.stop(SIGKILL)
    try b.awaitReady()
    #expect(try device.connect() == token)
    #expect(try device.shown(atLeast: 1) == [1])
    try a.send(2, to: token)
    #expect(try device.shown(atLeast: 2) == [1, 2])
    let id = try #require(key["key_id"] as? String)
    #expect(try b.run(["key"]).contains(id))
    #expect(try b.run(["log", "--token", token]).contains("Delivered"))

    // The first node comes back, and stands by.
    try standBy(a)
    try a.wait(for: ["a": "standby", "b": "serving"])
    #expect(try b.run(["status"]).contains("ready"))
    let silence = try a.run(["status"], expecting: 3)
    #expect(silence.contains("`apus cluster nodes` shows which"), "\(silence)")
    let refusal = try a.run(["cluster", "remove", "b"], expecting: 4)
    #expect(refusal.contains("apus cluster drain b"), "\(refusal)")
    a.service?.stop()
    try b.wait(for: ["a": "stopped", "b": "serving"])
    #expect(
      try b.run(["cluster", "drain", "b"], expecting: 4).contains("no other node stands by"))
    #expect(try b.run(["cluster", "remove", "a"]).contains("Removed a."))
    let removed = try a.run(["serve", "--single-database"], expecting: 4)
    #expect(removed.contains("the node a was removed from the cluster"), "\(removed)")
    device.disconnect()
  }

  @Test("A node that is drained hands over and does not take over again until it may")
  func drain() throws {
    defer { removeFiles() }
    b.usePorts(of: a)
    try standBy(b)
    // Nobody listens there, so all events wait.
    _ = try a.run(["webhook", "add", "http://127.0.0.1:9/", "--event", "notification.finished"])
    usleep(1_200_000)
    let device = try a.device("phone")
    let token = try device.connect()
    try a.send(0, to: token, lifetimeSeconds: 3600)
    #expect(try device.shown(atLeast: 1) == [0])
    #expect(try a.run(["cluster", "drain", "a"]) == "b serves in place of a.\n")
    // The device connects again by itself.
    try a.send(1, to: token, lifetimeSeconds: 3600)
    #expect(try device.shown(atLeast: 2) == [0, 1])
    // The same process stands by.
    try b.wait(for: ["a": "standby,", "b": "serving"])
    b.service?.stop()
    try expectEvents(2, of: b)
    usleep(1_000_000)
    #expect(try a.states() == ["a": "standby,", "b": "stopped"])
    _ = try a.run(["cluster", "resume", "a"])
    try a.awaitReady(times: 2)
    try a.send(2, to: token, lifetimeSeconds: 3600)
    #expect(try device.shown(atLeast: 3) == [0, 1, 2])
    device.disconnect()
  }

  @Test("With links every node accepts clients, and a push during a take-over is only late")
  func links() throws {
    defer { removeFiles() }
    a.service?.stop()
    try a.start(Installation.linked())
    try b.launch(Installation.linked())
    _ = try #require(b.service).first("standby")
    let device = try b.device("phone")
    let token = try device.connect()
    try a.send(1, to: token)
    try b.send(2, to: token)
    #expect(try device.shown(atLeast: 2) == [1, 2])
    // Commands that ask the service work on either node.
    #expect(try b.run(["status"]).contains("  node                   a\n"))
    #expect(try b.run(["log", "--counts"]).contains("Delivered"))
    #expect(try b.run(["channel", "list"]) == a.run(["channel", "list"]))

    a.service?.stop(SIGKILL)
    // Its node stands by, and knows of no other.
    try b.send(3, to: token, lifetimeSeconds: 3600)
    try b.wait(for: "b", toBe: "serving")
    #expect(try device.shown(atLeast: 3) == [1, 2, 3])
    try b.awaitReady()
    try b.send(4, to: token, lifetimeSeconds: 3600)
    #expect(try device.shown(atLeast: 4) == [1, 2, 3, 4])

    // The first node comes back as an edge.
    try a.launch(Installation.linked())
    _ = try #require(a.service).first("standby")
    try a.send(5, to: token)
    #expect(try device.shown(atLeast: 5) == [1, 2, 3, 4, 5])
    // One that stops says so, and its clients go elsewhere.
    a.service?.stop()
    try b.send(6, to: token)
    #expect(try device.shown(atLeast: 6) == [1, 2, 3, 4, 5, 6])
    let wrong = try b.run(
      ["serve"] + Installation.linked().dropLast() + ["b.example:5223"], expecting: 2)
    #expect(wrong.contains("\"b.example:5223\" is not a host"), "\(wrong)")
    let refusal = try b.run(["serve", "--link-listen", "2193"], expecting: 2)
    #expect(refusal.contains("would not know this machine's address"), "\(refusal)")
    device.disconnect()
  }

  @Test("The administration of any node drains and resumes nodes")
  func drainByRequest() throws {
    defer { removeFiles() }
    a.service?.stop()
    try a.start(Installation.linked())
    try b.launch(Installation.linked())
    _ = try #require(b.service).first("standby")
    #expect(try request("nodes/c/drain", to: b).hasPrefix("404 "))
    try b.wait(for: ["a": "serving", "b": "standby"])
    #expect(try request("nodes/a/drain", to: b) == "200 {\"node\":\"a\",\"draining\":true}\n")
    try b.wait(for: "b", toBe: "serving")
    let refusal = try request("nodes/b/drain", to: b)
    #expect(refusal.hasPrefix("409 ") && refusal.contains("no other node stands by"), "\(refusal)")
    #expect(try request("nodes/a/resume", to: b).hasPrefix("200 "))
    try b.wait(for: ["a": "standby", "b": "serving"])
    let audit = try String(
      contentsOf: b.directory.appending(path: "audit.jsonl"), encoding: .utf8)
    #expect(audit.contains("node.drained") && audit.contains("node.resumed"), "\(audit)")
  }

  /// The status and the body of the answer to a POST over the socket of a node.
  private func request(_ path: String, to node: Installation) throws -> String {
    let answer = try Programs.run(
      URL(filePath: "/usr/bin/curl"),
      [
        "--silent", "--unix-socket", node.directory.appending(path: "admin.sock").path,
        "--request", "POST", "--header", "content-type: application/json", "--data", "{}",
        "--write-out", "%{http_code}", "http://localhost/v1/\(path)",
      ])
    return "\(answer.suffix(3)) \(answer.dropLast(3))"
  }

  /// Expects that so many notifications have ended, and that no event is missing.
  private func expectEvents(_ count: Int, of node: Installation) throws {
    let folder = node.directory.appending(path: "webhooks")
    let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
    let text = try names.filter { $0.hasPrefix("events-") }.sorted().map {
      try String(contentsOf: folder.appending(path: $0), encoding: .utf8)
    }.joined()
    #expect(text.ranges(of: "\"notification.finished\"").count == count, "\(text)")
    #expect(!text.contains("\"gap\""), "\(text)")
  }

  @Test("A node that was frozen steps down when it finds that another one has taken over")
  func frozen() throws {
    defer { removeFiles() }
    try standBy(b)
    let device = try a.device("phone")
    let token = try device.connect()
    device.disconnect()
    try a.send(1, to: token, lifetimeSeconds: 3600)
    a.service?.signal(SIGSTOP)
    try b.awaitReady()
    a.service?.signal(SIGCONT)
    _ = try #require(a.service).wait(for: "the first node to stand by") { lines in
      lines.first { $0["event"] as? String == "standby" }
    }
    try a.wait(for: ["a": "standby", "b": "serving"])
    a.usePorts(of: b)
    #expect(try device.connect() == token)
    #expect(try device.shown(atLeast: 1) == [1])
    device.disconnect()
  }

  @Test("What is wrong is said before anything is done")
  func mistakes() throws {
    defer { removeFiles() }
    let twice = try a.run(["serve", "--single-database"], expecting: 4)
    #expect(twice.contains("a process called a renews its lease"), "\(twice)")
    #expect(try a.run(["cluster", "init", "A!"], expecting: 2).contains("not a node's name"))
    #expect(try a.run(["cluster", "drain"], expecting: 2).contains("name is missing"))
    #expect(try a.run(["cluster", "nodes", "a"], expecting: 2).contains("takes no name"))
    #expect(try a.run(["cluster", "turn", "a"], expecting: 2).contains("unknown action"))
    #expect(try a.run(["cluster", "join", "c"], expecting: 2).contains("--code"))
    #expect(
      try a.run(["cluster", "join", "c", "--code", "ABC"], expecting: 2).contains("not a code"))
    let single = try Installation()
    #expect(try single.run(["cluster", "nodes"], expecting: 4).contains("apus cluster init"))
  }
}
