import ApusModel
import ApusRandom
import ApusStore
import ApusThread
import Foundation
import PostgresServer
import Testing

@Suite("The store in PostgreSQL")
struct PostgresStoreTests {
  private let scratch = Scratch()

  private func options(_ change: (inout PostgresOptions) -> Void = { _ in }) -> PostgresOptions {
    var options = PostgresOptions.forTests
    change(&options)
    return options
  }

  private func open(_ change: (inout PostgresOptions) -> Void = { _ in }) throws -> PostgresStore {
    try PostgresStore(scratch.database(), options(change))
  }

  @discardableResult
  private func sql(_ text: String) throws -> [String] {
    _ = try scratch.database()
    return try PostgresServer.shared.sql(text, in: scratch.databaseName)
  }

  @Test("Rows outlive the process, and the database keeps its id")
  func reopening() async throws {
    let first = try open()
    #expect(await commit(first) { $0.put(.devices, [1], [10]) } == nil)
    first.close()
    let second = try open()
    defer { second.close() }
    #expect(try second.get(.devices, [1]) == [10])
    #expect(second.databaseID == first.databaseID)
    #expect(second.databaseID.count == 16)
  }

  @Test("Values of every size that occurs are stored", arguments: [0, 1, 2000, 8150, 8200, 60_000])
  func sizes(count: Int) async throws {
    let store = try open()
    defer { store.close() }
    let value = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31) }
    #expect(await commit(store) { $0.put(.ledger, [7], value) } == nil)
    #expect(try store.get(.ledger, [7]) == value)
  }

  @Test("A scan of many rows visits each once and in order, and reads no table as a whole")
  func longScan() async throws {
    let store = try open()
    defer { store.close() }
    // Making an index reads its table once.
    let count = "SELECT sum(seq_scan) FROM pg_stat_user_tables WHERE relname <> 'service'"
    let before = try sql(count)
    func key(_ number: Int) -> [UInt8] { [1, UInt8(number >> 8), UInt8(number & 0xff)] }
    #expect(
      await commit(store) { group in
        for number in 0..<5000 { group.put(.relay, key(number), [1]) }
        group.put(.relay, [2], [2])
      } == nil)
    let rows = try store.rows(.relay, prefix: [1])
    #expect(rows.map { $0[0] } == (0..<5000).map(key))
    #expect(try store.rows(.relay, prefix: [], from: key(4998)).count == 3)
    #expect(try sql(count) == before)
  }

  @Test("Groups leave what they leave in memory", arguments: 1...6 as ClosedRange<UInt64>)
  func model(seed: UInt64) async throws {
    var random = SeededRandom(seed: seed)
    let store = try open()
    let model = MemoryStore()
    defer { store.close() }
    for _ in 0..<40 {
      let writes = (0..<random.between(1, 60)).map { _ in Write(&random) }
      for each in [store, model] as [any DurableStore] {
        let error = await commit(each) { group in for write in writes { write.add(to: &group) } }
        #expect(error == nil)
      }
    }
    for family in StoreFamily.allCases {
      #expect(try store.rows(family, prefix: []) == model.rows(family, prefix: []))
    }
  }

  /// Few keys, so that groups often write the same one several times.
  private struct Write {
    var family: StoreFamily
    var kind: Int
    var key: [UInt8]
    var other: [UInt8]

    init(_ random: inout SeededRandom) {
      family = StoreFamily.allCases[Int(random.between(0, 6))]
      kind = Int(random.between(0, 9))
      key = [UInt8(random.between(0, 40))]
      other = [UInt8(random.between(0, 40))]
    }

    func add(to group: inout WriteGroup) {
      switch kind {
      case 0: group.deleteRange(family, from: min(key[0], other[0]), to: max(key[0], other[0]))
      case 1...3: group.delete(family, key)
      default: group.put(family, key, other)
      }
    }
  }

  // MARK: Settings

  @Test(
    "A database that may lose what it acknowledged is refused, with the setting to change",
    arguments: [
      ("synchronous_commit", "off", "synchronous_commit is off"),
      ("synchronous_commit", "local", "synchronous_commit is local"),
    ])
  func unsafeSetting(name: String, value: String, expected: String) throws {
    try sql("ALTER DATABASE \"\(scratch.databaseName)\" SET \(name) = \(value)")
    let error = #expect(throws: StoreError.self) { try open() }
    #expect("\(try #require(error))".contains(expected))
  }

  @Test("A database without a synchronous standby is used only if that is accepted")
  func singleServer() throws {
    let error = #expect(throws: StoreError.self) { try open { $0.allowsSingleServer = false } }
    #expect("\(try #require(error))".contains("synchronous_standby_names"))
    #expect("\(try #require(error))".contains("--single-database"))
  }

  @Test("Tables of a later program, and tables whose rows were copied away, are refused")
  func refusedTables() throws {
    try open().close()
    try sql("UPDATE apus.service SET version = 4")
    var error = #expect(throws: StoreError.self) { try open() }
    #expect("\(try #require(error))".contains("has format 4, but this program supports"))
    try sql("UPDATE apus.service SET version = 3, moved = true")
    error = #expect(throws: StoreError.self) { try open() }
    #expect("\(try #require(error))".contains("copied to another store"))
  }

  @Test("A server that is not there is an error that names it, without the password")
  func missingServer() throws {
    let address = try PostgresAddress("postgresql://apus:secret@127.0.0.1:1/push")
    let error = #expect(throws: StoreError.self) { try PostgresStore(address, options()) }
    let text = "\(try #require(error))"
    #expect(text.contains("postgresql://127.0.0.1:1/push") && text.contains("Connection refused"))
    #expect(!text.contains("secret"))
    #expect(error?.letsServiceRun == false)
  }

  // MARK: One process at a time

  /// A store that renews its lease once, at its start, as if its process was then stopped.
  private func openAndStop() throws -> PostgresStore {
    let store = try open { $0.renewMilliseconds = 3_600_000 }
    while try sql("SELECT counter FROM apus.lease") == ["0"] {}
    return store
  }

  @Test("A second process is refused while the first renews its lease")
  func secondProcess() async throws {
    let first = try open { $0.renewMilliseconds = 50 }
    defer { first.close() }
    let error = #expect(throws: StoreError.self) { try open() }
    #expect("\(try #require(error))".contains("is in use"))
    #expect(await commit(first) { $0.put(.meta, [1], [1]) } == nil)
  }

  @Test("A renewal that a killed process left behind does not keep its successor out")
  func lateRenewal() async throws {
    let first = try openAndStop()
    defer { first.close() }
    let (database, patience) = (try scratch.database(), options { $0.leaseMilliseconds = 1000 })
    async let opening = Task.detached { try PostgresStore(database, patience) }.value
    let isOpening =
      "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'apus/apus/opening'"
    while try sql(isOpening + " AND datname = current_database()") == ["0"] {}
    try await Task.sleep(for: .milliseconds(300))
    try sql("UPDATE apus.lease SET counter = counter + 1")
    let second = try await opening
    defer { second.close() }
    #expect(await commit(second) { $0.put(.meta, [1], [1]) } == nil)
  }

  @Test("A process that renews no more is taken over, and writes nothing afterwards")
  func takingOver() async throws {
    let first = try openAndStop()
    #expect(await commit(first) { $0.put(.meta, [1], [1]) } == nil)
    let second = try open { $0.leaseMilliseconds = 600 }
    defer { second.close() }
    #expect(await commit(second) { $0.put(.meta, [1], [2]) } == nil)
    let error = await commit(first) { $0.put(.meta, [1], [3]) }
    #expect("\(try #require(error))".contains("was taken over by another process (apus, start 2)"))
    #expect(error?.isInDoubt == false)
    #expect(await commit(first) { $0.put(.meta, [1], [4]) } == .unavailable)
    #expect(!first.isAvailable)
    #expect(try second.get(.meta, [1]) == [2])
    first.close()
  }

  @Test("The lease lasts as long as nobody takes over, counted from the last renewal")
  func leaseTime() throws {
    let before = bootMilliseconds()
    let store = try open {
      $0.absenceMilliseconds = 1500
      $0.renewMilliseconds = 50
    }
    let lease = try #require(store.lease)
    let end = bootMilliseconds() + 1000
    #expect(lease.hasLapsed(atMilliseconds: end + 60_000))
    #expect(!lease.hasLapsed(atMilliseconds: before + 999))
    // Later renewals move the end.
    while lease.hasLapsed(atMilliseconds: end) {}
    try sql("UPDATE apus.lease SET incarnation = incarnation + 1, holder = 'b'")
    while !lease.hasLapsed(atMilliseconds: 1) {}
    store.close()
  }

  @Test("A transaction that a stopped process left open is ended")
  func frozenTransaction() async throws {
    let first = try openAndStop()
    defer { first.close() }
    // As if the first process had been stopped between two statements of a group.
    let frozen = try PostgresServer.shared.holdOpen(
      "BEGIN; UPDATE apus.lane SET n = n + 1;", in: scratch.databaseName, as: "apus/apus/1/0")
    defer { frozen.end() }
    let second = try open { $0.leaseMilliseconds = 300 }
    defer { second.close() }
    #expect(await commit(second) { $0.put(.meta, [1], [2]) } == nil)
  }

  @Test("So is one of a process before the last, which took the lease and never got the lane")
  func frozenBeforeTheLast() async throws {
    let first = try openAndStop()
    defer { first.close() }
    let frozen = try PostgresServer.shared.holdOpen(
      "BEGIN; UPDATE apus.lane SET n = n + 1;", in: scratch.databaseName, as: "apus/apus/1/0")
    defer { frozen.end() }
    try sql("UPDATE apus.service SET incarnations = 7; UPDATE apus.lease SET incarnation = 7")
    let third = try open { $0.leaseMilliseconds = 300 }
    defer { third.close() }
    #expect(await commit(third) { $0.put(.meta, [1], [2]) } == nil)
  }

  @Test("A process that was stopped while it took over does not take the lane back")
  func lateLane() throws {
    try open().close()
    // Others have taken over three times since, and the lease is free again.
    try sql("UPDATE apus.lane SET incarnation = 4")
    let store = try open()
    defer { store.close() }
    #expect(store.incarnation >= 4)
    #expect(try sql("SELECT incarnation >= 4 FROM apus.lane") == ["t"])
  }

  // MARK: Faults

  private func cutWriter() throws {
    try sql(
      """
      SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name LIKE 'apus/%/0' AND datname = current_database()
      """)
  }

  @Test("Groups are written exactly once while connections are cut")
  func cutConnections() async throws {
    let store = try open()
    defer { store.close() }
    let cutter = Task {
      for _ in 0..<25 {
        try cutWriter()
        try await Task.sleep(for: .milliseconds(20))
      }
    }
    let errors = Recorder<StoreError>()
    let done = Latch()
    // Each group reads nothing: a second execution would be visible only in the lane's number.
    let count = 400
    for number in 0..<count {
      var group = store.makeGroup()
      group.put(.meta, [UInt8(number >> 8), UInt8(number & 0xff)], [1])
      store.commit(group) { error in
        if let error { errors.append(error) }
        done.arrive()
      }
      if number % 4 == 0 { try await Task.sleep(for: .milliseconds(4)) }
    }
    await done.wait(for: count)
    _ = try await cutter.value
    #expect(errors.all.isEmpty)
    #expect(try store.rows(.meta, prefix: []).count == count)
    #expect(try sql("SELECT session > 1 FROM apus.lane") == ["t"])
  }

  @Test("A group whose end is unknown stays so, whatever a new connection is told")
  func doubt() async throws {
    let store = try open { $0.holdMilliseconds = 400 }
    defer { store.close() }
    #expect(await commit(store) { $0.put(.meta, [1], [1]) } == nil)
    try sql("CREATE TABLE closed (x integer)")
    try sql(
      """
      CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.session <> OLD.session AND EXISTS (SELECT FROM public.closed) THEN RAISE 'closed'; END IF;
        RETURN NEW;
      END $$;
      CREATE TRIGGER refuse BEFORE UPDATE ON apus.lane FOR EACH ROW EXECUTE FUNCTION refuse();
      """)
    let blocker = try PostgresServer.shared.holdOpen(
      "BEGIN; SELECT FROM apus.meta FOR UPDATE;", in: scratch.databaseName, as: "blocker")
    async let outcome = commit(store) { $0.put(.meta, [1], [2]) }
    let waiting = """
      SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()
      """
    while try sql(waiting) == ["0"] {}
    try sql("INSERT INTO closed VALUES (1)")
    try cutWriter()
    let error = await outcome
    #expect(try #require(error).isInDoubt)
    blocker.end()
    try sql("DELETE FROM closed")
    while !store.isAvailable { try await Task.sleep(for: .milliseconds(10)) }
    #expect(try store.get(.meta, [1]) == [1])
    #expect(await commit(store) { $0.put(.meta, [1], [3]) } == nil)
  }

  @Test("A database that lost acknowledged groups is noticed, and gets no further ones")
  func wentBack() async throws {
    let store = try open()
    defer { store.close() }
    for number in UInt8(0)..<5 {
      #expect(await commit(store) { $0.put(.meta, [number], [1]) } == nil)
    }
    try sql("UPDATE apus.lane SET n = n - 2")
    try cutWriter()
    let error = await commit(store) { $0.put(.meta, [9], [1]) }
    #expect("\(try #require(error))".contains("lacks writes that it had acknowledged"))
    #expect(await commit(store) { $0.put(.meta, [9], [1]) } == .unavailable)
    #expect(try sql("SELECT count(*) FROM apus.meta WHERE key = '\\x09'") == ["0"])
  }

  @Test("A database that went back between two starts is noticed as well, unless that is accepted")
  func wentBackWhileDown() async throws {
    let reports = Recorder<DatabaseProgress>()
    let first = try open {
      $0.renewMilliseconds = 20
      $0.onProgress = { _, _, progress in reports.append(progress) }
    }
    for number in UInt8(0)..<5 {
      #expect(await commit(first) { $0.put(.meta, [number], [1]) } == nil)
    }
    while reports.all.last?.group != 5 { try await Task.sleep(for: .milliseconds(10)) }
    first.close()
    let seen = DatabaseProgress(era: 0, group: 5)
    let second = try open { $0.seen = { _ in seen } }
    #expect(second.progress == seen)
    second.close()

    try sql("UPDATE apus.lane SET n = n - 2")
    let error = #expect(throws: StoreError.self) { try open { $0.seen = { _ in seen } } }
    #expect("\(try #require(error))".contains("(it is at 0.3, and was at 0.5)"))
    let accepting = try open { $0.beginsEraAfter = seen }
    #expect(accepting.progress == DatabaseProgress(era: 1, group: 3))
    accepting.close()
    // From then on it is further than what anybody has seen.
    let last = try open { $0.seen = { _ in seen } }
    defer { last.close() }
    #expect(await commit(last) { $0.put(.meta, [9], [1]) } == nil)
  }

  @Test("While a server refuses writes they are refused, and its error reaches the operator")
  func refusal() async throws {
    let events = Recorder<String>()
    let store = try open {
      $0.holdMilliseconds = 300
      $0.onEvent = { events.append("\($0)") }
    }
    defer { store.close() }
    try sql("ALTER TABLE apus.meta RENAME TO hidden")
    #expect(await commit(store) { $0.put(.meta, [1], [1]) } == .unavailable)
    try sql("ALTER TABLE apus.hidden RENAME TO meta")
    while !store.isAvailable { try await Task.sleep(for: .milliseconds(10)) }
    #expect(await commit(store) { $0.put(.meta, [1], [2]) } == nil)
    #expect(try store.get(.meta, [1]) == [2])
    #expect(events.all.first?.contains("\"apus.meta\" does not exist") == true)
    #expect(events.all.last == "takes writes again")
  }
}

extension WriteGroup {
  fileprivate mutating func deleteRange(_ family: StoreFamily, from start: UInt8, to end: UInt8) {
    let (start, end) = ([start], [end])
    deleteRange(family, from: start.span, to: end.span)
  }
}
