import ApusModel
import Foundation
import PostgresServer
import Testing

@testable import ApusStore

@Suite("The tables of a cluster")
struct ClusterDatabaseTests {
  private let scratch = Scratch()

  /// A database with tables.
  private func prepared() throws -> PostgresAddress {
    let address = try scratch.database()
    try PostgresStore(address, .forTests).close()
    return address
  }

  private func open(_ node: String = "a") throws -> ClusterDatabase {
    try ClusterDatabase(prepared(), node: node, purpose: "test")
  }

  @discardableResult
  private func sql(_ text: String) throws -> [String] {
    _ = try scratch.database()
    return try PostgresServer.shared.sql(text, in: scratch.databaseName)
  }

  private func part(_ path: String, _ content: String?, start: Int64 = 0) -> SharedPart {
    SharedPart(path: path, start: start, isPrivate: true, content: content.map { Array($0.utf8) })
  }

  private func texts(_ database: ClusterDatabase, after version: Int64) throws -> [String] {
    var found: [String] = []
    try database.parts(after: version) { part in
      let content = part.content.map { String(decoding: $0, as: UTF8.self) } ?? "removed"
      found.append("\(part.version) \(part.path) \(part.start) \(content)")
    }
    return found
  }

  private func change(
    _ database: ClusterDatabase, _ parts: [SharedPart], forgotten: Int64 = 0
  ) throws {
    let now = try #require(try database.lockDirectory())
    try database.commit(parts, version: now.version + 1, forgotten: forgotten)
  }

