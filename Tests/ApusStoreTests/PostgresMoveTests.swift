import ApusModel
import Foundation
import PostgresServer
import Testing

@testable import ApusStore

@Suite("A part of a cluster's devices in a database of its own")
struct PostgresMoveTests {
  private let scratch = Scratch()
  private let main: PostgresAddress

  /// Two parts in one database, of which part 1 has been used twice, and has a row in each table.
  init() throws {
    main = try scratch.database()
    try PostgresStore(main, .forTests { $0.node = "a" }).close()
    _ = try ClusterDatabase(main, node: "a", purpose: "test").makeDirectory(proof: [], parts: 2)
    for number in UInt8(1)...2 {
      try put(PartDatabases(main: main), StoreFamily.allCases.map { ($0, [number], [number, 9]) })
    }
  }

  private func other(_ name: String = "other") throws -> PostgresAddress {
    try PostgresAddress(PostgresServer.shared.address(of: "\(scratch.databaseName)-\(name)"))
  }

  @discardableResult
  private func sql(_ text: String, in name: String = "other") throws -> [String] {
    try PostgresServer.shared.sql(text, in: "\(scratch.databaseName)-\(name)")
  }

  @discardableResult
  private func mainSQL(_ text: String) throws -> [String] {
    try PostgresServer.shared.sql(text, in: scratch.databaseName)
  }

  private func open(
    _ databases: PartDatabases, _ change: (inout PostgresOptions) -> Void = { _ in }
  ) throws -> PostgresStore {
    try PostgresStore(
      databases,
      .forTests {
        ($0.node, $0.part) = ("a", 1)
        change(&$0)
      })
  }

  private func put(
    _ databases: PartDatabases, _ rows: [(StoreFamily, [UInt8], [UInt8])]
  ) throws {
    let store = try open(databases)
    defer { store.close() }
    var group = store.makeGroup()
    for (family, key, value) in rows { group.put(family, key, value) }
    try store.write(&group)
  }

  private func move(
    _ databases: PartDatabases, to target: PostgresAddress
  ) throws -> PostgresMove.Report {
    try PostgresMove(databases, .forTests { $0.node = "a" }, part: 1, to: target).run()
  }

  private func moved(
    _ databases: PartDatabases, to target: PostgresAddress
  ) throws -> PartDatabases {
    databases.with(try move(databases, to: target).place, of: 1)
  }

  private func message(_ body: () throws -> Void) throws -> String {
    "\(try #require(#expect(throws: StoreError.self) { try body() }))"
  }

