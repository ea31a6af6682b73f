import ApusCluster
import ApusCore
import ApusDirectory
import ApusLog
import ApusModel
import ApusStore
import ApusTesting
import ApusTrust
import ApusWire
import Foundation
import PostgresServer
import Synchronization
import Testing

@Suite("Making a cluster")
struct ClusterTests {
  private func message(_ body: () throws -> Void) throws -> String {
    let error = #expect(throws: (any Error).self) { try body() }
    return "\(try #require(error))"
  }

  @Test("A service becomes the first node, and says so if it is one already")
  func initializing() throws {
    let nodes = try Nodes(joins: false)
    let all = try nodes.cluster(nodes.a).nodes()
    #expect(all.map(\.name) == ["a"])
    #expect(all[0].address == "a.example" && all[0].version == "1.2" && all[0].state == .stopped)
    #expect(try message { try nodes.initialize() }.contains("is that of the node a already"))
    // Another service cannot take its database.
    let other = try Nodes(joins: false)
    #expect(
      try message {
        _ = try nodes.cluster(other.a).initialize(
          node: .named("x"), address: "", store: nodes.place, parts: 1, allowsSingleServer: true)
      }.contains("not the one of --store"))
  }

  @Test("A start that was interrupted before anything was shared is completed")
  func interrupted() throws {
    let nodes = try Nodes(joins: false)
    try nodes.sql(
      "DELETE FROM apus.file; UPDATE apus.directory SET version = 0; DELETE FROM apus.node")
    #expect(try nodes.initialize() > 5)
    try nodes.join("b")
    #expect(try nodes.areEqual())
  }

  @Test("The number of parts is that of the beginning, on every node")
  func parts() throws {
    let nodes = try Nodes(parts: 3)
    #expect(try nodes.a.clusterMember()?.parts == 3)
    #expect(try nodes.b.clusterMember()?.parts == 3)
    try nodes.sql("DELETE FROM apus.file; UPDATE apus.directory SET version = 0")
    #expect(try message { try nodes.initialize(parts: 2) }.contains("give --parts 3"))
    #expect(try nodes.initialize(parts: 3) > 5)
    try nodes.serve("a")
    try nodes.serve("b", lease: "apus_2")
    let follower = try nodes.follower(nodes.b)
    try follower.pull()
    #expect(follower.orders?.serving.map { $0?.node } == ["a", nil, "b"])
    #expect(follower.nodes.map(\.part) == [0, 2])
  }

  @Test("Devices that are there already are not divided")
  func knownDevices() throws {
    let source = try TestDirectory()
    let name = "cluster-\(UUID().uuidString.lowercased())"
    let place = try StorePlace(PostgresServer.shared.address(of: name))
    guard case .database(let address) = place else { return }
    var options = PostgresOptions()
    options.allowsSingleServer = true
    let store = try source.data.openDatabase(address, options)
    var group = store.makeGroup()
    let row: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 1, 1]
    group.put(.devices, key: row.span, value: row.span)
    try store.write(&group)
    store.close()
    func initialize(_ parts: Int) throws {
      _ = try Cluster(source.data, program: "1.2").initialize(
        node: .named("a"), address: "", store: place, parts: parts, allowsSingleServer: true)
    }
    #expect(try message { try initialize(2) }.contains("has devices already"))
    try initialize(1)
  }

  @Test("Devices are divided while no node runs, and each node learns of it")
  func dividing() throws {
    let nodes = try Nodes()
    let sealer = TokenSealer(try nodes.a.sealingKeys())
    let share = try #require(DeviceShare(part: 1, of: 2))
    for device in (UInt64(1)...20).map({ DeviceID($0) }) {
      let claims = TokenClaims(
        device: device, topic: TopicKey(app: AppID(1), suffix: .none), environment: .production,
        generation: 1)
      let token = String(decoding: Hex.encode(sealer.seal(claims).bytes.span), as: UTF8.self)
      let key = "int8send(\(device.rawValue)) || '\\x01'::bytea"
      try nodes.sql("INSERT INTO apus.devices VALUES (\(key), '\\x01')")
      let slot = "int8send(\(device.rawValue)) || '\\x0000000100'::bytea"
      try nodes.sql("INSERT INTO apus.mailbox VALUES (\(slot), '\\x01')")
      try nodes.sql("INSERT INTO apus.feedback VALUES ('\\x010000000100\(token)', '\\x01')")
    }
    let database = try nodes.a.clusterDatabase(node: "b", purpose: "test")
    func divide(_ parts: Int) throws {
      _ = try nodes.cluster(nodes.a).divide(into: parts, allowsSingleServer: true)
    }
    _ = try database.sign("b", .standby, version: "1.2")
    #expect(try message { try divide(2) }.contains("b is running: stop the services of all nodes"))
    _ = try database.sign("b", .stopped, version: "1.2")
    #expect(try message { try divide(1) }.contains("give a larger --parts"))
    try nodes.serve("b")
    #expect(try message { try divide(2) }.contains("the node b did not give its lease back"))
    try nodes.sql("UPDATE apus.lease SET released = true")
    let before = try nodes.follower(nodes.b)
    #expect(!before.isRearranged)

    try divide(2)
    let moved = (UInt64(1)...20).filter { share.contains(DeviceID($0)) }
    #expect(!moved.isEmpty && moved.count < 20)
    let numbers = "('x' || encode(substring(key FROM 1 FOR 8), 'hex'))::bit(64)::bigint"
    #expect(
      try nodes.sql("SELECT \(numbers) FROM apus_1.devices ORDER BY 1") == moved.map { "\($0)" })
    #expect(try nodes.sql("SELECT count(*) FROM apus_1.feedback") == ["\(moved.count)"])
    #expect(try nodes.a.clusterMember()?.parts == 2)
    // A command on another node reads all parts.
    #expect(try nodes.b.clusterMember()?.parts == 1)
    #expect(try nodes.b.storedNotificationCount() == 20)
    #expect(try nodes.b.clusterMember()?.parts == 2)
    // A process that knew the old number, and had no connection meanwhile.
    try before.pull()
    #expect(before.isRearranged)
    #expect(try nodes.b.clusterMember()?.parts == 2)
    #expect(try nodes.b.clusterMember()?.key == nodes.a.clusterMember()?.key)
    let after = try nodes.follower(nodes.b)
    try after.pull()
    #expect(!after.isRearranged)
    #expect(try nodes.areEqual())
  }

  @Test("A part moves to a database of its own while no node runs, and each node learns of it")
  func moving() throws {
    let nodes = try Nodes(parts: 2)
    let database = try nodes.a.clusterDatabase(node: "b", purpose: "test")
    let name = "\(nodes.database)-other"
    let other = try StorePlace(PostgresServer.shared.address(of: name))
    func move(_ part: Int, to place: StorePlace) throws -> Int? {
      try nodes.cluster(nodes.a).move(part, to: place, allowsSingleServer: true)
    }
    guard case .database(let address) = nodes.place else { return }
    // Devices in both parts.
    for part in 0..<2 {
      var options = PostgresOptions()
      (options.node, options.part, options.allowsSingleServer) = ("b", part, true)
      let store = try nodes.b.openDatabase(address, options)
      var group = store.makeGroup()
      let key: [UInt8] = [0, 0, 0, 0, 0, 0, 0, UInt8(part), 0, 0, 0, 1, 0]
      group.put(.mailbox, key: key.span, value: [1].span)
      try store.write(&group)
      store.close()
    }
    _ = try database.sign("b", .standby, version: "1.2")
    #expect(
      try message { _ = try move(1, to: other) }.contains(
        "b is running: stop the services of all nodes"))
    _ = try database.sign("b", .stopped, version: "1.2")
    #expect(try message { _ = try move(0, to: other) }.contains("is one of 1 to 1; part 0"))
    #expect(try message { _ = try move(2, to: other) }.contains("is one of 1 to 1; part 0"))
    #expect(try message { _ = try move(1, to: .embedded) }.contains("postgresql://"))
    let before = try nodes.follower(nodes.b)
    try before.pull()
    #expect(!before.isRearranged)
    _ = try database.sign("b", .stopped, version: "1.2")

    #expect(try move(1, to: other) == 1)
    // A command on another node reads both databases.
    #expect(try nodes.b.storedNotificationCount() == 2)
    #expect(
      try PostgresServer.shared.sql("SELECT count(*) FROM apus_1.mailbox", in: name) == ["1"])
    let parts = try nodes.cluster(nodes.b).parts()
    #expect(parts.map(\.database) == ["\(nodes.place)", "\(other)"])
    #expect(parts.map(\.number) == [0, 1] && parts.allSatisfy { $0.node == nil })
    try before.pull()
    #expect(before.isRearranged)
    let after = try nodes.follower(nodes.b)
    try after.pull()
    #expect(!after.isRearranged)
    _ = try database.sign("b", .stopped, version: "1.2")
    // The address has a password: only its owner reads it, and it is encrypted in the database.
    #expect(
      try FileManager.default.attributesOfItem(atPath: nodes.b.partsFile)[.posixPermissions] as? Int
        == 0o600)
    #expect(
      try nodes.sql("SELECT count(*) FROM apus.file WHERE position('\(name)' IN content) > 0")
        == ["0"])
    #expect(
      try message { _ = try nodes.cluster(nodes.b).divide(into: 3, allowsSingleServer: true) }
        .contains("part 1 has a database of its own"))
    // A node opens what is there, as its own.
    var options = PostgresOptions()
    (options.node, options.part, options.allowsSingleServer) = ("b", 1, true)
    let store = try nodes.b.openDatabase(address, options)
    #expect(store.predecessor == 1)
    store.close()

    #expect(try move(1, to: nodes.place) == 1)
    #expect(try nodes.cluster(nodes.a).parts().allSatisfy { $0.database == "\(nodes.place)" })
    #expect(try nodes.b.storedNotificationCount() == 2)
    _ = try nodes.cluster(nodes.b).divide(into: 3, allowsSingleServer: true)
  }

  @Test("An embedded store is no cluster's")
  func embedded() throws {
    let nodes = try Nodes(joins: false)
    let directory = nodes.directory("single")
    try FileManager.default.copyItem(atPath: nodes.a.path, toPath: directory.path)
    for name in ["cluster", "store.made", "store.url"] {
      try FileManager.default.removeItem(atPath: "\(directory.path)/\(name)")
    }
    let text = try message {
      _ = try nodes.cluster(directory).initialize(
        node: .named("x"), address: "", store: nil, parts: 1, allowsSingleServer: true)
    }
    #expect(text.contains("apus store copy embedded postgresql://"))
    #expect(try message { _ = try nodes.cluster(directory).nodes() }.contains("apus cluster join"))
  }

  @Test("A code lets one node in")
  func codes() throws {
    let nodes = try Nodes(joins: false)
    let code = try nodes.cluster(nodes.a).invite()
    #expect(JoinCode(code.text) == code)
    #expect(JoinCode("AAAA") == nil)
    try nodes.cluster(nodes.b).join(nodes.place, code, node: .named("b"), address: "b.example")
    #expect(try nodes.cluster(nodes.b).nodes().map(\.name) == ["a", "b"])
    for (name, code) in [("c", code), ("d", JoinCode())] {
      let text = try message {
        try nodes.cluster(nodes.directory(name)).join(
          nodes.place, code, node: .named(name), address: "")
      }
      #expect(text.contains("the code is not valid"))
    }
    #expect(!nodes.directory("c").isInCluster)
  }

  @Test("Nodes that run at the same time are one release apart at most")
  func releases() throws {
    let nodes = try Nodes()
    // A node of release 1.2 lives.
    try nodes.follow(nodes.a)
    func cluster(_ directory: DataDirectory, _ program: String) -> Cluster {
      Cluster(directory, program: program)
    }
    for program in ["1.1.0", "1.2.7", "1.3.0", "2.0.0"] {
      try cluster(nodes.b, program).requireNeighbours()
    }
    let code = try nodes.cluster(nodes.a).invite()
    for program in ["1.0.3", "1.4.0", "2.1.0"] {
      let texts = [
        try message { try cluster(nodes.b, program).requireNeighbours() },
        try message {
          try cluster(nodes.directory("c"), program).join(
            nodes.place, code, node: .named("c"), address: "")
        },
      ]
      for text in texts {
        #expect(text.contains("the node a runs version 1.2, and this is version \(program)"))
      }
    }
    #expect(!nodes.directory("c").isInCluster)
    // The code was not used, and a node that is away is in nobody's way, nor is a program's own.
    try nodes.sql("UPDATE apus.node SET seen = seen - interval '4 seconds' WHERE name = 'a'")
    try cluster(nodes.a, "1.4.0").requireNeighbours()
    try cluster(nodes.directory("c"), "1.4.0").join(
      nodes.place, code, node: .named("c"), address: "")
  }

  @Test("Tables of an earlier version say which nodes run, and stay as they are")
  func earlierTables() throws {
    let nodes = try Nodes()
    try nodes.follow(nodes.a)
    try nodes.sql(
      "ALTER TABLE apus.directory DROP COLUMN parts; UPDATE apus.service SET version = 2")
    let text = try message {
      try Cluster(nodes.b, program: "1.4.0").requireNeighbours()
    }
    #expect(text.contains("the node a runs version 1.2"))
    #expect(try nodes.sql("SELECT version FROM apus.service") == ["2"])
    try nodes.sql("DROP TABLE apus.node")
    try Cluster(nodes.b, program: "1.4.0").requireNeighbours()
  }

  @Test("A node's name is its own")
  func names() throws {
    let nodes = try Nodes()
    let text = try message {
      try nodes.cluster(nodes.directory("c")).join(
        nodes.place, nodes.cluster(nodes.a).invite(), node: .named("b"), address: "")
    }
    #expect(text.contains("has a node b already"))
    #expect(!nodes.directory("c").isInCluster)
    #expect(
      try message {
        try nodes.cluster(nodes.b).join(
          nodes.place, nodes.cluster(nodes.a).invite(), node: .named("d"), address: "")
      }.contains("contains a service already"))
  }

  @Test("A node that serves is not removed, and one is not drained if nobody would serve")
  func drainingAndRemoving() throws {
    let nodes = try Nodes()
    let cluster = nodes.cluster(nodes.b)
    let place = try #require(try nodes.a.storePlace())
    guard case .database(let address) = place else { return }
    let database = try ClusterDatabase(address, node: "a", purpose: "test")
    _ = try database.sign("a", .serving, version: "1.2")
    #expect(try message { try cluster.remove(.named("a")) }.contains("apus cluster drain a"))
    #expect(
      try message { _ = try cluster.drain(.named("a"), withinSeconds: 1) }
        .contains("no other node stands by"))
    _ = try database.sign("b", .standby, version: "1.2")
    // It is asked, and does not answer: nothing runs here.
    #expect(
      try message { _ = try cluster.drain(.named("a"), withinSeconds: 0) }
        .contains("still serves after 0 s"))
    #expect(try cluster.nodes()[0].isDraining)
    try cluster.resume(.named("a"))
    #expect(try !cluster.nodes()[0].isDraining)
    // One that does not serve needs not be waited for.
    #expect(try cluster.drain(.named("b"), withinSeconds: 1) == nil)
    try cluster.remove(.named("b"))
    #expect(try nodes.cluster(nodes.a).nodes().map(\.name) == ["a"])
    for action in [cluster.resume, cluster.remove] {
      #expect(try message { try action(.named("b")) }.contains("no node b"))
    }
  }

  @Test("Every node notices that the database went back in time")
  func wentBack() throws {
    let nodes = try Nodes()
    try nodes.sql("UPDATE apus.lane SET n = 7")
    let lines = Mutex<[String]>([])
    let follower = ClusterFollower(
      nodes.b, try #require(try nodes.b.clusterMember()), program: "1.2",
      log: Log(sink: { line in lines.withLock { $0.append(line) } }))
    try follower.catchUp()
    #expect(lines.withLock { $0.isEmpty })
    try nodes.sql("UPDATE apus.lane SET n = 6")
    for _ in 0..<2 { try follower.catchUp() }
    #expect(lines.withLock { $0.count } == 1)
    #expect(lines.withLock { $0.first?.contains("lacks writes that it had acknowledged") } == true)
    let error = #expect(throws: StoreError.self) {
      var options = PostgresOptions()
      options.allowsSingleServer = true
      guard case .database(let address) = nodes.place else { return }
      try nodes.b.openDatabase(address, options).close()
    }
    #expect("\(try #require(error))".contains("(it is at 0.6, and was at 0.7)"))
  }

  @Test("What the store notes while the database is asked makes no older answer a step back")
  func olderAnswer() throws {
    let nodes = try Nodes()
    func progress(_ group: Int64) -> DatabaseProgress { DatabaseProgress(era: 0, group: group) }
    #expect(nodes.b.note(progress(7), after: nodes.b.seenProgress))
    // Asked when the database was at 5, and answered late.
    #expect(nodes.b.note(progress(6), after: progress(5)))
    #expect(nodes.b.seenProgress == progress(7))
    #expect(!nodes.b.note(progress(6), after: nodes.b.seenProgress))
    #expect(nodes.b.note(progress(8), after: nodes.b.seenProgress))
    #expect(nodes.b.seenProgress == progress(8))
  }

  @Test("A follower that waited for the directory does not set it back")
  func waitingFollower() throws {
    let nodes = try Nodes()
    let files = SharedFiles(nodes.b, try #require(try nodes.b.clusterMember()))
    let follower = try nodes.follower(nodes.b)
    let database = try nodes.b.clusterDatabase(node: "b", purpose: "command")
    try nodes.a.retire(DeviceID(1), nowSeconds: 1)
    let isOver = DispatchSemaphore(value: 0)
    try nodes.b.locked {
      DispatchQueue.global().async {
        try? follower.catchUp()
        isOver.signal()
      }
      // It has asked the database by then, and waits.
      usleep(300_000)
      try nodes.a.retire(DeviceID(2), nowSeconds: 1)
      try files.pull(database, #require(try database.directory()))
    }
    isOver.wait()
    #expect(try files.version == database.directory()?.version)
    #expect(try nodes.areEqual())
  }

  @Test("A follower updates its node within a second, and learns that it drains or was removed")
  func follower() async throws {
    let nodes = try Nodes()
    let follower = try nodes.follower(nodes.b)
    follower.start()
    while follower.orders == nil { try await Task.sleep(for: .milliseconds(10)) }
    try nodes.a.retire(DeviceID(7), nowSeconds: 1)
    try await Task.sleep(for: .seconds(1))
    #expect(try nodes.areEqual())
    follower.setRole(.serving)
    _ = try? nodes.cluster(nodes.a).drain(.named("b"), withinSeconds: 0)
    while try nodes.cluster(nodes.a).nodes()[1].state != .serving {
      try await Task.sleep(for: .milliseconds(10))
    }
    follower.stop()
    #expect(try nodes.cluster(nodes.a).nodes()[1].state == .stopped)
    try nodes.cluster(nodes.a).remove(.named("b"))
    let second = try nodes.follower(nodes.b)
    try second.catchUp()
    #expect(second.isRemoved)
  }
}
