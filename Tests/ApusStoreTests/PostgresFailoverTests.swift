import ApusStore
import Foundation
import PostgresServer
import Testing

/// The store while its database's servers fail. Each test has servers of its own.
@Suite("The store in PostgreSQL, while servers fail", .serialized)
struct PostgresFailoverTests {
  private static let database = "push"

  private func address(_ servers: [PostgresServer]) throws -> PostgresAddress {
    _ = try servers[0].address(of: Self.database)
    let hosts = servers.map { $0.directory.path() }.joined(separator: ",")
    return try PostgresAddress(
      "postgresql:///\(Self.database)?host=\(hosts)&user=postgres")
  }

  /// A server, and a standby that must have what it acknowledges.
  private func pair() throws -> (primary: PostgresServer, standby: PostgresServer) {
    let primary = try PostgresServer()
    let standby = try PostgresServer(standbyOf: primary)
    try primary.sql(
      "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (standby)'", in: "postgres")
    try primary.sql("SELECT pg_reload_conf()", in: "postgres")
    return (primary, standby)
  }

  /// Commits one group after the other on a thread of its own, until told to stop.
  private final class Writer: Sendable {
    private let store: PostgresStore
    private let recorder = Recorder<(number: Int, error: StoreError?)>()
    private let isStopping = Recorder<Bool>()
    private let end = Latch()

    init(_ store: PostgresStore) {
      self.store = store
      Thread.detachNewThread { self.run() }
    }

    static func key(_ number: Int) -> [UInt8] {
      (0..<3).map { UInt8(truncatingIfNeeded: number >> (16 - 8 * $0)) }
    }

    private func run() {
      var number = 0
      while isStopping.all.isEmpty {
        let done = DispatchSemaphore(value: 0)
        var group = store.makeGroup()
        group.put(.meta, Self.key(number), [1])
        let this = number
        store.commit(group) { error in
          self.recorder.append((this, error))
          done.signal()
        }
        done.wait()
        // Refusals come at once.
        Thread.sleep(forTimeInterval: 0.002)
        number += 1
      }
      end.arrive()
    }

    /// The numbers of the groups that were committed, and the errors of the others.
    func stop() async -> (committed: [Int], failed: [(number: Int, error: StoreError)]) {
      isStopping.append(true)
      await end.wait()
      var failed: [(number: Int, error: StoreError)] = []
      for outcome in recorder.all {
        if let error = outcome.error { failed.append((outcome.number, error)) }
      }
      return (recorder.all.filter { $0.error == nil }.map(\.number), failed)
    }

    /// Returns once that many groups have ended.
    func reach(_ count: Int) async throws {
      while recorder.all.count < count { try await Task.sleep(for: .milliseconds(5)) }
    }

    var count: Int { recorder.all.count }
  }

  private func rows(_ store: PostgresStore) throws -> Set<[UInt8]> {
    Set(try store.rows(.meta, prefix: []).map { $0[0] })
  }

  @Test("Groups wait while a killed server starts again, and none is lost or refused")
  func restart() async throws {
    let server = try PostgresServer()
    let store = try PostgresStore(address([server]), .forTests)
    defer { store.close() }
    let writer = Writer(store)
    try await writer.reach(50)
    try server.kill()
    try server.start()
    try await writer.reach(writer.count + 50)
    let (committed, failed) = await writer.stop()
    #expect(failed.isEmpty)
    while (try? store.get(.meta, Writer.key(0))) == nil {
      try await Task.sleep(for: .milliseconds(20))
    }
    #expect(try rows(store) == Set(committed.map(Writer.key)))
  }

  @Test("A process that starts while the database is away waits for it")
  func startMeanwhile() async throws {
    let server = try PostgresServer()
    let address = try address([server])
    try server.kill()
    let events = Recorder<String>()
    let isWaiting = Latch()
    var options = PostgresOptions.forTests
    options.onEvent = { event in
      if events.all.isEmpty { isWaiting.arrive() }
      events.append("\(event)")
    }
    #expect(throws: StoreError.self) { try PostgresStore(address, options) }
    options.openingMilliseconds = 600_000
    let patient = options
    async let opening = Task.detached { try PostgresStore(address, patient) }.value
    await isWaiting.wait()
    try server.start()
    let store = try await opening
    defer { store.close() }
    #expect(await commit(store) { $0.put(.meta, [1], [1]) } == nil)
    #expect(events.all.allSatisfy { $0.contains("tries again in") })
  }

  @Test("After a promotion everything acknowledged is there, and the service goes on by itself")
  func promotion() async throws {
    let (primary, standby) = try pair()
    let address = try address([primary, standby])
    // The usual requirement: a synchronous standby.
    let store = try PostgresStore(address, PostgresOptions())
    defer { store.close() }
    let writer = Writer(store)
    try await writer.reach(50)
    try primary.kill()
    try standby.promote()
    try await writer.reach(writer.count + 50)
    let (committed, failed) = await writer.stop()
    #expect(failed.isEmpty)
    while (try? store.get(.meta, Writer.key(0))) == nil {
      try await Task.sleep(for: .milliseconds(20))
    }
    #expect(try rows(store) == Set(committed.map(Writer.key)))
  }

  @Test(
    "A frozen server makes the group in progress doubtful and later ones refused, and then all is known"
  )
  func freeze() async throws {
    let server = try PostgresServer()
    var options = PostgresOptions.forTests
    options.holdMilliseconds = 500
    options.readMilliseconds = 300
    let store = try PostgresStore(address([server]), options)
    defer { store.close() }
    let writer = Writer(store)
    try await writer.reach(20)
    try server.signalAll(SIGSTOP)
    try await writer.reach(writer.count + 10)
    #expect(throws: StoreError.unavailable) { try store.get(.meta, Writer.key(0)) }
    #expect(!store.isAvailable)
    #expect("\(try #require(store.fault))".contains("no answer within"))
    try server.signalAll(SIGCONT)
    while !store.isAvailable { try await Task.sleep(for: .milliseconds(20)) }
    try await writer.reach(writer.count + 20)
    let (committed, failed) = await writer.stop()
    let doubtful = failed.filter(\.error.isInDoubt)
    #expect(doubtful.count == 1)
    while (try? store.get(.meta, Writer.key(0))) == nil {
      try await Task.sleep(for: .milliseconds(20))
    }
    let rows = try rows(store)
    #expect(rows.isSuperset(of: committed.map(Writer.key)))
    #expect(
      rows.subtracting(committed.map(Writer.key)).isSubset(
        of: doubtful.map { Writer.key($0.number) }))
  }

  @Test("Without its standby a server acknowledges nothing, and with it everything")
  func lonely() async throws {
    let (primary, standby) = try pair()
    var options = PostgresOptions()
    options.holdMilliseconds = 500
    let store = try PostgresStore(address([primary]), options)
    defer { store.close() }
    #expect(await commit(store) { $0.put(.meta, [1], [1]) } == nil)
    try standby.kill()
    let error = await commit(store) { $0.put(.meta, [1], [2]) }
    #expect(try #require(error).isInDoubt)
    try standby.start()
    while !store.isAvailable { try await Task.sleep(for: .milliseconds(20)) }
    #expect(await commit(store) { $0.put(.meta, [1], [3]) } == nil)
    #expect(try store.get(.meta, [1]) == [3])
  }
}