  @Test("Nodes are added once, give signs of life, drain and are removed")
  func nodes() throws {
    let database = try open()
    #expect(try database.add("a", address: "a.example", version: "1"))
    #expect(try !database.add("a", address: "", version: "1"))
    #expect(try database.add("b", address: "", version: "1"))
    #expect(try database.nodes().map(\.state) == [.stopped, .stopped])
    #expect(try database.nodes().first?.silentMilliseconds == nil)
    _ = try database.makeDirectory(proof: [1], parts: 1)
    let orders = try #require(try database.sign("a", .serving, version: "2"))
    let progress = DatabaseProgress(era: 0, group: 0)
    #expect(
      orders
        == ClusterOrders(
          isDraining: false, filesVersion: 0, standbyCount: 0, progress: progress,
          nodes: ["a", "b"], serving: [nil]))
    _ = try database.sign("b", .standby, version: "2")
    #expect(try database.setDraining(true, "a"))
    #expect(try !database.setDraining(true, "c"))
    #expect(
      try database.sign("a", .serving, version: "2")
        == ClusterOrders(
          isDraining: true, filesVersion: 0, standbyCount: 1, progress: progress,
          nodes: ["a", "b"], serving: [nil]))
    try sql("UPDATE apus.lease SET released = false, holder = 'a'")
    _ = try database.sign("a", .serving, version: "2", link: "a.example:2193")
    #expect(
      try database.sign("b", .standby, version: "2")?.serving
        == [ClusterOrders.Serving(node: "a", link: "a.example:2193")])
    try sql("UPDATE apus.lease SET released = true")
    #expect(try database.sign("b", .standby, version: "2")?.serving == [nil])
    // One that drains takes nothing over, and neither does one that was not heard of for long.
    _ = try database.setDraining(true, "b")
    #expect(try database.sign("a", .serving, version: "2")?.standbyCount == 0)
    _ = try database.setDraining(false, "b")
    try sql("UPDATE apus.node SET seen = seen - interval '1 minute' WHERE name = 'b'")
    #expect(try database.sign("a", .serving, version: "2")?.standbyCount == 0)
    let nodes = try database.nodes()
    #expect(nodes.map(\.shownState) == ["serving", "away"])
    #expect(nodes[0].address == "a.example" && nodes[0].version == "2" && nodes[0].isDraining)
    #expect(try database.remove("b"))
    #expect(try !database.remove("b"))
    #expect(try database.sign("b", .standby, version: "2") == nil)
  }

  @Test("A database becomes that of a cluster once")
  func directory() throws {
    let database = try open()
    #expect(try database.directory() == nil)
    #expect(try database.lockDirectory() == nil)
    try database.giveUp()
    #expect(try database.makeDirectory(proof: [1, 2], parts: 3))
    #expect(try !database.makeDirectory(proof: [3], parts: 1))
    #expect(
      try database.directory() == SharedVersion(version: 0, forgotten: 0, proof: [1, 2], parts: 3))
  }

  @Test("Changes are read from any version on, in their order")
  func changes() throws {
    let database = try open()
    _ = try database.makeDirectory(proof: [], parts: 1)
    try change(database, [part("b", "1"), part("a", "1")])
    try change(database, [part("b", "2", start: 1)])
    try change(database, [part("a", nil)])
    #expect(try texts(database, after: 0) == ["1 b 0 1", "2 b 1 2", "3 a 0 removed"])
    #expect(try texts(database, after: 1) == ["2 b 1 2", "3 a 0 removed"])
    #expect(try texts(database, after: 3) == [])
    #expect(try database.pathsInParts() == ["b"])
    let last = try #require(try database.lastPart(of: "b"))
    #expect(last.start == 1 && last.byteCount == 1)
    #expect(try database.lastPart(of: "a") == nil)
    #expect(try database.lastPart(of: "c") == nil)
    // A file that is replaced has one part again, and one that comes back has content.
    try change(database, [part("b", "new"), part("a", "back")])
    #expect(try texts(database, after: 3) == ["4 a 0 back", "4 b 0 new"])
    #expect(try database.parts(of: "b").map(\.start) == [0])
    #expect(try database.directory()?.version == 4)
  }

  @Test("More changes than one answer has are all read")
  func manyChanges() throws {
    let database = try open()
    _ = try database.makeDirectory(proof: [], parts: 1)
    try change(database, (0..<450).map { part("f\($0)", "x") })
    #expect(try texts(database, after: 0).count == 450)
  }

  @Test("Removals are forgotten when nobody has to be told any more")
  func forgetting() throws {
    let database = try open()
    _ = try database.makeDirectory(proof: [], parts: 1)
    try change(database, [part("a", "1"), part("b", "1")])
    try change(database, [part("a", nil)])
    try change(database, [part("c", "1")], forgotten: 2)
    #expect(try texts(database, after: 0) == ["1 b 0 1", "3 c 0 1"])
    #expect(try database.directory()?.forgotten == 2)
  }

  @Test("While one changes files another one waits, and a change that is given up leaves nothing")
  func lock() async throws {
    let address = try prepared()
    let first = try ClusterDatabase(address, node: "a", purpose: "test")
    _ = try first.makeDirectory(proof: [], parts: 1)
    #expect(try first.lockDirectory()?.version == 0)
    let order = Recorder<String>()
    let thread = Latch()
    Thread.detachNewThread {
      let second = try? ClusterDatabase(address, node: "b", purpose: "test")
      let version = try? second?.lockDirectory()?.version
      order.append("second locks at \(version ?? -1)")
      thread.arrive()
    }
    while try sql("SELECT count(*) FROM pg_locks WHERE NOT granted") == ["0"] {}
    order.append("first commits")
    try first.commit([part("a", "1")], version: 1, forgotten: 0)
    await thread.wait()
    #expect(order.all == ["first commits", "second locks at 1"])
  }

  @Test("An invitation adds one node, and none once it has expired")
  func invitations() throws {
    let database = try open()
    try database.invite([1], sealed: [7], seconds: 60)
    #expect(try database.invitation([1]) == [7])
    #expect(try database.invitation([2]) == nil)
    #expect(try !database.accept([2], "b", address: "", version: "1"))
    #expect(try database.nodes().isEmpty)
    #expect(try database.accept([1], "b", address: "b.example", version: "1"))
    #expect(try !database.accept([1], "c", address: "", version: "1"))
    #expect(try database.nodes().map(\.name) == ["b"])
    // The name of a node that exists does not use the code up.
    try database.invite([3], sealed: [7], seconds: 60)
    #expect(try !database.accept([3], "b", address: "", version: "1"))
    #expect(try database.accept([3], "c", address: "", version: "1"))
    try database.invite([4], sealed: [7], seconds: 0)
    #expect(try database.invitation([4]) == nil)
    #expect(try !database.accept([4], "d", address: "", version: "1"))
  }

  @Test("Tables of version 1 are brought up to date with what they have")
  func migration() async throws {
    let address = try scratch.database()
    for command in PostgresStatements.all.schema { try sql(command) }
    try sql(
      "INSERT INTO apus.lease (node, incarnation, counter, released) VALUES ('apus', 5, 9, true)")
    try sql("UPDATE apus.service SET incarnations = 5")
    try sql("INSERT INTO apus.devices VALUES ('\\x01', '\\x02')")
    let store = try PostgresStore(address, .forTests)
    defer { store.close() }
    #expect(store.incarnation == 6 && store.predecessor == 5)
    #expect(try store.get(.devices, [1]) == [2])
    #expect(try sql("SELECT version FROM apus.service") == ["\(PostgresTables.version)"])
    #expect(try sql("SELECT holder FROM apus.lease") == ["apus"])
  }

  // MARK: Taking turns

  private final class Standby: Sendable {
    let holders = Recorder<String>()
    let permission = Recorder<StandbyPermission>()
    let store = Recorder<PostgresStore>()
    let failures = Recorder<StoreError>()
    private let end = Latch()

    init(_ address: PostgresAddress, _ node: String, absence: Int64 = 300) {
      var options = PostgresOptions.forTests
      options.node = node
      options.leaseMilliseconds = 60_000
      options.absenceMilliseconds = absence
      options.standby = StandbyOptions(
        onHolder: { self.holders.append($0) },
        permission: { self.permission.all.last ?? .takeOver })
      let settings = options
      Thread.detachNewThread {
        do throws(StoreError) {
          self.store.append(try PostgresStore(address, settings))
        } catch {
          self.failures.append(error)
        }
        self.end.arrive()
      }
    }

    func wait() async { await end.wait() }
  }

  private func serving(_ address: PostgresAddress) throws -> PostgresStore {
    var options = PostgresOptions.forTests
    options.node = "a"
    options.renewMilliseconds = 50
    return try PostgresStore(address, options)
  }

  @Test("A node stands by while another one serves, and takes over as soon as that one stops")
  func standby() async throws {
    let address = try scratch.database()
    let first = try serving(address)
    let second = Standby(address, "b")
    while second.holders.all.isEmpty { try await Task.sleep(for: .milliseconds(10)) }
    #expect(second.holders.all.first == "a")
    #expect(await commit(first) { $0.put(.devices, [1], [1]) } == nil)
    #expect(second.store.all.isEmpty)
    first.close()
    await second.wait()
    let store = try #require(second.store.all.first)
    defer { store.close() }
    #expect(try store.get(.devices, [1]) == [1])
    #expect(store.predecessor == first.incarnation)
    #expect(try sql("SELECT holder FROM apus.lease") == ["b"])
  }

  @Test("A node whose connections are gone for a while has died")
  func absence() async throws {
    let address = try scratch.database()
    let first = try serving(address)
    let second = Standby(address, "b")
    while second.holders.all.isEmpty { try await Task.sleep(for: .milliseconds(10)) }
    // Its lease is not released, as after a kill.
    try sql("CREATE RULE keep AS ON UPDATE TO apus.lease WHERE new.released DO INSTEAD NOTHING")
    first.close()
    #expect(try sql("SELECT released FROM apus.lease") == ["f"])
    try sql("DROP RULE keep ON apus.lease")
    await second.wait()
    try #require(second.store.all.first).close()
  }

  @Test("A node that is overtaken by another one before it can write goes on standing by")
  func overtaken() async throws {
    let address = try scratch.database()
    try serving(address).close()
    // Its first claim of the lane is followed at once by that of another node.
    try sql("CREATE TABLE public.claims ()")
    try sql(
      """
      CREATE FUNCTION public.overtake() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NOT EXISTS (SELECT FROM public.claims) THEN
          INSERT INTO public.claims DEFAULT VALUES;
          NEW.node := 'c'; NEW.incarnation := NEW.incarnation + 1;
        END IF;
        RETURN NEW;
      END $$
      """)
    try sql(
      """
      CREATE TRIGGER overtake BEFORE UPDATE ON apus.lane
        FOR EACH ROW WHEN (old.incarnation <> new.incarnation) EXECUTE FUNCTION public.overtake()
      """)
    let second = Standby(address, "b")
    await second.wait()
    #expect(second.failures.all == [])
    let store = try #require(second.store.all.first)
    defer { store.close() }
    #expect(try sql("SELECT count(*) FROM public.claims") == ["1"])
    #expect(await commit(store) { $0.put(.devices, [1], [1]) } == nil)
    #expect(try sql("SELECT node FROM apus.lane") == ["b"])
  }

  @Test("A node that must not take over waits, and one that is to stop gives up")
  func permission() async throws {
    let address = try scratch.database()
    let first = try serving(address)
    let second = Standby(address, "b")
    second.permission.append(.wait)
    first.close()
    try await Task.sleep(for: .milliseconds(700))
    #expect(second.store.all.isEmpty)
    second.permission.append(.giveUp)
    await second.wait()
    #expect(second.failures.all == [.closed])
  }

  @Test("A node that was taken over while it was stopped learns that without writing")
  func steppingDown() async throws {
    let address = try scratch.database()
    let events = Recorder<StoreEvent>()
    var options = PostgresOptions.forTests
    options.node = "a"
    options.renewMilliseconds = 50
    options.onEvent = { events.append($0) }
    let first = try PostgresStore(address, options)
    defer { first.close() }
    // As a node does that saw the lease stand still.
    try sql("UPDATE apus.lease SET holder = 'b', incarnation = incarnation + 1")
    while events.all.isEmpty { try await Task.sleep(for: .milliseconds(10)) }
    #expect(events.all == [.failed(.takenOver(place: address.description, holder: "b"))])
  }

  @Test("The second process of a node is refused, also as a standby")
  func sameNode() async throws {
    let address = try scratch.database()
    let first = try serving(address)
    defer { first.close() }
    let second = Standby(address, "a")
    await second.wait()
    #expect("\(try #require(second.failures.all.first))".contains("a process called a"))
  }
}