  @Test("All rows are there as they were, starts are counted on, and nobody uses the old")
  func rows() throws {
    let before = PartDatabases(main: main)
    let report = try move(before, to: other())
    #expect(report.rows == 14)
    let after = before.with(report.place, of: 1)
    #expect(try [0, 1].map(after.address) == [main, other()])
    let store = try open(after)
    #expect(store.incarnation == 3 && store.predecessor == 2)
    #expect(store.progress == DatabaseProgress(era: 0, group: 2))
    for family in StoreFamily.allCases {
      #expect(
        try store.rows(family, prefix: []) == [[[1], [1, 9]], [[2], [2, 9]]], "\(family)")
    }
    // The lease is in the first database, whose id is that of the store.
    let lease = "SELECT incarnation, released FROM apus.lease WHERE node = 'apus_1'"
    #expect(try mainSQL(lease) == ["3|f"])
    #expect(
      try mainSQL("SELECT encode(id, 'hex') FROM apus.service")
        == [store.databaseID.map { String(format: "%02x", $0) }.joined()])
    var group = store.makeGroup()
    group.put(.meta, [7], [7])
    try store.write(&group)
    store.close()
    #expect(try mainSQL(lease) == ["3|t"])
    #expect(try sql("SELECT encode(value, 'hex') FROM apus_1.meta ORDER BY key").last == "07")
    let old = try message { try open(before).close() }
    #expect(old.contains("its rows were copied to another store"), "\(old)")
    let followed = try message { _ = try PostgresFollower(main, node: "a", part: 1) }
    #expect(followed.contains("its rows were copied to another store"), "\(followed)")
    #expect(try PostgresFollower(other(), node: "a", part: 1).get(.meta, [7]) == [7])
  }

  @Test("More rows than are read at once")
  func many() throws {
    let insert = "SELECT int8send(n), int8send(-n) FROM generate_series(1, 4500) AS n"
    try mainSQL("INSERT INTO apus_1.mailbox \(insert)")
    #expect(try move(PartDatabases(main: main), to: other()).rows == 4514)
    let sum = "SELECT count(*), md5(string_agg(key || value, '' ORDER BY key)) FROM apus_1.mailbox"
    #expect(try sql(sum) == mainSQL(sum))
  }

  @Test("A part moves on, and back into the first database, in place of what it left there")
  func back() throws {
    let first = try moved(PartDatabases(main: main), to: other())
    try put(first, [(.meta, [3], [3])])
    let second = try moved(first, to: other("third"))
    try put(second, [(.meta, [3], [4])])
    let report = try move(second, to: main)
    #expect(report.rows == 15)
    let store = try open(second.with(nil, of: 1))
    defer { store.close() }
    #expect(try store.get(.meta, [3]) == [4])
    #expect(store.incarnation == 5)
  }

  @Test("A database that has the rows already has another address, and nothing is copied")
  func address() throws {
    let after = try moved(PartDatabases(main: main), to: other())
    let again = try PostgresAddress(other().text + "&connect_timeout=3")
    let report = try move(after, to: again)
    #expect(report == .init(place: .init(address: again, id: after.places[1]?.id ?? []), rows: nil))
    try open(after.with(report.place, of: 1)).close()
    // The first database under another one.
    let same = try PostgresAddress(main.text + "&connect_timeout=3")
    let home = try moved(after, to: main).with(nil, of: 1)
    #expect(try move(home, to: same).rows == nil)
    try open(home).close()
  }

  // MARK: Interruptions

  @Test("After a copy that was not used, the rows are copied again")
  func interruptedCopy() throws {
    let before = PartDatabases(main: main)
    _ = try move(before, to: other())
    // As it was before the first database was marked. Its service went on.
    try mainSQL("UPDATE apus_1.service SET moved = false")
    try sql("UPDATE apus_1.service SET moved = true")
    try put(before, [(.meta, [1], [8])])
    let report = try move(before, to: other())
    #expect(report.rows == 14)
    let store = try open(before.with(report.place, of: 1))
    defer { store.close() }
    #expect(try store.get(.meta, [1]) == [8])
  }

  @Test("After a complete copy that no node knows of, nothing is copied again")
  func interruptedEnd() throws {
    let before = PartDatabases(main: main)
    _ = try move(before, to: other())
    try sql("UPDATE apus_1.service SET moved = true")
    // A copy of an earlier time is no copy.
    _ = try other("third")
    #expect(
      try message { _ = try move(before, to: other("third")) }.contains(
        "its rows of part 1 were moved to another database already: name that one"))
    #expect(try move(before, to: other()).rows == nil)
    // Only the shared file was not written.
    #expect(try move(before, to: other()).rows == nil)
    try open(moved(before, to: other())).close()
  }

  @Test("A copy that is older, or that other means made, is not taken for the rows")
  func copies() throws {
    let before = PartDatabases(main: main)
    let name = scratch.databaseName
    try PostgresServer.shared.sql(
      "CREATE DATABASE \"\(name)-clone\" TEMPLATE \"\(name)\"", in: "postgres")
    try put(before, [(.meta, [1], [8])])
    let clone = try PostgresAddress(
      main.text.replacingOccurrences(of: "/\(name)?", with: "/\(name)-clone?"))
    let refusal = try message { _ = try move(before, to: clone) }
    #expect(refusal.contains("it has an older copy of the rows of part 1"), "\(refusal)")
    try open(before).close()
  }

  // MARK: Refusals

  @Test("Other tables of that name, and a part with a process, are left alone")
  func refusals() throws {
    let before = PartDatabases(main: main)
    try PostgresStore(other(), .forTests { $0.part = 1 }).close()
    let refusal = try message { _ = try move(before, to: other()) }
    #expect(refusal.contains("it has tables of another part 1"), "\(refusal)")
    let store = try open(before)
    let running = try message { _ = try move(before, to: other("third")) }
    #expect(running.contains("the node a did not give its lease back"), "\(running)")
    store.close()
    _ = try move(before, to: other("third"))
  }

  @Test("A part that nobody has used yet moves as well")
  func unused() throws {
    let databases = PartDatabases(main: main)
    let report = try PostgresMove(
      databases, .forTests { $0.node = "a" }, part: 2, to: other()
    ).run()
    #expect(report.rows == 0)
    try open(databases.with(report.place, of: 2)) { $0.part = 2 }.close()
  }

  // MARK: Standing by

  private func standBy(
    _ databases: PartDatabases, _ node: String, _ recorder: Recorder<String>,
    permission: @escaping @Sendable () -> StandbyPermission = { .takeOver }
  ) throws -> PostgresStore {
    try open(databases) {
      ($0.node, $0.parts) = (node, 0..<2)
      $0.renewMilliseconds = 100
      $0.absenceMilliseconds = 500
      $0.standby = StandbyOptions(permission: permission)
      $0.onEvent = { recorder.append("\($0)") }
    }
  }

  @Test(
    "While one database is away nodes have the parts of the others, and its own once it is back")
  func away() async throws {
    let databases = try moved(PartDatabases(main: main), to: other())
    let name = "\(scratch.databaseName)-other"
    try PostgresServer.shared.sql(
      "ALTER DATABASE \"\(name)\" ALLOW_CONNECTIONS false", in: "postgres")
    let events = Recorder<String>()
    let a = try standBy(databases, "a", Recorder())
    defer { a.close() }
    #expect(a.part == 0)
    let second = Task.detached { [self] in try standBy(databases, "b", events) }
    while events.all.isEmpty { try await Task.sleep(for: .milliseconds(20)) }
    #expect(events.all[0].contains("not currently accepting connections"), "\(events.all)")
    try PostgresServer.shared.sql(
      "ALTER DATABASE \"\(name)\" ALLOW_CONNECTIONS true", in: "postgres")
    let b = try await second.value
    defer { b.close() }
    #expect(b.part == 1)
    #expect(await commit(b) { $0.put(.meta, [1], [1]) } == nil)
    #expect(b.databaseID == a.databaseID)
  }

  @Test("A database with other tables is not used, and a lease that was taken for it is given back")
  func wrong() async throws {
    let databases = try moved(PartDatabases(main: main), to: other())
    try PostgresStore(other("third"), .forTests { $0.part = 1 }).close()
    let id = try #require(databases.places[1]?.id)
    let wrong = databases.with(.init(address: try other("third"), id: id), of: 1)
    let refusal = try message { try open(wrong).close() }
    #expect(refusal.contains("its rows are not those of part 1 of this cluster"), "\(refusal)")
    // One that went back in time is found out once nobody writes any more.
    let ahead = DatabaseProgress(era: 0, group: 1_000_000)
    #expect(throws: StoreError.self) {
      try open(databases) { $0.seen = { part in part == 1 ? ahead : nil } }
    }
    #expect(try mainSQL("SELECT released FROM apus.lease WHERE node = 'apus_1'") == ["t"])
    try open(databases).close()
  }

  @Test("A node that is cut off from its part's database alone cannot write there after another")
  func fenced() async throws {
    let databases = try moved(PartDatabases(main: main), to: other())
    let former = try open(databases) { $0.renewMilliseconds = 1_000_000 }
    let next = try open(databases) {
      ($0.node, $0.leaseMilliseconds) = ("b", 600)
      $0.standby = StandbyOptions(permission: { .takeOver })
    }
    defer { next.close() }
    #expect(await commit(next) { $0.put(.meta, [1], [2]) } == nil)
    let error = await commit(former) { $0.put(.meta, [1], [3]) }
    #expect("\(try #require(error))".contains("was taken over by another process (b, start 4)"))
    former.close()
    #expect(try next.get(.meta, [1]) == [2])
  }
}
