import ApusDirectory
import ApusLog
import ApusTesting
import ApusWebhooks
import Foundation
import PostgresServer
import Testing

/// The queue of events for webhooks, which the node that serves writes.
@Suite("Events of nodes in turn")
struct SharedEventsTests {
  private let nodes: Nodes

  init() throws {
    nodes = try Nodes()
    // Nobody listens there, so all events stay in the queue.
    try nodes.a.add(
      Webhook(name: "one", url: "http://127.0.0.1:9/", events: .all, secrets: ["secret"]))
    try nodes.follow(nodes.b)
  }

  private final class Writer {
    private let sink = EventSink()
    private let service: WebhookService

    init(_ directory: DataDirectory) {
      service = WebhookService(
        directory, sink: sink, megabytes: 1, firstEvent: 1, log: Log(sink: { _ in })
      ) { _ in }
      service.start()
      while !sink.wants(.deviceConnected) { usleep(10_000) }
    }

    func report(_ name: String) {
      sink.report(.deviceConnected, milliseconds: 0, [.text("device", name)])
    }

    func stop() { service.stop() }
  }

  /// What is in the queue of a node, each line by its number.
  private func events(_ directory: DataDirectory) throws -> [(id: Int, line: String)] {
    let folder = directory.webhookFolder
    // The service makes it.
    let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
    // A file that is being written has another name.
    let files = names.filter { $0.hasPrefix("events-") && $0.hasSuffix(".jsonl") }
    return try files.sorted().flatMap { name in
      try text("\(folder)/\(name)").split(separator: "\n").map { line in
        let number = line.dropFirst(#"{"id":"#.count).prefix { $0.isNumber }
        return (try #require(Int(number)), String(line))
      }
    }
  }

  private func wait(_ directory: DataDirectory, for name: String) throws {
    for _ in 0..<500 {
      if try events(directory).contains(where: { $0.line.contains("\"\(name)\"") }) { return }
      usleep(10_000)
    }
    Issue.record("no event \(name) in \(directory.path)")
  }

  @Test("No number is used twice, and what was not confirmed is written once, when it can be")
  func numbers() throws {
    try nodes.serve("a")
    let first = Writer(nodes.a)
    defer { first.stop() }
    first.report("before")
    try wait(nodes.a, for: "before")
    // The first one hangs, and the second has not heard of its events.
    try nodes.serve("b")
    let second = Writer(nodes.b)
    defer { second.stop() }
    second.report("between")
    try wait(nodes.b, for: "between")
    first.report("late")
    usleep(500_000)
    try nodes.serve("a")
    first.report("after")
    try wait(nodes.a, for: "after")
    try nodes.follow(nodes.b)
    let found = try events(nodes.b)
    #expect(found.map(\.id) == Array(1...found.count), "\(found)")
    #expect(try events(nodes.a).map(\.line) == found.map(\.line))
    for (name, count) in [("before", 1), ("between", 1), ("late", 1), ("after", 1)] {
      #expect(found.count { $0.line.contains("\"\(name)\"") } == count, "\(name): \(found)")
    }
    #expect(!found.contains { $0.line.contains(#""missed""#) }, "\(found)")
  }
}
