import ApusModel
import ApusStore
import PostgresServer
import Testing

@Suite("The store in PostgreSQL, a part of the devices each")
struct PostgresPartTests {
  private let scratch = Scratch()

  private func open(
    part: Int, _ change: (inout PostgresOptions) -> Void = { _ in }
  ) throws -> PostgresStore {
    var options = PostgresOptions.forTests
    options.part = part
    options.node = "a"
    change(&options)
    return try PostgresStore(scratch.database(), options)
  }

  @discardableResult
  private func sql(_ text: String) throws -> [String] {
    try PostgresServer.shared.sql(text, in: scratch.databaseName)
  }

  @Test("Each has rows, a lease and starts of its own, in a schema of its own")
  func own() async throws {
    let stores = try [0, 2, 11].map { try open(part: $0) }
    defer { for store in stores { store.close() } }
    for (number, store) in stores.enumerated() {
      #expect(await commit(store) { $0.put(.devices, [1], [UInt8(number)]) } == nil)
    }
    for (number, store) in stores.enumerated() {
      #expect(try store.get(.devices, [1]) == [UInt8(number)])
      #expect(store.incarnation == 1)
    }
    #expect(
      try sql("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'apus%' ORDER BY 1")
        == ["apus", "apus_11", "apus_2"])
    // What the nodes of a cluster share is there once.
    #expect(try sql("SELECT count(*) FROM pg_tables WHERE tablename = 'file'") == ["1"])
    let error = #expect(throws: StoreError.self) { try open(part: 2) }
    #expect("\(try #require(error))".contains("is in use"))
  }

  /// A node that waits for any of two parts.
  private func openAny(
    _ node: String, onHolder: @escaping @Sendable (String) -> Void = { _ in },
    permission: @escaping @Sendable () -> StandbyPermission = { .takeOver }
  ) throws -> PostgresStore {
    try open(part: 0) {
      $0.parts = 0..<2
      $0.node = node
      $0.renewMilliseconds = 100
      $0.absenceMilliseconds = 500
      $0.standby = StandbyOptions(onHolder: onHolder, permission: permission)
    }
  }

  @Test("Nodes take a part each, and one that stands by the first that is free")
  func any() async throws {
    let (a, b) = (try openAny("a"), try openAny("b"))
    #expect(a.part == 0 && b.part == 1)
    #expect(a.databaseID == b.databaseID)
    let holders = Recorder<String>()
    let third = Task.detached { [self] in try openAny("c", onHolder: holders.append) }
    while holders.all.isEmpty { try await Task.sleep(for: .milliseconds(20)) }
    #expect(holders.all[0] == "a, b")
    b.close()
    let c = try await third.value
    #expect(c.part == 1 && c.predecessor == b.incarnation)
    for store in [a, c] {
      #expect(await commit(store) { $0.put(.meta, [1], [1]) } == nil)
      store.close()
    }
  }

  @Test("A node that has a part is not started a second time, and one that gives up takes none")
  func twice() throws {
    let a = try openAny("a")
    defer { a.close() }
    let again = #expect(throws: StoreError.self) { try openAny("a") }
    #expect("\(try #require(again))".contains("a process called a renews its lease"))
    #expect(throws: StoreError.closed) { try openAny("d", permission: { .giveUp }) }
  }

  @Test("Each part has its own time to which a database must not go back")
  func goingBack() async throws {
    let a = try open(part: 1)
    #expect(await commit(a) { $0.put(.meta, [1], [1]) } == nil)
    let progress = a.progress
    a.close()
    let ahead = DatabaseProgress(era: progress.era, group: progress.group + 1000)
    try open(part: 1) { $0.seen = { part in part == 0 ? ahead : nil } }.close()
    #expect(throws: StoreError.self) {
      try open(part: 1) { $0.seen = { part in part == 1 ? ahead : nil } }
    }
  }

  @Test("Who takes a part over ends the writes of its former node, and no other's")
  func takingOver() async throws {
    let main = try open(part: 0) { $0.renewMilliseconds = 100 }
    let other = try open(part: 1) { $0.renewMilliseconds = 1_000_000 }
    let next = try open(part: 1) {
      $0.leaseMilliseconds = 600
      $0.node = "b"
      $0.standby = StandbyOptions(permission: { .takeOver })
    }
    defer { for store in [main, next] { store.close() } }
    #expect(await commit(next) { $0.put(.meta, [1], [2]) } == nil)
    #expect(await commit(main) { $0.put(.meta, [1], [1]) } == nil)
    let error = await commit(other) { $0.put(.meta, [1], [3]) }
    #expect("\(try #require(error))".contains("was taken over by another process (b, start 2)"))
    other.close()
    #expect(try main.get(.meta, [1]) == [1] && next.get(.meta, [1]) == [2])
  }
}
