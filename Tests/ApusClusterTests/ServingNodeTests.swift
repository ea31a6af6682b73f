import ApusDirectory
import ApusLog
import ApusModel
import ApusTesting
import ApusWebhooks
import Foundation
import PostgresServer
import Testing

@testable import ApusJobs

/// What only the node that serves may write.
@Suite("Files of the service in a cluster")
struct ServingNodeTests {
  private let nodes: Nodes

  init() throws {
    nodes = try Nodes()
    try nodes.serve("a")
  }

  private func makeJob(_ directory: DataDirectory) throws -> JobService.Facts {
    let service = JobService(directory, log: Log(sink: { _ in }))
    let job = PushJob(
      id: NotificationID(high: .random(in: 1...UInt64.max), low: 0), createdMilliseconds: 1,
      actor: "nobody", selector: "all devices",
      push: GroupPush(environment: .production, payload: Array("{}".utf8)), idempotency: nil,
      deviceCount: 1)
    return try service.submit(job, to: [DeviceID(1)]).facts
  }

  @Test("A node that was taken over accepts no job: the one that serves would not know of it")
  func jobs() throws {
    _ = try makeJob(nodes.a)
    try nodes.serve("b")
    let error = #expect(throws: JobService.Refusal.self) { try makeJob(nodes.a) }
    #expect("\(error, default: "")".contains("the node b has taken over"))
    try nodes.follow(nodes.b)
    #expect(try nodes.areEqual())
    let names = try nodes.shared(nodes.b).keys.filter { $0.hasSuffix(".job") }
    #expect(names.count == 1, "\(names)")
  }

  @Test("A node that serves another part of the devices writes, too")
  func otherPart() throws {
    try nodes.serve("b", lease: "apus_1")
    _ = try makeJob(nodes.a)
    _ = try makeJob(nodes.b)
    try nodes.serve("b")
    let error = #expect(throws: JobService.Refusal.self) { try makeJob(nodes.a) }
    #expect("\(error, default: "")".contains("the node b has taken over"))
  }

  @Test("A node that was taken over leaves the mark of the service that runs, whose loss is a gap")
  func mark() throws {
    try nodes.a.add(
      Webhook(name: "one", url: "http://127.0.0.1:9/", events: .all, secrets: ["secret"]))
    let services = [nodes.a, nodes.b].map { directory in
      WebhookService(
        directory, sink: EventSink(), megabytes: 1, firstEvent: 1, log: Log(sink: { _ in })
      ) { _ in }
    }
    let mark = "\(nodes.b.webhookFolder)/running"
    services[0].start()
    try wait(for: "\(nodes.a.webhookFolder)/running")
    try nodes.serve("b")
    try nodes.follow(nodes.b)
    services[1].start()
    try wait(for: mark)
    services[0].stop()
    try nodes.follow(nodes.b)
    #expect(Files.exists(mark))
    services[1].stop()
    #expect(!Files.exists(mark))
  }

  private func wait(for file: String) throws {
    for _ in 0..<500 where !Files.exists(file) { usleep(10_000) }
    try #require(Files.exists(file))
  }

  @Test("A change in whose middle another node takes over, without waiting, is not made")
  func takingOver() throws {
    let file = "\(nodes.a.path)/jobs/late.job"
    #expect(throws: (any Error).self) {
      try nodes.a.sharing {
        try Files.makeDirectory("\(nodes.a.path)/jobs")
        try Files.write("late", to: file, isPrivate: true)
        try nodes.serve("b")
      }
    }
    // At once: what is in the queue of events is sent.
    #expect(!Files.exists(file))
    try nodes.follow(nodes.a)
    try nodes.follow(nodes.b)
    #expect(try nodes.areEqual())
  }

  @Test("Commands work on every node, whichever serves")
  func commands() throws {
    try nodes.b.retire(DeviceID(7), nowSeconds: 1)
    try nodes.follow(nodes.a)
    #expect(try nodes.areEqual())
  }
}
